"""Changes the switch interval of a process while it runs, slice by slice, and counts what is done.

The ranks of a host share a clock, so they change it together without a message. Standard library
only: it runs in programs, too.
"""

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial

# By its name: a workload may patch the clock for itself.
from time import monotonic
from typing import NamedTuple

from tuner.daemon_threads import start_daemon
from tuner.process_knobs import ProcessKnobs

MOST_LATE = 0.5  # of a slice: beyond, it is more of the value before than of its own


class Schedule(NamedTuple):
    """When which value holds."""

    begin_s: float  # by `time.monotonic`
    slice_s: float
    left_out_s: float  # at the beginning of each slice, where the value may have changed
    turns: tuple[int, ...]  # which value each slice has, from 0; they begin anew after the last


class Slice(NamedTuple):
    """What one process did in a slice, without what is left out."""

    number: int
    late_s: float  # how late the value was changed, at its beginning or its end
    seconds: float
    done: int


class SliceRate(NamedTuple):
    """What all ranks did in a slice."""

    number: int
    turn: int
    before: int  # the turn of the slice before it
    log_rate: float  # log(steps, or calls, per second)


class Slicer:
    """Changes the interval of this process by a schedule, if any, until it is ended. `progress`
    says how much is done so far; `report` gets every slice as it ends, as `slices` does."""

    def __init__(
        self,
        schedule: Schedule | None,
        intervals_s: Sequence[float],
        knobs: ProcessKnobs,
        progress: Callable[[], int],
        report: Callable[[Slice], object] = lambda _: None,
    ) -> None:
        self.slices: list[Slice] = []
        """Those that have ended."""
        self._schedule = schedule
        self._intervals_s = intervals_s
        self._knobs = knobs
        self._progress = progress
        self._report = report
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Change it from now on."""
        if self._schedule is not None:
            change = partial(self._change, self._schedule)
            self._thread = start_daemon(change, "rpc-tuner slices", is_over=self._is_over)

    def end(self) -> None:
        """Change it no more, and set the first value again."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._knobs.switch(self._intervals_s[0])

    def _change(self, schedule: Schedule, is_over: threading.Event) -> None:
        begin_s, slice_s, left_out_s, turns = schedule
        number = -1
        while True:
            number = max(number + 1, math.floor((monotonic() - begin_s) / slice_s))
            start_s = begin_s + number * slice_s
            if is_over.wait(max(0.0, start_s - monotonic())):
                return
            self._knobs.switch(self._intervals_s[turns[number % len(turns)]])
            set_s = monotonic()
            if is_over.wait(max(0.0, start_s + left_out_s - set_s)):
                return
            began_s, done = monotonic(), self._progress()
            if is_over.wait(max(0.0, start_s + slice_s - began_s)):
                return
            ended_s, done = monotonic(), self._progress() - done
            late_s = max(0.0, set_s - start_s, ended_s - start_s - slice_s)
            self.slices.append(Slice(number, late_s, ended_s - began_s, done))
            self._report(self.slices[-1])


def rates_of(ranks: Sequence[Sequence[Slice]], schedule: Schedule) -> list[SliceRate]:
    """What the ranks did together in the slices that all of them have, and have changed in time. In
    the first of these they may still have begun."""
    known = [{each.number: each for each in slices} for slices in ranks]
    common = sorted(set[int].intersection(*(set(slices) for slices in known))) if known else []
    found, turns = [], schedule.turns
    for number in common[1:]:
        parts = [slices[number] for slices in known]
        if any(part.late_s > MOST_LATE * schedule.slice_s or not part.seconds for part in parts):
            continue
        # Half a call more: a slice may have none.
        counted = [part for part in parts if part.done] or parts[:1]
        rate = sum((part.done or 0.5) / part.seconds for part in counted)
        turn, before = (turns[each % len(turns)] for each in (number, number - 1))
        found.append(SliceRate(number, turn, before, math.log(rate)))
    return found
