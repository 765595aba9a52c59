"""Asks the ranks of a running program what they are doing, by files in their folder of reports."""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tuner.world.command.order import REQUEST
from tuner.world.command.reports import ProgramReport, read_reports
from tuner.world.postmortem import RankRecord

_POLL_S = 0.02


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
