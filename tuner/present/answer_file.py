"""`answer.json`: a study's answer as it is shown and listed, to be read in milliseconds.

The storage is the source of truth: a session removes the file as it begins and writes it at its
end, so it is never older than the study. What cannot be told from it is told from the storage.
"""

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from tuner.files import read_bounded, written_atomically
from tuner.present.summary_parts import Part
from tuner.study.file_lock import holder_of
from tuner.study.folder import STUDIES, StudyFolder, names_in

FORMAT = 1


class KeptAnswer(NamedTuple):
    """What the file of a study says."""

    folder: StudyFolder
    listed: dict[str, Any]
    """The study's entry in `list --json`."""
    document: dict[str, Any]
    """What `show --json` prints."""
    parts: list[Part]
    """What `show` prints."""
    seen_from: list[str]
    """The current folder of the search and the study's folder, which paths in `parts` rest on."""

    @property
    def is_seen_from_here(self) -> bool:
        """Whether the paths in `parts` are right as the study is named now."""
        return self.seen_from == _seen_from(self.folder)


def write_answer_file(
    folder: StudyFolder, listed: dict[str, Any], document: dict[str, Any], parts: list[Part]
) -> None:
    """Keep what is shown and listed of a study."""
    from tuner.json_text import json_of

    content = {
        "format": FORMAT,
        "listed": listed,
        "document": document,
        "parts": parts,
        "seen_from": _seen_from(folder),
    }
    folder.manifest.add(folder.answer)
    with written_atomically(folder.answer) as partial:
        # As it is read: JSON has no NaN and no tuples.
        partial.write_bytes(json_of({**content, "check": _check(json.loads(json_of(content)))}))


def kept_answer(folder: StudyFolder) -> KeptAnswer | None:
    """What the folder's file says of its only study; None where the storage has to be asked.

    So it has while a search runs.
    """
    if holder_of(folder.lock) is not None:
        return None
    try:
        content = json.loads(read_bounded(folder.answer))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return None
    try:
        if content.pop("check") != _check(content):
            return None
        found = KeptAnswer(
            folder=folder,
            listed={**content["listed"], "folder": str(folder.root)},
            document=content["document"],
            parts=content["parts"],
            seen_from=content["seen_from"],
        )
        name = found.listed["study"]
    except (KeyError, TypeError):
        return None
    return found if names_in(folder.database) == [name] else None


def _check(content: dict[str, Any]) -> int:
    """A checksum: a damaged file is as good as none."""
    return zlib.crc32(json.dumps(content).encode())


def find_kept_answer(reference: str, out: Path | None) -> KeptAnswer | None:
    """That of a study by its name or the path of its folder, as `find_study` finds it."""
    if out is not None:
        found = kept_answer(StudyFolder(out))
        return found if found is not None and found.listed["study"] == reference else None
    named = Path(reference)
    if named.name == StudyFolder(Path()).database.name:
        named = named.parent
    for folder in (StudyFolder(STUDIES / reference), StudyFolder(named)):
        if reference and folder.database.is_file():
            return kept_answer(folder)
    return None


def _seen_from(folder: StudyFolder) -> list[str]:
    return [str(Path.cwd()), str(folder.root)]
