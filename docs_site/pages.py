"""Which files outside docs/ are in the site, and how links to them are written there."""

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
"""The pages that lie outside docs/, and where they are in the site."""

_LINK = re.compile(r"```.*?```|\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", re.DOTALL)
_FENCED = r"^```.*?^```"
_INNER = re.compile(rf"{_FENCED}|^ {{2,3}}(?=[-*] |\d+\. )", re.DOTALL | re.MULTILINE)
_BEGUN = re.compile(
    rf"{_FENCED}|^(?![-*#|>\s]|\d+\. )[^\n]+\n(?=[-*] |1\. )", re.DOTALL | re.MULTILINE
)
_IN_DOCS = "docs/"


def repository_path(uri: str) -> str:
    """The path in the repository of a page of the site."""
    return next((path for path, there in PAGES.items() if there == uri), _IN_DOCS + uri)


def linked_files() -> dict[str, Path]:
    """The files that pages link to and that are no pages: where they are in the site, and here."""
    pages = [*(ROOT / name for name in PAGES), *(ROOT / "docs").rglob("*.md")]
    found = {}
    for page in pages:
        for path in _targets(page.read_text(), page.relative_to(ROOT).as_posix()):
            if _site_uri(path) == path and (ROOT / path).is_file():
                found[path] = ROOT / path
    return found


def with_site_links(markdown: str, uri: str) -> str:
    """A page whose links to files of the repository lead to where these are in the site.

    Of a link to a folder the text remains: a site has no page for it.
    """
    here = repository_path(uri)

    def rewritten(found: re.Match[str]) -> str:
        if found[2] is None or not _is_relative(found[2]):
            return found[0]
        target, hash_sign, anchor = found[2].partition("#")
        path = _resolved(here, target)
        if (ROOT / path).is_dir():
            return found[1]
        there = posixpath.relpath(_site_uri(path), posixpath.dirname(uri) or ".")
        text = _LINK.sub(rewritten, found[1])
        return f"[{text}]({there}{hash_sign}{anchor})"

    return _LINK.sub(rewritten, markdown)


def with_site_lists(markdown: str) -> str:
    """A page whose lists are lists in the site too.

    GitHub takes an inner list by two spaces, and a list right below a paragraph. Python-Markdown
    needs four spaces, and an empty line.
    """
    markdown = _INNER.sub(lambda found: found[0] if found[0].strip() else " " * 4, markdown)
    return _BEGUN.sub(
        lambda found: found[0] if found[0].startswith("```") else f"{found[0]}\n", markdown
    )


def _targets(markdown: str, here: str) -> Iterator[str]:
    """The paths in the repository that a page links to."""
    for found in _LINK.finditer(markdown):
        if found[2] is not None and _is_relative(found[2]):
            yield _resolved(here, found[2].partition("#")[0])


def _is_relative(target: str) -> bool:
    return not target.startswith("#") and "://" not in target


def _resolved(here: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), target))


def _site_uri(path: str) -> str:
    """Where a file of the repository is in the site."""
    return PAGES.get(path, path.removeprefix(_IN_DOCS))


Reader = Callable[[], str]


def page_readers() -> dict[str, Reader]:
    """For each page from outside docs/, its place in the site, and what reads it."""
    return {uri: (ROOT / path).read_text for path, uri in PAGES.items()}
