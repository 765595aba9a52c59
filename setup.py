"""What pyproject.toml cannot know: the addresses of the repository that a release is built in."""

import os
import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md")
RELATIVE = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!https?://|#)(?P<path>[^)\s]+)\)")


def repository() -> str:
    """The address of the repository, as GitHub Actions tells it; empty anywhere else."""
    name = os.environ.get("GITHUB_REPOSITORY")
    return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}" if name else ""


def addresses(base: str) -> dict[str, str]:
    """The links beside a release on the package index."""
    pages = {
        "Repository": base,
        "Documentation": f"{base}/tree/main/docs",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
        "Issues": f"{base}/issues",
        "Security": f"{base}/security",
    }
    return pages if base else {}


def description(text: str, base: str) -> str:
    """The README, whose links and pictures lead into the repository from anywhere."""
    at = os.environ.get("GITHUB_REF_NAME", "main")

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}{found['text']}({base}/{kind}/{at}/{found['path']})"

    return RELATIVE.sub(absolute, text) if base else text


if __name__ == "__main__":
    setup(
        project_urls=addresses(repository()),
        long_description=description(README.read_text(encoding="utf-8"), repository()),
        long_description_content_type="text/markdown",
    )
