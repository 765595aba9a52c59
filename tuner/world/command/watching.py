"""Asks the ranks of a running program what they are doing, and notes which processes are gone.

Both go through files in their folder of reports.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tuner.world.command.events import read_events
from tuner.world.command.order import REQUEST
from tuner.world.command.reports import ProgramReport, read_reports
from tuner.world.descendants import status_of
from tuner.world.postmortem import RankRecord

_EXIT_CODE = 49
"""Its place in /proc/PID/stat, after the name."""
_POLL_S = 0.02


class Watch:
    """Notes which processes of a program are gone: one that is killed cannot report it.

    Args:
        reports: The folder of the hook's order, on the machine where the processes run.
    """

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._noted: set[Path] = set()
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino

    def note_gone(self) -> None:
        """Add the event `gone` to the reports of each process that is gone by now."""
        for file in self._reports.glob("*.jsonl"):
            if file in self._noted or not file.stem.isdigit():
                continue
            status = status_of(int(file.stem))
            if (status and status[0] not in (b"Z", b"X")) or not self._is_ours(file):
                continue
            self._noted.add(file)
            # Its parent need not have asked for it yet, and then it is there to be read.
            code = os.waitstatus_to_exitcode(int(status[_EXIT_CODE])) if status else None
            pid, now_ns = int(file.stem), time.time_ns()
            event = {"event": "gone", "pid": pid, "time_ns": now_ns, "code": code}
            line = json.dumps(event).encode() + b"\n"
            with suppress(OSError):
                # A program can put anything there: a pipe must not hold us up.
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(file, flags), "ab") as report:
                    report.write(line)

    def _is_ours(self, file: Path) -> bool:
        """Whether its process is one of those that we see: a sandbox may have ids of its own."""
        named = (each["pid_namespace"] for each in read_events(file) if "pid_namespace" in each)
        return next(named, 0) in (0, self._namespace)


class Probes:
    """The questions to the ranks of one run, and their answers."""

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self.asked = 0
        """How many questions there were."""

    def ask(self, more: Literal["", "stacks", "threads"] = "") -> int:
        """Ask every rank for its state.

        Args:
            more: What else: `stacks` that each writes of its threads, or what its `threads` do,
                which takes some milliseconds.

        Returns:
            The number of the question.
        """
        self.asked += 1
        partial = self._reports / f"{REQUEST}.partial"
        partial.write_text(f"{self.asked} {more}")
        partial.replace(self._reports / REQUEST)
        return self.asked

    def answers(self, number: int) -> list[Mapping[str, Any]]:
        """The states that ranks have answered to a question, one for each process."""
        states = read_reports(self._reports).states
        return [*{state["pid"]: state for state in states if state["number"] == number}.values()]

    def awaited(
        self, number: int, pids: Collection[int], seconds: float
    ) -> list[Mapping[str, Any]]:
        """Those of these processes, once all have answered or the time is over."""
        until = time.monotonic() + seconds
        while True:
            found = [state for state in self.answers(number) if state["pid"] in pids]
            if len(found) == len(pids) or time.monotonic() >= until:
                return found
            time.sleep(_POLL_S)


def records_of(report: ProgramReport) -> Sequence[RankRecord]:
    """All answers to probes by rank, as a post-mortem takes them; the latest names are taken."""
    by_rank = {rank.rank: RankRecord(rank.name) for rank in report.ranks}
    for each in report.unmet:
        by_rank.setdefault(each.rank, RankRecord(f"rank {each.rank}"))
    # A call that any rank issued is progress: the driver need not be rank 0.
    calls: Counter[int] = Counter()
    for state in report.states:
        calls[state["number"]] += state["calls"]
    for state in report.states:
        record = by_rank.get(state["rank"])
        if record is not None:
            record.states.append({**state, "steps_done": calls[state["number"]]})
    return [by_rank[rank] for rank in sorted(by_rank)]
