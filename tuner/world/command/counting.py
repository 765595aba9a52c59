"""Counts the calls of a program's run: in a window, or while a first run goes on."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from tuner.decide.steady_window import changes, steady_window
from tuner.plan.program_spec import ProgramRequest
from tuner.world.command.channel import Channel
from tuner.world.command.events import Event
from tuner.world.command.judging import Counted

ANSWERS_S = 2.0
# How often a first run is asked for its calls, and the share of its time that it is left alone.
_FOLLOW_S, _FOLLOW_SHARE = 0.2, 0.01
_SETTLED_S = 1.0
"""How often it is seen whether they have settled."""
_LATE = 2.0
"""After so many times as long they need not stay as they were: the end is not waited for."""


@dataclass
class Window:
    """Waits for all ranks, then for the warm-up, and then counts for the length of the window.
    Ranks may shut RPC down and start it again meanwhile; where other processes take over, the
    waiting begins anew."""

    request: ProgramRequest
    channel: Channel
    _pids: Set[int] = frozenset()
    """The ranks, once all are there."""
    _first: int | None = None
    """The number of the question at the beginning of the window."""
    _next_s: float = 0.0

    def look(self, now_s: float) -> Counted | None:
        """What was counted, once the window is over."""
        if self.request.window_s is None or now_s < self._next_s:
            return None
        report = self.channel.report()
        pids = {rank.pid for rank in report.latest}
        if not self._pids or pids != self._pids:
            self._pids, self._first = pids if report.is_ready else set(), None
            self._next_s = now_s + (self.request.warm_up_s if self._pids else 0.0)
        elif self._first is None:
            number = self.channel.ask()
            if len(self.channel.answers(number, pids, ANSWERS_S)) == len(pids):
                self._first, self._next_s = number, now_s + self.request.window_s
        else:
            return self._count(self._first)
        return None

    def _count(self, first: int) -> Counted | None:
        before = self.channel.answers(first)
        after = self.channel.answers(self.channel.ask(), self._pids, ANSWERS_S)
        # A rank that is busy answers late; the deadline ends what never does.
        if not before.keys() >= self._pids == after.keys():
            return None
        return _counted_between(before, after)


@dataclass
class Follower:
    """Counts the calls of a first run now and then, seldom enough that it is none the slower."""

    longest_s: float
    channel: Channel
    numbers: set[int] = field(default_factory=set)
    """Of its questions."""
    _next_s: float = 0.0
    _next_look_s: float = 0.0

    def look(self, lasted_s: float) -> Counted | None:
        """What was counted, once the run takes too long and its calls have settled."""
        if lasted_s < self._next_s:
            return None
        if lasted_s > max(self.longest_s, self._next_look_s):
            self._next_look_s = lasted_s + _SETTLED_S
            if found := self._counted(may_change=lasted_s > _LATE * self.longest_s):
                return found
        self.numbers.add(self.channel.ask())
        self.pause(lasted_s)
        return None

    def pause(self, lasted_s: float) -> None:
        """Ask nothing for a while: ranks answer the latest question alone."""
        self._next_s = lasted_s + max(_FOLLOW_S, _FOLLOW_SHARE * lasted_s)

    def _counted(self, *, may_change: bool) -> Counted | None:
        report = self.channel.report()
        counted = np.array(report.counted, dtype=float).reshape(-1, 2)
        window = steady_window(counted, 0.0)
        if window is None or (not may_change and changes([counted], window) is not None):
            return None
        return _counted_between(report.answers[0], report.answers[-1])


def _counted_between(before: Mapping[int, Event], after: Mapping[int, Event]) -> Counted:
    """What ranks did between two questions, by process."""
    pairs = [(before[pid], state) for pid, state in after.items()]
    lasted = [now["monotonic_s"] - then["monotonic_s"] for then, now in pairs]
    return Counted(
        calls=sum(now["calls"] - then["calls"] for then, now in pairs),
        seconds=sum(lasted) / len(lasted),
        cpu_s={now["rank"]: now["cpu_s"] - then["cpu_s"] for then, now in pairs},
    )
