"""The channel between the tool and the processes of a program: files in a folder of the run. Each
process adds its messages to a file of its own; one file asks all of them what they are doing."""

import json
import os
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tuner.world.command.order import REQUEST
from tuner.world.command.reports import ProgramReport, read_reports
from tuner.world.descendants import status_of
from tuner.world.messages import Message, gone, read_messages
from tuner.world.postmortem import RankRecord

_EXIT_CODE = 49
"""Its place in /proc/PID/stat, after the name."""
_POLL_S = 0.02


class FolderChannel:
    """The tool's side of it, by the folder of the hook's order."""

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._gone: set[Path] = set()
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino
        self.asked = 0

    def report(self) -> ProgramReport:
        """All that the processes have reported so far."""
        return read_reports(self._reports)

    def note_gone(self) -> None:
        """Report, on their own machine, which processes are gone: a killed one cannot do it."""
        for file in self._reports.glob("*.jsonl"):
            if file in self._gone or not file.stem.isdigit():
                continue
            status = status_of(pid := int(file.stem))
            if (status and status[0] not in (b"Z", b"X")) or not self._is_ours(file):
                continue
            self._gone.add(file)
            # Its parent need not have asked for it yet, and then it is there to be read.
            code = os.waitstatus_to_exitcode(int(status[_EXIT_CODE])) if status else None
            with suppress(OSError):
                # A program can put anything there: a pipe must not hold us up.
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(file, flags), "ab") as report:
                    report.write(json.dumps(gone(pid, code)).encode() + b"\n")

    def _is_ours(self, file: Path) -> bool:
        """Whether its process is one of those that we see: a sandbox may have ids of its own."""
        named = (each.get("pid_namespace", 0) for each in read_messages(file))
        return next(filter(None, named), 0) in (0, self._namespace)

    def ask(self, more: Literal["", "stacks", "threads"] = "") -> int:
        """Ask every rank for its state, and its `stacks`, or what its `threads` do, which takes
        some milliseconds; the number of the question."""
        self.asked += 1
        self.request = f"{self.asked} {more}"
        return self.asked

    @property
    def request(self) -> str:
        """The last question as it is written; empty if there was none."""
        with suppress(OSError):
            return (self._reports / REQUEST).read_text()
        return ""

    @request.setter
    def request(self, text: str) -> None:
        if text != self.request:
            partial = self._reports / f"{REQUEST}.partial"
            partial.write_text(text)
            partial.replace(self._reports / REQUEST)

    def answers(
        self, number: int, pids: Collection[int] | None = None, within_s: float = 0.0
    ) -> dict[int, Message]:
        """The answers to a question by process id; those of `pids` are waited for, for a time."""
        until_s = time.monotonic() + within_s
        while True:
            states = [state for state in self.report().states if state["number"] == number]
            found = {each["pid"]: each for each in states if pids is None or each["pid"] in pids}
            if pids is None or len(found) == len(pids) or time.monotonic() >= until_s:
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
        if (record := by_rank.get(state["rank"])) is not None:
            record.states.append({**state, "steps_done": calls[state["number"]]})
    return [by_rank[rank] for rank in sorted(by_rank)]
