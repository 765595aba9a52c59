"""Searches that faults are done to: how they are asked for, and what they must leave."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from lab.faults.kit.commands import Ended, Running, folder_mb
from lab.faults.kit.rows import Outcome
from testing.cheap_studies import cheaply, without_waiting_for_the_disk
from testing.made import search
from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.write_ahead_log import WriteAheadLog
from tuner.world.measurement import Measurement

HOSTILE = Path(__file__).parent / "hostile_workloads.py"
SEARCH = (
    "--workload", "udf", "--set", "size=50", "--space", "num_worker_threads=2,4",
    "--min-time", "0.05s", "--budget", "10m",
)  # fmt: skip
LONG, SHORT = ("--max-blocks", "300"), ("--max-blocks", "2")
MOST_MB, MOST_COMMAND_MB = 15.0, 500.0
# Of a study's folder beside MOST_MB: a call is six events of a trace, and a tenth of that zipped.
TRACED_CALL_MB, MOST_CALLS = 1.3 / 1024, 10_000  # of a trace: a step of 20 ranks has 7,600
# Of a machine that does something else meanwhile.
PATIENCE_S = 240.0

_PROGRAM = """
import os, subprocess, sys, time, torch
from pathlib import Path
import torch.distributed.rpc as rpc
{before}
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
rpc.init_rpc("worker0", rank=0, world_size=1)
{then}
for _ in range({calls}):
    rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), 1))
rpc.shutdown()
"""

Key = tuple[int, int, bool, int]


def program(*, before: str = "", then: str = "", calls: int = 100) -> str:
    """A program of one rank that does something before it starts RPC, and before its calls."""
    return _PROGRAM.format(before=before, then=then, calls=calls)


def kept(out: Path, name: str, storage: str | None = None) -> Mapping[Key, Record]:
    """Every observation by its trial, its block, whether it is the baseline's second, and which
    attempt: another world takes the place of one that failed."""
    place = StudyPlace.named(name, storage=storage, out=out)
    records: Sequence[Record] = []
    with suppress(UsageError):  # killed while it was made
        records = load_study(place).records()
    beside = WriteAheadLog(place.folder, name).read()
    by_key = [
        {(r.trial, r.block, r.again, r.attempt): r for r in each} for each in (beside, records)
    ]
    assert len(by_key[1]) == len(records), "an observation is there twice"
    return by_key[0] | by_key[1]


def lost(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> int:
    """How many observations are there no more, or are others now."""
    return sum(after.get(key) != record for key, record in before.items())


class Sessions:
    """Searches of one study, one after the other: what they lose and leave is added up. The
    arguments are those of each, but for `--study`, `--out`, and whether it goes on; the storage is
    where the study is, if it is not in its folder; `how` is what `Running` takes beside these."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], storage: str | None = None, **how: Any
    ) -> None:
        self.here = folder / "here"
        self.here.mkdir(parents=True)
        self.study = self.here / "study"
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
        again = ["--resume"] if self._known else ["--overwrite"] if self.study.exists() else []
        return Running("tuner.search", "--study", "udf", "--out", "study", *again, *arguments,
                       *self._arguments, cwd=self.here, **self._how)  # fmt: skip

    def begun(self, *arguments: str, more: int = 6) -> Running:
        """The same, once so many more worlds are in the study than are known; then they are."""
        running = self.begin(*arguments)
        self.measuring(running, more)
        self.note()
        return running

    def kept(self) -> Mapping[Key, Record]:
        """What is in the study now."""
        # Who opens a storage that is not there makes one, which the search would refuse.
        is_there = self._storage is not None or (self.study / "study.db").exists()
        return kept(self.study, "udf", self._storage) if is_there else {}

    def measuring(self, running: Running, more: int) -> bool:
        """Wait until there are so many worlds more than are known."""

        def are_there() -> bool:
            with suppress(Exception):  # it is being created just now
                return len(self.kept()) >= len(self._known) + more
            return False

        return running.awaits(are_there, PATIENCE_S)

    def kills(
        self, running: Running, find: Callable[[], Sequence[psutil.Process]], times: int
    ) -> int:
        """SIGKILL for one of those that are found, at a random moment after each second world that
        is measured, so many times; how often it was."""
        dice, killed = random.Random(1), 0
        while killed < times and self.measuring(running, 2):
            running.awaits(lambda: False, dice.random())
            with suppress(psutil.Error):
                if those := find():
                    dice.choice(those).kill()
                    killed += 1
            # Not before: the same world must not be killed twice.
            self.note()
        return killed

    def note(self) -> None:
        """Know what is there now, and count what is lost of what was known."""
        found = self.kept()
        self._missing += lost(self._known, found)
        self._known = found

    def ended(
        self, running: Running, *, is_killed: bool = False, within_s: float = PATIENCE_S
    ) -> Ended:
        """Wait for the end of a search, and count what it has lost and left. It fails, too, if it
        shows a traceback or takes too much room."""
        ended = running.ended(within_s)
        self.note()
        # The files that a command leaves that is killed go with the next one.
        self.left += [*ended.left_processes, *(() if is_killed else ended.left_files)]
        if ended.has_traceback:
            self.judge(f"a traceback: {ended.stderr[-1500:]}", False)
        folder, command = folder_mb(self.study), ended.peak_rss_mb
        if folder > self._most_mb() or command > MOST_COMMAND_MB:
            self.judge(f"folder {folder:.1f} MB, command {command:.0f} MB", False)
        return ended

    def _most_mb(self) -> float:
        """What the folder may take: each trace of 20 ranks holds the 7,600 calls of a step."""
        worlds = [each.outcome for each in self._known.values()]
        traces = [world.trace for world in worlds if isinstance(world, Measurement) and world.trace]
        return MOST_MB + TRACED_CALL_MB * sum(min(trace.calls or 0, MOST_CALLS) for trace in traces)

    def judge(self, told: str, survived: bool) -> None:
        """Add what was seen, and whether it was expected."""
        self._told.append(told)
        self._survived &= survived

    def outcome(self, last: Ended, *codes: int, least: int = 0) -> Outcome:
        """All that was told, and the end of the last search, which may have these exit codes, by
        default 0. Of so many observations in blocks none may be missing."""
        count = len({key[:2] for key in self._known if key[1] >= 0 and not key[2]})
        told = f"exit code {last.code} after {last.seconds:.0f} s, {count} observations"
        is_expected = last.code in (codes or (0,))
        if not is_expected:
            told += f": {last.stderr.strip()[-500:]}"
        self.judge(told, is_expected)
        if self.left:
            self.judge(f"left {self.left[:3]}", False)
        return Outcome(
            told="; ".join(self._told), survived=self._survived, left=len(self.left),
            lost=self._missing + max(0, least - count),
        )  # fmt: skip


def fake_search(out: Path, **changes: Any) -> int:
    """Search on a fake launcher; returns the blocks."""
    with cheaply(), without_waiting_for_the_disk():
        return search(out, **changes).blocks
