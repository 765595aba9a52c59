"""Where a study keeps its files: the one place that knows their names."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UsageError
from tuner.files import shown
from tuner.plan.config import Config
from tuner.study.locking import locked_file
from tuner.study.manifest import Manifest

STUDIES = Path("studies")
"""Where a search puts a study's folder if it is not told where."""

_OLD_NAMES = (
    "study.db", "trials.csv", "recommended.json", "report.html", "search.lock",
    "artifacts/????????-????-????-????-????????????", "traces/*=*.json", "traces/defaults.json",
    "failures/*-block[0-9][0-9][0-9][0-9]/*", "failures/*-trace/*",
)  # fmt: skip


def studies_in(folder: Path) -> list[Path]:
    """The folders in `folder` that hold a study's database, by name."""
    return sorted(path.parent for path in folder.glob(f"*/{StudyFolder(Path()).database}"))


def begun_in(folder: Path) -> "list[StudyFolder]":
    """The folders in `folder` of searches that failed before their first world, by name."""
    found = [StudyFolder(path.parent.parent) for path in folder.glob("*/failures/first-run")]
    ended = [each for each in found if not (each.database.exists() or each.answer.exists())]
    return sorted((each for each in ended if each.manifest.study()), key=lambda each: each.root)


@dataclass(frozen=True)
class StudyFolder:
    """The paths of one study's files; nothing is created by naming them."""

    root: Path

    @property
    def database(self) -> Path:
        """The Optuna study, unless a storage URL puts it elsewhere."""
        return self.root / "study.db"

    @property
    def trials_csv(self) -> Path:
        """One row per configuration."""
        return self.root / "trials.csv"

    @property
    def recommended(self) -> Path:
        """The answer, for `init_rpc`."""
        return self.root / "recommended.json"

    @property
    def answer(self) -> Path:
        """The answer as it is shown and listed; a session removes it, and writes it at its end."""
        return self.root / "answer.json"

    @property
    def report(self) -> Path:
        """The page that tells everything, for a browser."""
        return self.root / "report.html"

    @property
    def figures(self) -> Path:
        """The report's figures, each as SVG and as PNG."""
        return self.root / "figures"

    @property
    def artifacts(self) -> Path:
        """Optuna's artifact store of the study: what a dashboard shows with it."""
        return self.root / "artifacts"

    @property
    def failures(self) -> Path:
        """One folder per failed world."""
        return self.root / "failures"

    def failure(self, config: Config, block: int, *, again: bool = False, attempt: int = 0) -> Path:
        """The folder of one failed world: what each rank printed, and its stacks.

        Args:
            config: Its configuration.
            block: Its block; below 0 for a first world, which is in none.
            again: Whether it is the baseline's second one in its block.
            attempt: How many worlds in its place failed before it.
        """
        place = "first" if block < 0 else f"block{block:04d}"
        which = f"{'-again' * again}{f'-{attempt + 1}' if attempt else ''}"
        return self.failures / f"{config.slug}-{place}{which}"

    @property
    def first_run(self) -> Path:
        """What a program left that failed as it was run first, before its study began."""
        return self.failures / "first-run"

    @property
    def traces(self) -> Path:
        """One trace per configuration; ui.perfetto.dev opens them."""
        return self.root / "traces"

    def trace(self, config: Config) -> Path:
        """The trace of a configuration."""
        return self.traces / f"{config.slug}.json"

    def failure_text(self, kind: str, message: str) -> str:
        """What a person reads of a failure: its kind once, and where its evidence is.

        A message names the folder of its evidence as one within the study's.
        """
        told = message.replace("; see failures/", f"; see {shown(self.failures)}/")
        return told if kind in message else f"{kind}: {told}"

    def trace_failure(self, config: Config) -> Path:
        """The folder of a traced world that failed."""
        return self.failures / f"{config.slug}-trace"

    @property
    def lock(self) -> Path:
        """The file that a search holds as long as it runs."""
        return self.root / "search.lock"

    @property
    def unsaved(self) -> Path:
        """What was measured and is not in the storage yet."""
        return self.root / "unsaved.jsonl"

    @property
    def reserve(self) -> Path:
        """Holds the place on the disk for it while a search runs."""
        return self.root / "unsaved.reserve"

    @property
    def manifest(self) -> Manifest:
        """Which of the files here are the study's."""
        return Manifest(self.root)

    def absolute(self) -> "StudyFolder":
        """The same folder, for processes that may have another current one."""
        return StudyFolder(self.root.absolute())

    @property
    def is_of_a_study(self) -> bool:
        """Whether a study has begun to write its files here."""
        return self.manifest.path.exists() or self.database.exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second search out of the folder: each would spoil the other's timings.

        Makes the folder, and removes it again if no study has begun in it. UsageError if another
        search has it.
        """
        made = [path for path in (self.root, *self.root.parents) if not path.exists()]
        try:
            with locked_file(
                self.lock,
                f"another search is running in the folder {self.root}",
                keep=lambda: self.is_of_a_study,
            ):
                yield
        finally:
            with suppress(OSError):
                for path in made:
                    if path.is_dir() and not any(path.iterdir()):
                        path.rmdir()

    def written_by_older_versions(self) -> list[Path]:
        """The files here that have a study's names: older versions wrote no manifest."""
        return [path for name in _OLD_NAMES for path in self.root.glob(name) if path.is_file()]

    def check_writable(self) -> None:
        """UsageError unless files can be made here. Leaves nothing behind."""
        nearest_folder = self.root
        try:
            while not nearest_folder.exists() and nearest_folder != nearest_folder.parent:
                nearest_folder = nearest_folder.parent
            with tempfile.TemporaryFile(dir=nearest_folder):
                pass
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise UsageError(f"cannot write the study folder {self.root}: {reason}") from None
