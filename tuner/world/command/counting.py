"""What the ranks of a program have done by when: in a window, or while a first run goes on."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tuner.decide.statistics import FloatArray
from tuner.decide.steady_window import MOST_WITHIN, changes, steady_window
from tuner.plan.program_request import ProgramRequest
from tuner.world.command.judging import Counted
from tuner.world.command.reports import ProgramReport
from tuner.world.messages import Message

_AGAIN_S = 0.05
LEAST_CALLS = 8
"""A chosen window goes on until so many are made: their time tells something."""
_SETTLED_S = 1.0
"""How often it is seen whether the calls of a first run have settled."""


class Counts(NamedTuple):
    """What all ranks have done, in seconds since a time; between two counts of a rank its calls are
    taken to come evenly."""

    lasted_s: float
    by_rank: Mapping[int, FloatArray]  # rows of a time, and what `_rows` has by then
    functions: Mapping[int, Sequence[str]]  # what the last columns of a rank count the calls of

    @property
    def calls(self) -> FloatArray:
        """Rows of a time and the calls made by then, at the times of who counts most seldom."""
        seldom = min(self.by_rank.values(), key=len)
        times = np.unique(np.clip(seldom[:, 0], 0.0, self.lasted_s))
        each = [np.interp(times, rows[:, 0], rows[:, 1]) for rows in self.by_rank.values()]
        made = np.sum(each, axis=0)
        return np.column_stack([times, made - made[0]])

    def between(self, start_s: float, end_s: float) -> Counted:
        """What they did from one time to another."""
        ends = np.array([start_s, end_s])
        did = {
            rank: [float(np.diff(np.interp(ends, rows[:, 0], column))[0]) for column in rows.T[1:]]
            for rank, rows in self.by_rank.items()
        }
        functions = defaultdict[str, float](float)
        for rank, (_, _, _, *made) in did.items():
            for name, count in zip(self.functions[rank], made, strict=True):
                functions[name] += count
        failed = sum(work[2] for work in did.values())
        return Counted(
            calls=round(sum(work[0] for work in did.values())),
            seconds=end_s - start_s,
            cpu_s={rank: work[1] for rank, work in did.items()},
            functions={name: round(made) for name, made in functions.items()},
            failed=None if math.isnan(failed) else max(0, round(failed)),
        )


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
    by_rank, functions = {}, {}
    for rank in report.latest:
        messages = report.counts.get(rank.pid, ())
        counted = [message for message in messages if since_ns <= message["time_ns"] <= end_ns]
        if not counted:
            return None
        names = sorted({name for message in counted for name, _ in message.get("functions", ())})
        by_rank[rank.rank] = _rows(counted, since_ns, names)
        functions[rank.rank] = names
    first_s = max(rows[0, 0] for rows in by_rank.values())
    if of_calls:
        first_s = max(first_s, min(map(_last_without_call, by_rank.values())))
    lasted_s = float(min(rows[-1, 0] for rows in by_rank.values()) - first_s)
    for rows in by_rank.values():
        rows[:, 0] -= first_s
    return Counts(lasted_s, by_rank, functions) if lasted_s > 0 else None


def _rows(messages: Sequence[Message], since_ns: int, names: Sequence[str]) -> FloatArray:
    """What a rank counted by when: rows of the time, the calls, the CPU seconds, the calls that
    failed (NaN where that is not known), and the calls of each of these functions.

    Its first count has a time of our clock, and the others come after it by its own, which is not
    set and which no other host has.
    """
    first = messages[0]
    zero_s = first["monotonic_s"] - (first["time_ns"] - since_ns) / 1e9
    rows = []
    for each in messages:
        made = dict(each.get("functions", ()))
        known = (each["monotonic_s"] - zero_s, each["calls"], each["cpu_s"])
        rows.append([*known, each.get("failed", math.nan), *(made.get(name, 0) for name in names)])
    return np.array(rows)


def _last_without_call(rows: FloatArray) -> float:
    """The time of a rank's last count before its first call."""
    return float(rows[rows[:, 1] == rows[0, 1], 0].max())


@dataclass
class Window:
    """Waits for all ranks, for the first call if the window was chosen by calls, and then for the
    warm-up and the window. What is counted has its time, so neither a busy rank nor a busy launcher
    makes the window longer."""

    request: ProgramRequest
    reported: Callable[[], ProgramReport]
    _next_s: float = 0.0

    def look(self, now_s: float) -> Counted | None:
        """What was counted, once the window is over."""
        if self.request.window_s is None or now_s < self._next_s:
            return None
        is_chosen, start_s = self.request.window_is_chosen, self.request.warm_up_s
        counts = counts_of(self.reported(), of_calls=is_chosen)
        end_s = start_s + self.request.window_s
        left_s = 0.0 if counts is None else end_s - counts.lasted_s
        if counts is not None and left_s <= 0:
            counted = counts.between(start_s, end_s)
            if is_chosen and counted.calls < LEAST_CALLS:
                counted = counts.between(start_s, counts.lasted_s)
            if not is_chosen or counted.calls >= LEAST_CALLS:
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


class Follow(NamedTuple):
    """When a run as it is ends early: after some seconds, once its calls have settled, or as soon
    as they have begun."""

    longest_s: float
    late_s: float  # from then on they need be neither alike nor steady: the end is not waited for
    only_begins: bool


@dataclass
class Follower:
    """Ends a run as it is early."""

    follow: Follow
    reported: Callable[[], ProgramReport]
    _next_s: float = 0.0

    def look(self, lasted_s: float) -> Counted | None:
        """What was counted, once the run is to be ended."""
        longest_s, late_s, only_begins = self.follow
        if lasted_s < max(longest_s, self._next_s):
            return None
        self._next_s = lasted_s + (_AGAIN_S if only_begins else _SETTLED_S)
        report = self.reported()
        lasted_s -= report.handed_over_s(time.time_ns())
        if lasted_s < longest_s or (counts := counts_of(report)) is None:
            return None
        calls = counts.calls
        is_late = lasted_s > late_s
        if only_begins:
            is_enough = calls[-1, 1] >= (1 if is_late else LEAST_CALLS)
        else:
            window = steady_window(calls, 0.0, math.inf if is_late else MOST_WITHIN)
            is_enough = window is not None and (is_late or changes([calls], window) is None)
        return counts.between(0.0, counts.lasted_s) if is_enough else None
