"""What the ranks of a program have done by when: in a window, or while a first run goes on."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tuner.decide.statistics import FloatArray
from tuner.decide.steady_window import MOST_WITHIN, changes, steady_window
from tuner.plan.program_spec import ProgramRequest
from tuner.world.command.channel import Channel
from tuner.world.command.events import Event
from tuner.world.command.judging import Counted
from tuner.world.command.reports import ProgramReport

_AGAIN_S = 0.05
LEAST_CALLS = 8
"""A chosen window goes on until so many are made: their time tells something."""
_SETTLED_S = 1.0
"""How often it is seen whether the calls of a first run have settled."""
_LATE = 1.5
"""After so many times as long they need be neither alike nor steady: the end is not waited for."""


class Counts(NamedTuple):
    """What all ranks have done, in seconds since a time; between two counts of a rank its calls are
    taken to come evenly."""

    since_s: float  # by `time.monotonic`
    lasted_s: float
    by_rank: Mapping[int, Sequence[Event]]

    @property
    def calls(self) -> FloatArray:
        """Rows of a time and the calls made by then, at the times of who counts most seldom."""
        seldom = min(self.by_rank.values(), key=len)
        times = np.array([event["monotonic_s"] - self.since_s for event in seldom])
        times = np.unique(np.clip(times, 0.0, self.lasted_s))
        made = np.sum([self._at(times, each, "calls") for each in self.by_rank.values()], axis=0)
        return np.column_stack([times, made - made[0]])

    def between(self, start_s: float, end_s: float) -> Counted:
        """What they did from one time to another."""
        did = {
            fact: {
                rank: float(np.diff(self._at([start_s, end_s], events, fact))[0])
                for rank, events in self.by_rank.items()
            }
            for fact in ("calls", "cpu_s")
        }
        calls = round(sum(did["calls"].values()))
        return Counted(calls=calls, seconds=end_s - start_s, cpu_s=did["cpu_s"])

    def _at(
        self, times: Sequence[float] | FloatArray, events: Sequence[Event], fact: str
    ) -> FloatArray:
        known = [event["monotonic_s"] - self.since_s for event in events]
        at: FloatArray = np.interp(times, known, [event[fact] for event in events])
        return at


def counts_of(report: ProgramReport, *, of_calls: bool = True) -> Counts | None:
    """What the ranks of a run have counted, `of_calls` from the first call until the driver's
    `shutdown`; None if they have not begun together. Ranks may start RPC again; where other
    processes take over, the counting begins anew."""
    if not report.is_ready:
        return None
    ready: dict[int, int] = {}
    for rank in report.ranks:
        ready.setdefault(rank.pid, rank.ready_ns or 0)
    since_ns = max(ready[rank.pid] for rank in report.latest)
    # Who only serves calls shutdown at once.
    ends = [rank.shutdown_ns for rank in report.latest]
    end_ns = max(filter(None, ends)) if of_calls and all(ends) else math.inf
    by_rank = {
        rank.rank: [
            event
            for event in report.counts.get(rank.pid, ())
            if since_ns <= event["time_ns"] <= end_ns
        ]
        for rank in report.latest
    }
    if not all(by_rank.values()):
        return None
    since_s = max(events[0]["monotonic_s"] for events in by_rank.values())
    if of_calls:
        since_s = max(since_s, min(map(_last_without_call, by_rank.values())))
    lasted_s = min(events[-1]["monotonic_s"] for events in by_rank.values()) - since_s
    return Counts(since_s, lasted_s, by_rank) if lasted_s > 0 else None


def _last_without_call(events: Sequence[Event]) -> float:
    """The time of a rank's last count before its first call."""
    same = itertools.takewhile(lambda event: event["calls"] == events[0]["calls"], events)
    return max(float(event["monotonic_s"]) for event in same)


@dataclass
class Window:
    """Waits for all ranks, for the first call if the window was chosen by calls, and then for the
    warm-up and the window. What is counted has its time, so neither a busy rank nor a busy launcher
    makes the window longer."""

    request: ProgramRequest
    channel: Channel
    _next_s: float = 0.0

    def look(self, now_s: float) -> Counted | None:
        """What was counted, once the window is over."""
        if self.request.window_s is None or now_s < self._next_s:
            return None
        counts = counts_of(self.channel.report(), of_calls=self.request.window_is_chosen)
        start_s = self.request.warm_up_s
        end_s = start_s + self.request.window_s
        left_s = 0.0 if counts is None else end_s - counts.lasted_s
        if counts is not None and left_s <= 0:
            counted = counts.between(start_s, end_s)
            if self.request.window_is_chosen and counted.calls < LEAST_CALLS:
                counted = counts.between(start_s, counts.lasted_s)
            if not self.request.window_is_chosen or counted.calls >= LEAST_CALLS:
                return counted
        self._next_s = now_s + max(left_s, _AGAIN_S)
        return None

    def rest(self, report: ProgramReport) -> Counted | None:
        """What was counted in a run that ended before its chosen window, where the time of its RPC
        is not known otherwise."""
        if not self.request.window_is_chosen or report.rpc_active_s is not None:
            return None
        counts = counts_of(report)
        return None if counts is None else counts.between(0.0, counts.lasted_s)


@dataclass
class Follower:
    """Ends a first run that takes longer than it may, in seconds, once its calls have settled."""

    longest_s: float
    channel: Channel
    _next_s: float = 0.0

    def look(self, lasted_s: float) -> Counted | None:
        """What was counted, once the run is to be ended."""
        if lasted_s < max(self.longest_s, self._next_s):
            return None
        self._next_s = lasted_s + _SETTLED_S
        if (counts := counts_of(self.channel.report())) is None:
            return None
        is_late = lasted_s > _LATE * self.longest_s
        window = steady_window(counts.calls, 0.0, math.inf if is_late else MOST_WITHIN)
        if window is None or (not is_late and changes([counts.calls], window) is not None):
            return None
        return counts.between(0.0, counts.lasted_s)
