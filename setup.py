"""What pyproject.toml cannot know: the addresses of the repository that a release is built in."""

import os
import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md")
RELATIVE = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!https?://|#)(?P<path>[^)\s]+)\)")


REPOSITORY = os.environ.get("RELEASED_FROM", "")
"""The address of the repository, as the workflow of a release tells it; empty anywhere else."""
TAG = os.environ.get("RELEASED_AS", "main")
"""The tag of the release."""


def addresses(base: str, tag: str) -> dict[str, str]:
    """The links beside a release on the package index."""
    pages = {
        "Repository": base,
        "Documentation": f"{base}/tree/{tag}/docs",
        "Changelog": f"{base}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{base}/issues",
        "Security": f"{base}/security",
    }
    return pages if base else {}


def description(text: str, base: str, tag: str) -> str:
    """The README, whose links and pictures lead into the repository from anywhere."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}{found['text']}({base}/{kind}/{tag}/{found['path']})"

    return RELATIVE.sub(absolute, text) if base else text


if __name__ == "__main__":
    setup(
        project_urls=addresses(REPOSITORY, TAG),
        long_description=description(README.read_text(encoding="utf-8"), REPOSITORY, TAG),
        long_description_content_type="text/markdown",
    )
