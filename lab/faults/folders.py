"""Folders that are not a study's: a search leaves them as they are."""

from collections.abc import Callable, Set
from functools import partial
from pathlib import Path
from typing import Any

from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import fake_search
from tuner.errors import UsageError

_FILES = ("notes.txt", "report.html", "traces/mine.json", "artifacts/thesis.pdf")


def _write(folder: Path) -> None:
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"mine: {name}")


def _content(folder: Path) -> Set[tuple[Path, bytes]]:
    # Each search that looks at a folder writes into its lock who it is.
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "search.lock"]
    return {(path, path.read_bytes()) for path in files}


def _refused(prepare: Callable[[Path], object], folder: Path, **changes: Any) -> Outcome:
    """A search in a folder that is prepared so is refused, and changes nothing in it."""
    out = folder / "study"
    prepare(out)
    before = _content(folder)
    try:
        fake_search(out, **changes)
    except UsageError as error:
        told = str(error).replace(str(folder), "")
        changed = before ^ _content(folder)
        return Outcome(told=f"refused: {told}", survived=True, lost=len(changed))
    return Outcome(told="it was used", survived=False)


def _foreign_among_ours(folder: Path) -> Outcome:
    """What a person has put into a study's folder stays when the study is made anew."""
    out = folder / "study"
    fake_search(out)
    _write(out / "mine")
    before = _content(out / "mine")
    fake_search(out, overwrite=True)
    lost = len(before ^ _content(out / "mine"))
    return Outcome(told=f"{len(before)} foreign files, all kept", survived=not lost, lost=lost)


_UNCHANGED = "refused, nothing changed"

ROWS = tuple(
    Row(fault, expected, inject, is_quick=True, starts_worlds=False)
    for fault, expected, inject in (
        ("--out names a folder of foreign files", _UNCHANGED, partial(_refused, _write)),
        ("--out names a folder of foreign files, with --overwrite", _UNCHANGED,
         partial(_refused, _write, overwrite=True)),
        ("--out names the folder of another study", _UNCHANGED,
         partial(_refused, lambda out: fake_search(out, name="another"))),
        ("--out names a file", _UNCHANGED,
         partial(_refused, lambda out: out.write_text("mine"))),
        ("--overwrite of a study with foreign files in its folder",
         "only what the study's manifest lists is removed", _foreign_among_ours),
    )
)  # fmt: skip
