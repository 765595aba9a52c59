"""The list of the files that a study wrote into its folder: all that a search may remove there."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.errors import UsageError
from tuner.files import written_atomically

NAME = "study.manifest"
_FORMAT = "rpc-tuner study, format 1"
_ANY_FORMAT = "rpc-tuner study, format "
_TORN = "\0"
"""Ends a line that was written in part; no file has it in its name."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a folder, whether or not it has one.

    Its first line is the format, its second the study's name, and each further line a file, by
    its path relative to the folder. It only grows, so that a process that dies loses nothing.
    """

    root: Path

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / NAME

    def study(self) -> str | None:
        """The name of the study whose folder it is; None if the folder has no manifest.

        UsageError if a newer version wrote it.
        """
        lines = self._lines()
        return lines[1] if len(lines) > 1 else None

    def files(self) -> list[Path]:
        """Every file that the study wrote, below the root; some may be gone."""
        named = dict.fromkeys(self._lines()[2:])
        return [self.root / line for line in named if _is_inside(line)]

    def begin(self, study: str, files: Iterable[Path] = ()) -> None:
        """Mark the folder as the study's, with the files that it has so far."""
        lines = [_FORMAT, study, *map(self._line, files)]
        with written_atomically(self.path) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def begin_if_empty(self, study: str) -> None:
        """Mark a folder that is new, or empty, as the study's."""
        if not self.root.exists() or not any(self.root.iterdir()):
            self.begin(study)

    def add(self, *files: Path) -> None:
        """List files that the study writes now. Nothing happens where there is no manifest."""
        known = self._lines()
        new = [line for line in map(self._line, files) if line not in known]
        if not known or not new:
            return
        text = "".join(f"{line}\n" for line in new)
        if not self.path.read_bytes().endswith(b"\n"):
            text = f"{_TORN}\n{text}"
        with self.path.open("ab") as file:
            file.write(text.encode())

    def remove_files(self, *, but: Iterable[Path] = ()) -> None:
        """Remove the files of the study, and folders that are empty then; the manifest stays.

        UsageError if one cannot be removed.
        """
        files = [path for path in self.files() if path not in set(but)]
        folders = {folder for path in files for folder in path.relative_to(self.root).parents}
        for path in files:
            if path.is_file() or path.is_symlink():
                with _removing(path):
                    path.unlink(missing_ok=True)
        for relative in sorted(folders - {Path()}, key=lambda folder: -len(folder.parts)):
            folder = self.root / relative
            if folder.is_dir() and not any(folder.iterdir()):
                with _removing(folder):
                    folder.rmdir()

    def _line(self, file: Path) -> str:
        return file.absolute().relative_to(self.root.absolute()).as_posix()

    def _lines(self) -> list[str]:
        """The whole lines; none if this is no manifest of ours."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from None
        # What follows the last line's end was written in part.
        lines = [line for line in text.split("\n")[:-1] if _TORN not in line]
        if not lines or not lines[0].startswith(_ANY_FORMAT):
            return []
        if lines[0] != _FORMAT:
            raise UsageError(
                f"the folder {self.root} was written by a newer rpc-tuner ({lines[0]}; this "
                f"version reads {_FORMAT}): upgrade rpc-tuner"
            )
        return lines


@contextmanager
def _removing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"cannot remove {path}: {reason}") from None


def _is_inside(line: str) -> bool:
    path = PurePosixPath(line)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
