"""Searches that faults are done to: how they are asked for, and what they must leave."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna

import tuner
from lab.faults.kit.commands import Ended, Running, folder_mb
from lab.faults.kit.rows import Outcome
from tests.cheap_studies import cheaply, without_waiting_for_the_disk
from tests.fakes import FakeLauncher
from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.write_ahead_log import WriteAheadLog

HOSTILE = Path(__file__).parent / "hostile_workloads.py"
SEARCH = (
    "tuner.search", "--workload", "udf", "--set", "size=50", "--space", "num_worker_threads=2,4",
    "--min-time", "0.05s", "--out", "study",
)  # fmt: skip
LONG = (*SEARCH, "--budget", "10m", "--max-blocks", "300")
SHORT = (*SEARCH, "--budget", "10m", "--max-blocks", "2")
MOST_MB, MOST_COMMAND_MB = 20.0, 500.0
# Of a machine that does something else meanwhile.
PATIENCE_S = 240.0

Key = tuple[int, int, bool]


def kept(out: Path, name: str, storage: str | None = None) -> Mapping[Key, Record]:
    """Every observation by its trial, its block, and whether it is the baseline's second."""
    place = StudyPlace.named(name, storage=storage, out=out)
    records: Sequence[Record] = []
    with suppress(UsageError):  # killed while it was made
        records = load_study(place).records()
    beside = WriteAheadLog(place.folder, name).read()
    by_key = [{(r.trial, r.block, r.again): r for r in each} for each in (beside, records)]
    assert len(by_key[1]) == len(records), "an observation is there twice"
    return by_key[0] | by_key[1]


def lost(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> int:
    """How many observations are there no more, or are others now."""
    return sum(after.get(key) != record for key, record in before.items())


def observations(folder: Path) -> list[tuple[int, int]]:
    """The trial and the block of every observation in a study; none while it is being created."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with suppress(Exception):
        # Who opens a storage that is not there makes one, which the search would refuse.
        assert (folder / "study.db").exists()
        study = optuna.load_study(study_name="udf", storage=f"sqlite:///{folder}/study.db")
        return [(each.number, block) for each in study.trials for block in each.intermediate_values]
    return []


def outcome_of(ended: Ended, folder: Path, told: str, survived: bool, lost: int = 0) -> Outcome:
    """What is told of a search: it fails, too, if it shows a traceback or takes too much room."""
    size = folder_mb(folder)
    is_small = size <= MOST_MB and ended.peak_rss_mb <= MOST_COMMAND_MB
    more = f"; folder {size:.1f} MB, command {ended.peak_rss_mb:.0f} MB"
    if ended.has_traceback:
        more += f"; a traceback was shown, which ends with {ended.stderr.strip()[-1500:]}"
    if ended.left:
        more += f"; left {[*ended.left_processes, *ended.left_files][:3]}"
    is_good = survived and is_small and not ended.has_traceback
    return Outcome(told=told + more, survived=is_good, lost=lost, left=ended.left)


def measuring(running: Running, folder: Path, least: int = 2) -> bool:
    """Wait until some worlds are in the study."""
    return running.awaits(lambda: len(observations(folder)) >= least, PATIENCE_S)


class Sessions:
    """Searches of one study, one after the other: what they lose and leave is added up. The
    arguments are those of each, but for `--study`, `--out`, and whether it goes on; the storage is
    where the study is, if it is not in its folder; `how` is what `Running` takes beside these."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], storage: str | None = None, **how: Any
    ) -> None:
        self._here = folder / "here"
        self._arguments = arguments
        self._storage = storage
        self._how = how
        self._known: Mapping[Key, Record] = {}
        self._missing = 0
        self._told: list[str] = []
        self._survived = True
        self.left: list[str] = []

    def begin(self, *arguments: str) -> Running:
        """Search, or go on; anew, where one was killed before it had measured anything."""
        is_begun = (self._here / "study").exists()
        again = ["--resume"] if self._known else ["--overwrite"] if is_begun else []
        return Running("tuner.search", "--study", "udf", "--out", "study", *again, *arguments,
                       *self._arguments, cwd=self._here, **self._how)  # fmt: skip

    def kept(self) -> Mapping[Key, Record]:
        """What is in the study now."""
        study = self._here / "study"
        is_there = self._storage is not None or (study / "study.db").exists()
        return kept(study, "udf", self._storage) if is_there else {}

    def measuring(self, running: Running, more: int) -> bool:
        """Wait until there are so many worlds more than are known."""

        def are_there() -> bool:
            with suppress(Exception):  # it is being created just now
                return len(self.kept()) >= len(self._known) + more
            return False

        return running.awaits(are_there, PATIENCE_S)

    def note(self) -> None:
        """Know what is there now, and count what is lost of what was known."""
        found = self.kept()
        self._missing += lost(self._known, found)
        self._known = found

    def ended(self, running: Running, *, is_killed: bool = False) -> Ended:
        """Wait for the end of a search, and count what it has lost and left."""
        ended = running.ended(PATIENCE_S)
        self.note()
        # The files that a command leaves that is killed go with the next one.
        self.left += [*ended.left_processes, *(() if is_killed else ended.left_files)]
        if ended.has_traceback:
            self.judge(f"a traceback: {ended.stderr[-1500:]}", False)
        return ended

    def judge(self, told: str, survived: bool) -> None:
        """Add what was seen, and whether it was expected."""
        self._told.append(told)
        self._survived &= survived

    def outcome(self, last: Ended) -> Outcome:
        """All that was told, and the end of the last search."""
        told = f"the last search ended with {last.code}, with {len(self._known)} observations"
        if last.code != 0:
            told += f": {last.stderr.strip()[-300:]}"
        self.judge(told, last.code == 0)
        if self.left:
            self.judge(f"left {self.left[:3]}", False)
        return Outcome(told="; ".join(self._told), survived=self._survived, lost=self._missing,
                       left=len(self.left))  # fmt: skip


def fake_search(out: Path, **changes: Any) -> int:
    """Search on a fake launcher; returns the blocks."""
    launcher = changes.pop("launcher", None) or FakeLauncher()
    keys = {"space": {"num_worker_threads": [2]}, "max_blocks": 2, **changes}
    with cheaply(), without_waiting_for_the_disk():
        return tuner.tune("udf", launcher=launcher, clock=launcher.clock, out=str(out),
                          **keys).blocks  # fmt: skip
