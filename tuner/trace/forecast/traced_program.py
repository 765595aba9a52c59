"""From a trace to the program that it shows: who calls whom, when, and what functions do.

A *frame* issues calls one after another: a served function, or a thread of the program. Where a
call of it ended between two things that it did, and it had been idle for longer than usual, or no
other was under way, it is taken to have waited: until no more were under way than then.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tuner.trace.analyze.call_times import BLOCKING, call_times
from tuner.trace.analyze.callbacks import are_callbacks
from tuner.trace.analyze.gil_use import woken_ns
from tuner.trace.analyze.path_walk import Driver
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast import meetings
from tuner.trace.forecast.meetings import Thread
from tuner.trace.forecast.off_cpu import Shared
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE,
    COMPUTE_WITH_GIL,
    DRAIN,
    GIVE,
    HOLD_LOCK,
    ISSUE,
    SLEEP,
    TAKE,
    Call,
    Op,
    Program,
    Root,
    own_ns,
)
from tuner.trace.forecast.turns import Turns, joins_of
from tuner.trace.forecast.ways import UNHINDERED, Ways
from tuner.trace.model.trace import Trace

SMALL_NS = 20_000.0  # what it takes to unpickle a small request, or to pickle a small answer
PIECES = 4  # of what computes with the GIL and without it
IDLE = 3.0  # a frame that is idle for so many times its usual time between calls waited


class Times(NamedTuple):
    """Of each call, in nanoseconds since the trace's base; NaN where unknown."""

    start: list[float]
    issued: list[float]
    end: list[float]
    served: list[float]
    left: list[float]


class Work(NamedTuple):
    """What a frame does in a nanosecond of its own time."""

    with_gil: float
    without: float
    sleep: float

    def ops(self, ns: float) -> list[Op]:
        """What it does in so many nanoseconds; it may let go of the GIL many times."""
        pieces = PIECES if self.with_gil > 0 and self.without > 0 else 1
        kinds = zip((COMPUTE_WITH_GIL, COMPUTE, SLEEP), self, strict=True)
        return [(kind, ns * part / pieces) for kind, part in kinds if ns * part > 0] * pieces


ALONE = Work(0.0, 0.0, 1.0)  # what is done meanwhile needs nothing that others need
SERVED, PENDING = -1, -2  # whose calls: of a served function, or of what completes its result


class Case(NamedTuple):
    """What is assumed where a trace does not tell."""

    shared: Mapping[int, Shared]  # what the calls of each server share
    holds: bool  # whether calls hold a thread of which it is not known how they were served
    turns: Turns


class TracedProgram:
    """The program of a trace of rpc-tuner, all of whose calls have ended; `ways` may be of more."""

    def __init__(self, trace: Trace, driver: Driver, case: Case, ways: Ways) -> None:
        calls = trace.calls
        self.trace, self.driver, self.case, self.frame = trace, driver, case, calls
        self.ways = ways
        self.has_semaphores = case.turns.places
        columns = ("start_ns", "issued_ns", "end_ns", "server_start_ns", "server_end_ns")
        times = [floats(calls, name) for name in columns]
        times[1] = np.fmin(np.fmax(np.nan_to_num(times[1]), times[0]), times[2])
        self.at = Times(*(column.tolist() for column in times))
        self.kind = calls["kind"].astype(str).tolist()
        self.body = calls["body"].astype(str).tolist()
        self.is_blocking = [kind in BLOCKING for kind in self.kind]
        self.server = calls["server_rank"].tolist()
        row = {number: place for place, number in enumerate(calls["call_id"].tolist())}
        made_in = calls["parent_call"]
        if "follows" in calls:  # a call that follows a callback was made in it
            made_in = calls["follows"].where(~are_callbacks(calls)).fillna(made_in)
        parent = made_in.to_numpy(np.int64, na_value=-1).tolist()
        self.children = defaultdict[tuple[int, int], list[int]](list)
        client = calls["client_rank"].tolist()
        thread = calls["client_thread"].tolist()
        pending = self._pending()
        self.is_in_callback = [False] * len(calls)
        self.callback = self._callbacks(row)
        self.are_callbacks = are_callbacks(calls).tolist()
        for place, above in enumerate(parent):
            if self.are_callbacks[place]:
                continue
            key = (row.get(above, -1 - client[place]), thread[place])
            if above in row:
                key = (row[above], SERVED)
                self.is_in_callback[place] = self.are_callbacks[row[above]]
            elif (client[place], thread[place]) != (driver.rank, driver.thread):
                # A thread of the program that completes a result, if one of its process is pending.
                by_begin, start = pending[client[place]], self.at.start[place]
                last = bisect_right(by_begin, start, key=lambda result: result[0]) - 1
                if last >= 0 and start <= by_begin[last][1]:
                    key = (by_begin[last][2], PENDING)
            self.children[key].append(place)
        self.threads = [
            Thread(-1 - owner, number, own)
            for (owner, number), own in self.children.items()
            if owner < 0
        ]
        times_of = meetings.Times(self.at.start, self.at.issued, self.at.end)
        self.met = meetings.meetings(self.threads, times_of)
        self.least_off = self._least_off()
        """The time off the CPU that is no wait for the GIL."""
        self.made_by = {to: by for own in self.children.values() for to, by in self._made(own)}
        """The `remote` of whose value a `to_here` waits."""

    def _callbacks(self, row: Mapping[int, int]) -> dict[int, int]:
        """By call, or callback: the callback that its thread runs next."""
        if "follows" not in self.frame:
            return {}
        follows = self.frame["follows"].where(are_callbacks(self.frame))
        above = follows.to_numpy(np.int64, na_value=-1).tolist()
        return {row[number]: place for place, number in enumerate(above) if number in row}

    def _ends(self, place: int) -> list[float]:
        """When a call ended, and all that follows from it: its callbacks, and, where it was made in
        none, what these have called."""
        links = self._links(place) if self.is_in_callback[place] else self._following(place)
        return [self.at.end[link] for link in links]

    def _following(self, place: int) -> Iterator[int]:
        """A call, its callbacks, what these have called, and so on."""
        left = [place]
        while left:
            for link in self._links(left.pop()):
                yield link
                if self.are_callbacks[link]:
                    left += self.children.get((link, SERVED), ())

    def _made(self, own: Sequence[int]) -> Iterator[tuple[int, int]]:
        makes: dict[int, int] = {}
        for place in own:
            if self.kind[place] == "rpc_remote":
                makes[self.server[place]] = place
            elif self.kind[place] == "to_here" and self.server[place] in makes:
                made, end = makes[self.server[place]], self.at.end
                is_made = np.fmin(end[made], self.at.left[made]) < end[place]  # noted later or not
                if self.at.start[place] < end[made] and is_made:
                    yield place, made

    def _pending(self) -> Mapping[int, list[tuple[float, float, int]]]:
        """By server: when calls began whose results were complete after they returned, and when."""
        found = defaultdict[int, list[tuple[float, float, int]]](list)
        done = floats(self.frame, "done_ns").tolist()
        for place, left in enumerate(self.at.left):
            if left < done[place]:
                found[self.server[place]].append((self.at.served[place], done[place], place))
        for results in found.values():
            results.sort()
        return found

    def program(self, driver_cpu_ns: float | None) -> Program:
        """The program; it is given how long the driver was on the CPU, if that is known."""
        trace, calls = self.trace, self.frame
        joins, group = joins_of(self.frame)
        ranks = {rank.rank: rank for rank in trace.ranks}
        hosts = sorted({rank.host for rank in trace.ranks})
        size = max(ranks) + 1
        began = min(self.at.start, default=0.0)
        roots = []
        for thread in self.threads:
            rank, number, own = thread
            is_driver = rank == self.driver.rank
            first = self.at.start[own[0]]
            if own[0] in self.met.before:
                first = began  # the first op waits
            ops = self._ops(own, first, None, ALONE, issues_compute=True)
            if is_driver and driver_cpu_ns is not None and number == self.driver.thread:
                issues, thinks = (own_ns(ops, kind) for kind in (COMPUTE_WITH_GIL, SLEEP))
                on_cpu = min(max(driver_cpu_ns - issues, 0.0) / max(thinks, 1.0), 1.0)
                work = Work(on_cpu, 0.0, 1.0 - on_cpu)
                ops = self._ops(own, first, None, work, issues_compute=True)
            is_main = rank not in ranks or ranks[rank].pid in (None, number)
            is_known = is_main or (is_driver and thread not in self.met.unknown)
            roots.append(Root(rank, first - began, ops, is_driver, is_main, is_known))
        return Program(
            names=[ranks[r].name if r in ranks else f"rank {r}" for r in range(size)],
            hosts=[hosts.index(ranks[r].host) if r in ranks else 0 for r in range(size)],
            calls=self._calls(group, calls["client_rank"].tolist()),
            roots=roots,
            joins=joins,
            permits=self.case.turns.permits,
        )

    def _calls(self, group: Mapping[int, int], client: Sequence[int]) -> list[Call]:
        calls, at = self.frame, self.at
        function = calls["function"].astype(str).tolist()
        # Operators run without Python; where they are not on the CPU, they are ready to be.
        unknown = np.where(calls["body"] == "python", 0.0, np.inf)
        times = (floats(calls, f"{name}_ns") for name in ("cpu", "run_queue"))
        cpu, ready = (np.where(np.isnan(column), unknown, column).tolist() for column in times)
        answered, done = floats(calls, "answered_ns").tolist(), floats(calls, "done_ns").tolist()
        received, arrived, unpickled = (
            floats(calls, f"{name}_ns").tolist() for name in ("received", "arrived", "unpickled")
        )
        waits_for_gil = [self._waits_for_gil(place) for place in range(len(calls))]
        way, way_back = self.ways.of_calls(calls["call_id"].to_numpy(), waits_for_gil)
        found = []
        for place, begun in enumerate(at.served):
            left = at.left[place]
            end = at.end[place]
            if math.isnan(begun) or math.isnan(left):
                made = self.made_by.get(place)
                sent = max(at.issued[place], 0.0 if made is None else at.end[made])
                took = max(end - sent, 0.0)
                holds = self.case.holds and self.kind[place] != "to_here"
                found.append(Call(
                    client[place], self.server[place], function[place], 0.0 if holds else took, 0.0,
                    [(SLEEP, took)] if holds else (), is_seen=holds,
                    is_blocking=self.is_blocking[place],
                    callback=self.callback.get(place, -1), ends=len(self._ends(place)),
                ))  # fmt: skip
                continue
            answer = max(answered[place] - left, 0.0) if done[place] != done[place] else 0.0
            answer = answer if answer == answer else 0.0
            complete = float(np.fmax(left + answer, done[place]))
            begins, ends = list[Op](), list[Op]()
            receives = max(end - max(received[place], complete), 0.0)
            receives = receives if receives == receives else 0.0
            unpickles = unpickled[place] - arrived[place]
            if waits_for_gil[place]:
                begins = [(COMPUTE_WITH_GIL, unpickles if unpickles > 0 else SMALL_NS)]
                ends = [(COMPUTE_WITH_GIL, answer or SMALL_NS)]
            elif answer:
                ends = [(COMPUTE_WITH_GIL, answer)]
            after = self.children.get((place, PENDING), [])
            then = self._ops(after, left, done[place], ALONE, issues_compute=True) if after else ()
            then = then or self._chain(place, left, done[place])
            found.append(Call(
                client[place], self.server[place], function[place], way[place],
                max(way_back[place] - receives, 0.0),
                self._served(place, begun, left, cpu[place], ready[place]),
                is_blocking=self.is_blocking[place], unpickles=begins, pickles=ends,
                receives=[(COMPUTE_WITH_GIL, receives)] if receives > 0 else (),
                lasts=max(complete - left - answer, 0.0), join=group.get(place, -1), then=then,
                callback=self.callback.get(place, -1), is_callback=self.are_callbacks[place],
                ends=1 if self.are_callbacks[place] else len(self._ends(place)),
            ))  # fmt: skip
        return found

    def _chain(self, place: int, left: float, done: float) -> list[Op]:
        """What completes a result that follows from calls which the function did not wait for."""
        own = self.children.get((place, SERVED), [])
        links = [link for call in own for link in self._following(call)]
        before = [link for link in links if left < self.at.end[link] <= done]
        if not before:
            return []
        last = max(before, key=self.at.end.__getitem__)
        return [(AWAIT, last), (SLEEP, done - self.at.end[last])]

    def _links(self, place: int) -> Iterator[int]:
        """A call, and its callbacks."""
        link: int | None = place
        while link is not None:
            yield link
            link = self.callback.get(link)

    def _least_off(self) -> list[float]:
        """How long each call was off the CPU for other reasons than the GIL."""
        calls = self.frame
        off_ns = call_times(calls)["off_cpu_us"] * 1e3
        least = off_ns.groupby(calls["name"].array, observed=True).transform("quantile", UNHINDERED)
        found: list[float] = np.fmax(least, off_ns - woken_ns(self.trace)).tolist()
        return found

    def _waits_for_gil(self, place: int) -> bool:
        """Whether a call waits for the GIL of its server before it runs, and after that."""
        is_python = self.body[place] == "python"
        return is_python and self.case.shared.get(self.server[place], Shared()).waits_for_gil

    def _served(self, place: int, begun: float, left: float, cpu: float, ready: float) -> list[Op]:
        """What a served function does, in order."""
        own, turns = self.children.get((place, SERVED), []), self.case.turns
        takes, gives = turns.takes.get(place), turns.gives.get(place)
        held = turns.holds.get(place)
        ops = list[Op]()
        if takes is not None:
            ops = [(TAKE, takes)]
            begun = max(left - cpu - ready, begun)  # until then it waits
        begun = held.since if held else begun
        work, lock_ns = self._work(place, begun, left, cpu, ready)
        if held:
            ops += [(TAKE, held.semaphore), *work.ops(held.until - begun), (GIVE, held.semaphore)]
            begun = held.until
        ops += self._ops(own, begun, left, work) if own else work.ops(left - begun)
        if gives is not None:
            ops.append((GIVE, gives))
        return [*ops, (HOLD_LOCK, lock_ns)] if lock_ns else ops

    def _work(
        self, place: int, begun: float, left: float, cpu: float, ready: float
    ) -> tuple[Work, float]:
        """A call's own time, spread evenly over it, and how long it holds the lock after that."""
        own = self.children.get((place, SERVED), [])
        own_time = own_ns(self._ops(own, begun, left, ALONE), SLEEP) if own else left - begun
        shared = self.case.shared.get(self.server[place], Shared())
        if place in self.has_semaphores:
            shared = shared._replace(lock_ns=None, off_ns=None)
        if math.isinf(cpu):  # operators hold nothing
            cpu, shared = own_time * shared.operators, Shared()
        if own_time <= 0:
            return Work(0.0, 0.0, 0.0), 0.0
        on_cpu = min(cpu, own_time)
        off = max(own_time - on_cpu - min(ready, own_time - on_cpu), 0.0)
        if shared.waits_for_gil:
            off = min(off, self.least_off[place])
        lock_ns = shared.lock_ns or 0.0
        if shared.off_ns is not None:
            lock_ns, off = min(lock_ns, off), min(off, shared.off_ns)
        gil, free = on_cpu * shared.gil, on_cpu * (1 - shared.gil)
        return Work(gil / own_time, free / own_time, off / own_time), lock_ns

    def _ops(
        self, own: Sequence[int], begun: float, left: float | None, work: Work,
        issues_compute: bool = False,
    ) -> list[Op]:  # fmt: skip
        """What a frame with these calls does, in the order of their starts."""
        start, issued, end = self.at.start, self.at.issued, self.at.end
        usual = self._usual_gap(own)
        ops: list[Op] = []
        under_way: list[float] = []  # the ends of calls that it need not wait for at once
        now = begun
        for place in (*own, -1):
            until = start[place] if place >= 0 else left
            if until is None:  # a root ends when all of its calls have ended
                until = max([now, *under_way])
            ended = [each for each in under_way if each <= until]
            under_way = [each for each in under_way if each > until]
            last = max(ended, default=now)
            if last > now and (not under_way or last - now > IDLE * usual):
                ops.append((DRAIN, len(under_way)))
                now = last
            if others := self.met.before.get(place):
                ops += [(AWAIT, call) for call in others]
                now = max(now, *(end[call] for call in others))
            ops += work.ops(max(until - now, 0.0))
            if place < 0:
                break
            if issues_compute:
                spent = end[place] if self.is_blocking[place] else issued[place]
                ns = max(min(issued[place], spent) - start[place], 0.0)
                ops += [(COMPUTE_WITH_GIL, ns)] if ns > 0 else []
            if place in self.made_by:
                ops.append((AWAIT, self.made_by[place]))
            ops.append((ISSUE, place))
            now = issued[place]
            if self.is_blocking[place]:
                ops.append((AWAIT, place))
                now = end[place]
            else:
                if not issues_compute:
                    ops[-1:] = [*work.ops(max(issued[place] - start[place], 0.0)), ops[-1]]
                under_way += self._ends(place)
        return ops

    def _usual_gap(self, own: Sequence[int]) -> float:
        """The usual time between two calls of a frame while no call of it ends."""
        ends = np.sort([end for place in own for end in self._ends(place)])
        left = np.array([
            self.at.end[p] if self.is_blocking[p] else self.at.issued[p] for p in own[:-1]
        ])  # fmt: skip
        until = np.array([self.at.start[p] for p in own[1:]])
        none = np.searchsorted(ends, left, "right") == np.searchsorted(ends, until, "right")
        return float(np.median((until - left)[none])) if none.any() else 0.0
