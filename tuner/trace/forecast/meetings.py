"""Which calls of other threads of its program a thread waits for before it makes its own.

Nothing in a trace says what a thread of a program waits for that is in no call. But a thread that
takes turns with others, as those of a pool do, begins at once when their calls have ended, again
and again; one that works or sleeps by itself begins whenever that is over.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

SOON = 0.2  # of the mean time between the moments at which it may begin
LEAST_NS, MOST_NS = 0.5e6, 5e6  # what is soon: what a thread takes to wake, and to get the GIL
OFTEN, SELDOM = 0.8, 0.4  # of its waits: so many begin soon by no chance, or by chance
FEW = 5  # waits that show nothing
MUCH = 0.1  # of a thread's time: less may be anything


class Thread(NamedTuple):
    """A thread of a program, and the calls that it makes, in the order of their starts."""

    rank: int
    number: int
    calls: Sequence[int]


class Meetings(NamedTuple):
    """What threads of programs wait for, beside their own calls."""

    before: Mapping[int, Sequence[int]]  # by call: those that must have ended before it is made
    unknown: Collection[Thread]  # those that wait for what is not known


class _Gap(NamedTuple):
    """The time of a thread between its own calls."""

    begins: float
    ends: float
    call: int  # which it makes then
    thread: int


class Times(NamedTuple):
    """Of each call, in nanoseconds."""

    start: Sequence[float]
    issued: Sequence[float]
    end: Sequence[float]


def meetings(threads: Sequence[Thread], at: Times) -> Meetings:
    """Those of the threads of each rank."""
    by_rank = defaultdict[int, list[Thread]](list)
    for thread in threads:
        by_rank[thread.rank].append(thread)
    before = dict[int, Sequence[int]]()
    unknown = list[Thread]()
    for own in by_rank.values():
        if len(own) > 1:
            of_rank = _Threads(own, at)
            before |= (found := of_rank.met()) or {}
            unknown += of_rank.with_long_gaps() if found is None else []
    return Meetings(before, unknown)


class _Met(NamedTuple):
    """What a thread may have waited for."""

    at: float
    calls: Sequence[int]  # which had ended then


_NOTHING = _Met(-np.inf, ())


class _Threads:
    """Those of a rank."""

    def __init__(self, threads: Sequence[Thread], at: Times) -> None:
        whole = [(at.end[call], call, t) for t, own in enumerate(threads) for call in own.calls]
        self.by_end = sorted(whole)
        self.ends = [end for end, _, _ in self.by_end]
        self.threads, self.at = threads, at
        self.began = min(at.start[own.calls[0]] for own in threads)
        self.gaps = [gap for t, own in enumerate(threads) for gap in self._gaps(t, own)]
        self.quiet = _quiet([at.start[call] for _, call, _ in whole], self.ends)

    def _gaps(self, number: int, thread: Thread) -> Iterator[_Gap]:
        at = self.at
        ends = sorted(at.end[call] for call in thread.calls)
        begins = self.began
        for call in thread.calls:
            if ended := bisect_right(ends, at.start[call]):
                begins = max(begins, ends[ended - 1])
            yield _Gap(begins, at.start[call], call, number)
            begins = at.issued[call]

    def met(self) -> Mapping[int, Sequence[int]] | None:
        """By call: those that it waits for; None where that is not known."""
        everyone, anyone = self._soon(self.quiet), self._soon(self.ends)
        for soon, ended in ((everyone, self._all_ended), (anyone, self._one_ended)):
            long = self._longer_than(max(soon, LEAST_NS))
            if soon < LEAST_NS or len(long) < FEW:
                continue  # by chance, too, they would begin soon
            found = {gap: ended(gap) for gap in long}
            found = {gap: after for gap, after in found.items() if after.at > gap.begins}
            at_once = sum(after.at >= gap.ends - soon for gap, after in found.items())
            if at_once >= OFTEN * len(long):
                return {gap.call: after.calls for gap, after in found.items()}
            if at_once > SELDOM * len(long):
                return None
        return {} if anyone >= LEAST_NS else None

    def with_long_gaps(self) -> list[Thread]:
        """The threads that spend much of their time between calls."""
        lasted = [0.0] * len(self.threads)
        for gap in self._longer_than(LEAST_NS):
            lasted[gap.thread] += gap.ends - gap.begins
        whole = [max(self.at.end[call] for call in own.calls) - self.began for own in self.threads]
        of_all = zip(self.threads, lasted, whole, strict=True)
        return [own for own, between, lasts in of_all if between > MUCH * lasts]

    def _longer_than(self, ns: float) -> list[_Gap]:
        return [gap for gap in self.gaps if gap.ends - gap.begins > ns]

    @staticmethod
    def _soon(moments: Sequence[float]) -> float:
        few = len(moments) < 2
        return 0.0 if few else min(SOON * float(np.mean(np.diff(moments))), MOST_NS)

    def _all_ended(self, gap: _Gap) -> _Met:
        """The last time before that at which no thread waited for a call, and the last call of each
        other one since the time before that."""
        at = bisect_right(self.quiet, gap.ends)
        if not at:
            return _NOTHING
        since = max(self.quiet[at - 2] if at > 1 else -np.inf, gap.begins)
        first, behind = (bisect_right(self.ends, moment) for moment in (since, self.quiet[at - 1]))
        own = self.by_end[first:behind]
        last = {thread: call for _, call, thread in own if thread != gap.thread}
        return _Met(self.quiet[at - 1], [*last.values()])

    def _one_ended(self, gap: _Gap) -> _Met:
        """When the last call of another thread ended before that, and which."""
        for at in range(bisect_right(self.ends, gap.ends) - 1, -1, -1):
            end, call, thread = self.by_end[at]
            if thread != gap.thread:
                return _Met(end, [call])
        return _NOTHING


def _quiet(starts: Sequence[float], ends: Sequence[float]) -> list[float]:
    """The moments at which no call is under way any more; `ends` are sorted."""
    starts = sorted(starts)
    return [
        end
        for ended, end in enumerate(ends, 1)
        if bisect_right(starts, end) == ended and (ended == len(ends) or ends[ended] > end)
    ]
