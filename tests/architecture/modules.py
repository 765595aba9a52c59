"""The tables of files in docs/architecture.md, from the first sentence of each module."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TOPS = ("tuner", "workloads")
_TABLE = re.compile(r"(<!-- files of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with each table between its marks written again."""
    return _TABLE.sub(lambda found: found[1] + _table(ROOT / found[2]) + found[3], page)


def folders_of(page: str) -> set[str]:
    """The folders whose files the page lists."""
    return {found[2] for found in _TABLE.finditer(page)}


def folders() -> set[str]:
    """Every folder of the packages that holds modules."""
    packages = (path.parent for top in TOPS for path in (ROOT / top).rglob("__init__.py"))
    return {str(path.relative_to(ROOT)) for path in packages if any(_modules(path))}


def _table(folder: Path) -> str:
    rows = [f"| `{path.name}` | {_first_sentence(path)} |" for path in _modules(folder)]
    return "\n".join(["| file | what it is |", "|---|---|", *rows, ""])


def _modules(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py")


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} does not say what it is"
    return docstring.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
