"""Asks the ranks of a running program what they are doing, by files in their folder of reports."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.world.command.order import REQUEST
from tuner.world.command.reports import ProgramReport, read_states
from tuner.world.postmortem import RankRecord

_POLL_S = 0.02


class Probes:
    """The questions to the ranks of one run, and their answers."""

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._asked = 0

    def ask(self, *, stacks: bool = False) -> int:
        """Ask every rank for its state; with `stacks`, each writes those of its threads, too.

        Returns:
            The number of the question.
        """
        self._asked += 1
        partial = self._reports / f"{REQUEST}.partial"
        partial.write_text(f"{self._asked} {'stacks' if stacks else ''}")
        partial.replace(self._reports / REQUEST)
        return self._asked

    def answers(self, number: int) -> list[dict[str, Any]]:
        """The states that ranks have told to a question, in order of rank."""
        states = [state for state in read_states(self._reports) if state["number"] == number]
        return sorted(states, key=lambda state: int(state["rank"]))

    def awaited(self, number: int, ranks: int, seconds: float) -> list[dict[str, Any]]:
        """The same, once that many ranks have answered or the time is over."""
        until = time.monotonic() + seconds
        while len(found := self.answers(number)) < ranks and time.monotonic() < until:
            time.sleep(_POLL_S)
        return found

    def records(self, report: ProgramReport) -> Sequence[RankRecord]:
        """All answers by rank, as a post-mortem takes them."""
        by_rank: dict[int, RankRecord] = {rank.rank: RankRecord(rank.name) for rank in report.ranks}
        states = sorted(read_states(self._reports), key=lambda state: int(state["number"]))
        # A call that any rank issued is progress: the driver need not be rank 0.
        calls: Counter[int] = Counter()
        for state in states:
            calls[state["number"]] += state["calls"]
        for state in states:
            record = by_rank.get(state["rank"])
            if record is not None:
                record.states.append({**state, "steps_done": calls[state["number"]]})
        return [by_rank[rank] for rank in sorted(by_rank)]
