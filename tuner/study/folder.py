"""Where a study keeps its files: the one place that knows their names, and the list of them."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from tuner.errors import UsageError
from tuner.files import check_writable, shown, written_atomically
from tuner.plan.config import Config
from tuner.study.file_lock import locked_file
from tuner.text import did_you_mean

STUDIES = Path("studies")  # where a search puts a study's folder unless it is given another folder
MANIFEST = "study.manifest"

_FORMAT = "rpc-tuner study, format 1"
_ANY_FORMAT = "rpc-tuner study, format "
_TORN = "\0"  # ends a line that was written in part; no file has it in its name


def studies_in(folder: Path) -> list[Path]:
    """The folders in `folder` that hold a study's database, by name."""
    return sorted(path.parent for path in folder.glob(f"*/{StudyFolder(Path()).database}"))


def folder_of(reference: str) -> "StudyFolder | None":
    """Where a study is, or a search that failed before its first world, by the study's name, by
    the path of its folder, or by that of its database; None if it is not there."""
    named = Path(reference)
    if named.name == StudyFolder(named).database.name:
        named = named.parent
    folders = (StudyFolder(STUDIES / reference), StudyFolder(named)) if reference else ()
    return next((each for each in folders if each.database.is_file() or each.is_begun), None)


def known_folder(reference: str) -> Path:
    """The folder of a study, as `folder_of` finds it; UsageError if it is not there."""
    if (found := folder_of(reference)) is not None:
        if found.database.is_file():
            return found.root
        raise UsageError(
            f"the search of {reference} failed before its first world, as "
            f"{shown(found.first_run)} tells: give its whole command again"
        )
    known = [folder.name for folder in studies_in(STUDIES)]
    tail = did_you_mean(reference, known) if known else f"; the folder {STUDIES} holds none"
    raise UsageError(
        f"there is no study {reference!r}{tail}. Give the name of a study in {STUDIES.resolve()} "
        "or the path of its folder. One that was searched with --storage URL needs that again"
    )


def is_there_already(name: str, where: object, *, is_usual: bool) -> str:
    """What to say of a study in the way of a new one."""
    elsewhere = "--study" if is_usual else "--study with another --out"
    return (
        f"there is a study {name} in {where} already: --resume continues it, --overwrite deletes "
        f"it first, another {elsewhere} keeps it"
    )


def begun_in(folder: Path) -> "list[StudyFolder]":
    """The folders in `folder` of searches that failed before their first world, by name."""
    found = (StudyFolder(path.parents[1]) for path in sorted(folder.glob("*/failures/first-run")))
    return [each for each in found if each.is_begun]


def names_in(database: Path) -> list[str] | None:
    """The studies in an SQLite file; None where only Optuna, which starts slowly, can read it."""
    url = f"file:{quote(str(database.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(url, uri=True, timeout=1)) as connection:
            rows = connection.execute("SELECT study_name FROM studies").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    names = [name for (name,) in rows]
    return sorted(names) if all(isinstance(name, str) for name in names) else None


@dataclass(frozen=True)
class Manifest:
    """The manifest of a folder, if it has one: its format, the study's name, and a file a line; it
    only grows, so that a process that dies loses nothing.
    """

    root: Path

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / MANIFEST

    def study(self) -> str | None:
        """The name of the study whose folder it is. UsageError if a newer version wrote it."""
        lines = self._lines()
        return lines[1] if len(lines) > 1 else None

    def files(self) -> list[Path]:
        """Every file that the study wrote, below the root; some may be gone."""
        named = dict.fromkeys(self._lines()[2:])
        paths = [PurePosixPath(line) for line in named]
        inside = [each for each in paths if not each.is_absolute() and ".." not in each.parts]
        return [self.root / each for each in inside if each.parts]

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
        """Remove the files of the study, and folders that are empty. UsageError if one stays."""
        files = [path for path in self.files() if path not in set(but)]
        folders = {each for path in files for each in path.parents if self.root in each.parents}
        inner_first = sorted(folders, key=lambda folder: -len(folder.parts))
        for path in (*files, *inner_first):
            try:
                if path.is_file() or path.is_symlink():
                    path.unlink(missing_ok=True)
                elif path.is_dir() and path not in files and not any(path.iterdir()):
                    path.rmdir()
            except OSError as error:
                raise UsageError(f"cannot remove {path}: {error.strerror or error}") from None

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


class _Within:
    """A path in a study's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "StudyFolder", owner: type) -> Path:
        return folder.root / self._name


@dataclass(frozen=True)
class StudyFolder:
    """The paths of one study's files; nothing is created by naming them."""

    root: Path

    database = _Within("study.db")  # unless a storage URL puts the study elsewhere
    trials_csv = _Within("trials.csv")
    recommended = _Within("recommended.json")
    answer = _Within("answer.json")  # a session removes it, and writes it at its end
    report = _Within("report.html")
    figures = _Within("figures")  # of the report, each as SVG and as PNG
    artifacts = _Within("artifacts")  # Optuna's artifact store, for a dashboard
    traces = _Within("traces")  # one per configuration
    failures = _Within("failures")  # one folder per failed world
    first_run = _Within("failures/first-run")  # of a program that failed before its study began
    lock = _Within("search.lock")  # held by a search as long as it runs
    unsaved = _Within("unsaved.jsonl")  # what was measured and is not in the storage yet
    reserve = _Within("unsaved.reserve")  # holds the place on the disk for it

    def failure(self, config: Config, block: int, *, again: bool = False, attempt: int = 0) -> Path:
        """The folder of one failed world, by what its `Record` says: its output, and its stacks."""
        place = "first" if block < 0 else f"block{block:04d}"
        which = f"{'-again' * again}{f'-{attempt + 1}' if attempt else ''}"
        return self.failures / f"{config.slug}-{place}{which}"

    def trace(self, config: Config) -> Path:
        """The trace of a configuration."""
        return self.traces / f"{config.slug}.json"

    def trace_failure(self, config: Config) -> Path:
        """The folder of a traced world that failed."""
        return self.failures / f"{config.slug}-trace"

    def failure_text(self, kind: str, message: str) -> str:
        """What a person reads of a failure: its kind once, and where its evidence is."""
        text = self.with_path(message)
        return text if kind in message else f"{kind}: {text}"

    def with_path(self, message: str) -> str:
        """Why something failed, its evidence named by a path that a person can open."""
        return message.replace("; see failures/", f"; see {shown(self.failures)}/")

    @property
    def is_begun(self) -> bool:
        """Whether a search failed before its first world here: there is nothing to go on with."""
        has_more = self.database.exists() or self.answer.exists()
        return self.first_run.exists() and not has_more and self.manifest.study() is not None

    @property
    def manifest(self) -> Manifest:
        """Which of the files here are the study's."""
        return Manifest(self.root)

    def absolute(self) -> "StudyFolder":
        """The same folder, for processes that may have another current one."""
        return StudyFolder(self.root.absolute())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second search out of the folder, which is made, and is removed if no study has
        begun in it. UsageError if it is taken."""
        made = [path for path in (self.root, *self.root.parents) if not path.exists()]
        try:
            with locked_file(
                self.lock,
                f"another search is running in the folder {self.root}",
                keep=lambda: self.manifest.path.exists() or self.database.exists(),
            ):
                yield
        finally:
            with suppress(OSError):
                for path in made:
                    if path.is_dir() and not any(path.iterdir()):
                        path.rmdir()

    def check_writable(self) -> None:
        """UsageError unless files can be made here. Leaves nothing behind."""
        try:
            check_writable(self.root)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"cannot write the study folder {self.root}: {reason}") from None
