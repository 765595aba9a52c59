"""Replays a program on a model of its machine, event by event.

The model: a pool of worker threads per process, which serve requests and complete the process's own
calls, first come, first served; a GIL per process, which changes hands after its switch interval; a
lock per process, where the program has one; and the logical CPUs of a host, which all ready threads
share equally, polling ones included.

The loop is a heap of its own: the CPUs' shares change whenever a thread becomes ready, which simpy
has no resource for, and a process of simpy costs more than all that happens here to a call.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tuner.trace.analyze.gil_use import SWITCH_NS
from tuner.trace.forecast.host_cpus import HostCpus
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
    Op,
    Program,
)

MOST_TURNS = 20  # of a long computation with the GIL: more would only cost time


class Machine(NamedTuple):
    """What a program runs on."""

    threads: Sequence[int]  # by rank
    cpus: Sequence[float]  # by host
    polling: Sequence[float]  # by host: CPUs that other threads want throughout
    switch_ns: Sequence[float] = ()  # by rank: how long a thread keeps the GIL; as Python has it


class Replayed(NamedTuple):
    """How a replay ended."""

    took_ns: float  # until the driver had done all; infinite where it never did
    blocked: str = ""  # the chain of calls that wait for each other; empty if it ended
    lasted_ns: Mapping[int, float] = {}  # by call: until its answer was complete

    def late(self, limits_ns: Sequence[float]) -> int:
        """How many calls take longer than their time limits; those of a change have none."""
        lasted = self.lasted_ns.items()
        return sum(ns > limits_ns[call] for call, ns in lasted if call < len(limits_ns))


class _Frame:
    """A function that runs: of a call, or, where that is negative, a root."""

    __slots__ = (
        "at", "call", "drains_to", "is_answer", "left", "ops", "rank", "under_way", "waits_for",
    )  # fmt: skip

    def __init__(self, rank: int, call: int, ops: Sequence[Op]) -> None:
        self.rank, self.call, self.ops = rank, call, ops
        self.at = 0
        self.is_answer = False  # whether it completes the call, and does not serve it
        self.left = 0.0  # of a computation with the GIL
        self.under_way = 0
        self.waits_for: int | None = None  # a call
        self.drains_to: int | None = None  # so many of its own that may be under way


_Turns = deque[_Frame]
"""Of a GIL, or a lock: who has it, and then who waits for it."""


def replay(program: Program, machine: Machine) -> Replayed:
    """How long the driver takes for its calls on a machine."""
    return _Replay(program, machine).run()


class _Replay:
    def __init__(self, program: Program, machine: Machine) -> None:
        self.calls, self.program = program.calls, program
        self.now = 0.0
        self.number = 0
        self.agenda: list[tuple[float, int, Callable[..., None], object]] = []
        cpus = zip(machine.cpus, machine.polling, strict=True)
        hosts = [HostCpus[_Frame](*given) for given in cpus]
        self.cpus = [hosts[host] for host in program.hosts]
        self.free = list(machine.threads)
        self.switch_ns = machine.switch_ns or [SWITCH_NS] * len(self.free)
        self.jobs: list[deque[tuple[int, bool]]] = [deque() for _ in self.free]
        """By rank: calls to serve, or to complete, for which no thread is free."""
        self.gils, self.locks = ([_Turns() for _ in self.free] for _ in range(2))
        self.permits = list(program.permits)
        self.takers: list[deque[_Frame]] = [deque() for _ in self.permits]
        self.waiting: dict[int, list[_Frame]] = {}
        """By call: who waits for it, its caller or another thread of the program."""
        self.caller: dict[int, _Frame] = {}
        self.began_by: dict[int, _Frame] = {}
        """The caller of the call that it all began with, through callbacks."""
        self.served: dict[int, _Frame] = {}
        self.pending: dict[int, _Frame] = {}
        self.issued_at: dict[int, float] = {}
        self.over: dict[int, float] = {}
        """How long each call took that is complete."""
        self.joining: list[list[int]] = [[] for _ in program.joins]
        self.batches: list[list[int]] = [[] for _ in program.batches]  # calls that wait for others
        self.served_by: dict[int, list[int]] = {}  # by call whose thread serves a batch
        self.frames: list[_Frame] = []
        self.ended_at = 0.0
        self.drivers = sum(root.is_driver for root in program.roots)

    def later(self, delay: float, do: Callable[..., None], with_: object) -> None:
        self.number += 1
        heapq.heappush(self.agenda, (self.now + delay, self.number, do, with_))

    def run(self) -> Replayed:
        for place, root in enumerate(self.program.roots):
            frame = _Frame(root.rank, -1 - place, root.ops)
            self.frames.append(frame)
            self.later(root.begins, self.go_on, frame)
        agenda, pop = self.agenda, heapq.heappop
        while self.drivers and (agenda or self.nobody_comes()):
            self.now, _, do, with_ = pop(agenda)
            do(with_)
        if self.drivers:
            return Replayed(math.inf, self.chain(), self.over)
        return Replayed(self.ended_at, lasted_ns=self.over)

    def go_on(self, frame: _Frame) -> None:
        """Do what a frame does next, until it has to wait."""
        ops = frame.ops
        while frame.at < len(ops):
            kind, value = ops[frame.at]
            frame.at += 1
            if kind == COMPUTE:
                return self.compute(frame, value)
            if kind == COMPUTE_WITH_GIL:
                frame.left = value
                return self.take(self.gils[frame.rank], frame, self.with_gil)
            if kind == SLEEP:
                return self.later(value, self.go_on, frame)
            if kind == HOLD_LOCK:
                frame.left = value
                return self.take(self.locks[frame.rank], frame, self.with_lock)
            if kind == TAKE:
                self.permits[int(value)] -= 1
                if self.permits[int(value)] < 0:
                    return self.takers[int(value)].append(frame)
            elif kind == GIVE:
                self.permits[int(value)] += 1
                if self.takers[int(value)]:
                    self.later(0.0, self.go_on, self.takers[int(value)].popleft())
            elif kind == ISSUE:
                self.issue(frame, int(value))
            elif kind == AWAIT and int(value) not in self.over:
                frame.waits_for = int(value)
                self.waiting.setdefault(int(value), []).append(frame)
                return None
            elif kind == DRAIN and frame.under_way > value:
                frame.drains_to = int(value)
                return None
        return self.ended(frame)

    def issue(self, frame: _Frame, number: int) -> None:
        call = self.calls[number]
        self.caller[number], self.issued_at[number] = frame, self.now
        self.began_by[number] = self.above(frame)
        frame.under_way += 0 if call.is_blocking else call.ends
        self.later(call.to_server, self.arrived if call.is_seen else self.answered, number)

    def ended(self, frame: _Frame) -> None:
        if frame.call < 0:
            if self.program.roots[-1 - frame.call].is_driver:
                self.drivers -= 1
                self.ended_at = self.now
            return
        if not frame.is_answer and self.pending.pop(frame.call, None) is not None:
            self.later(self.calls[frame.call].to_client, self.answered, frame.call)
            return
        if frame.is_answer:
            self.completed(frame.call)
            self.give_back(frame.rank)
            return
        # Never at once, or a long queue of calls that do nothing would nest as deeply.
        self.later(0.0, self.left, frame)

    def left(self, frame: _Frame) -> None:
        """A served function has left its thread."""
        number = frame.call
        call = self.calls[number]
        del self.served[number]
        if call.batch >= 0:
            self.left_batch(frame)
            return
        if call.is_callback:
            # The same thread goes on.
            self.free[frame.rank] += 1
            self.complete(number)
            self.next_jobs(frame.rank)
            return
        if call.then:
            self.pending[number] = pending = _Frame(frame.rank, number, call.then)
            self.later(0.0, self.go_on, pending)
        elif call.join < 0:
            self.later(call.lasts + call.to_client, self.answered, number)
        else:
            group = self.joining[call.join]
            group.append(number)
            if len(group) >= self.program.joins[call.join]:
                for member in group:
                    self.later(self.calls[member].to_client, self.answered, member)
        self.give_back(frame.rank)

    def left_batch(self, frame: _Frame) -> None:
        """A call of a batch has come, or its thread has served all of them."""
        place = self.calls[frame.call].batch
        if frame.call in self.served_by:
            for number in self.served_by.pop(frame.call):
                self.later(self.calls[number].to_client, self.answered, number)
        else:
            self.batches[place].append(frame.call)
            if len(self.batches[place]) >= self.program.batches[place].size:
                return self.serve_batch(place, frame)
        return self.give_back(frame.rank)

    def serve_batch(self, place: int, frame: _Frame) -> None:
        own, self.batches[place] = self.batches[place], []
        self.served_by[frame.call], self.served[frame.call] = own, frame
        ops = self.program.batches[place].ops([self.calls[number].ops for number in own])
        frame.ops, frame.at = ops, 0
        self.go_on(frame)

    def nobody_comes(self) -> bool:
        """Serve batches that are not full; whether there were any."""
        for place, own in enumerate(self.batches):
            if own and self.free[rank := self.calls[own[-1]].server]:
                self.free[rank] -= 1
                self.serve_batch(place, _Frame(rank, own[-1], ()))
        return bool(self.agenda)

    def give_back(self, rank: int) -> None:
        """A thread is free: it takes the next job."""
        self.free[rank] += 1
        self.next_jobs(rank)

    def next_jobs(self, rank: int) -> None:
        jobs = self.jobs[rank]
        while jobs and self.free[rank]:
            number, is_answer = jobs.popleft()
            (self.complete if is_answer else self.serve)(number)

    def arrived(self, number: int) -> None:
        self.queue(self.calls[number].server, number, is_answer=False)

    def answered(self, number: int) -> None:
        self.queue(self.calls[number].client, number, is_answer=True)

    def queue(self, rank: int, number: int, *, is_answer: bool) -> None:
        self.jobs[rank].append((number, is_answer))
        self.next_jobs(rank)

    def serve(self, number: int) -> None:
        call = self.calls[number]
        self.free[call.server] -= 1
        ops = call.ops if call.batch < 0 else ()
        ops = [*call.arrives, *call.unpickles, *ops, *call.pickles]
        self.served[number] = frame = _Frame(call.server, number, ops)
        self.go_on(frame)

    def complete(self, number: int) -> None:
        """A thread of the client completes the call, when it has done what it does first."""
        call = self.calls[number]
        if not (ops := [*call.returns, *call.receives]):
            return self.completed(number)
        self.free[call.client] -= 1
        frame = _Frame(call.client, number, ops)
        frame.is_answer = True
        return self.go_on(frame)

    def completed(self, number: int) -> None:
        """A call is complete, or a callback: who waits for it goes on, and its thread runs the
        callback that follows."""
        self.over[number] = self.now - self.issued_at.get(number, self.now)
        call = self.calls[number]
        frame, above = self.caller[number], self.began_by[number]
        for waiting in self.waiting.pop(number, ()):
            self.wake(waiting)
        frame.under_way -= not call.is_blocking
        self.drained(frame)
        if above is not frame:  # it may wait for what its callbacks have called
            above.under_way -= 1
            self.drained(above)
        if call.callback >= 0:
            self.caller[call.callback], self.began_by[call.callback] = frame, above
            self.serve(call.callback)

    def above(self, frame: _Frame) -> _Frame:
        """Who began it all: the frame itself, if it is of no callback."""
        is_callback = frame.call >= 0 and self.calls[frame.call].is_callback
        return self.began_by[frame.call] if is_callback else frame

    def drained(self, frame: _Frame) -> None:
        """Let a frame, and what completes its result, go on if few of its calls are under way."""
        for waiting in filter(None, (frame, self.pending.get(frame.call))):
            if waiting.drains_to is not None and waiting.under_way <= waiting.drains_to:
                self.wake(waiting)

    def wake(self, frame: _Frame) -> None:
        frame.waits_for = frame.drains_to = None
        # Not at once: this thread is free again first.
        self.later(0.0, self.go_on, frame)

    def take(self, turns: _Turns, frame: _Frame, then: Callable[[_Frame], None]) -> None:
        turns.append(frame)
        if turns[0] is frame:
            then(frame)

    def pass_on(self, turns: _Turns, then: Callable[[_Frame], None]) -> None:
        turns.popleft()
        if turns:
            then(turns[0])

    def with_lock(self, frame: _Frame) -> None:
        self.later(frame.left, self.leave_lock, frame)

    def leave_lock(self, frame: _Frame) -> None:
        self.pass_on(self.locks[frame.rank], self.with_lock)
        self.go_on(frame)

    def with_gil(self, frame: _Frame) -> None:
        turn = min(frame.left, max(self.switch_ns[frame.rank], frame.left / MOST_TURNS))
        frame.left -= turn
        self.compute(frame, turn)

    def compute(self, frame: _Frame, ns: float) -> None:
        cpus = self.cpus[frame.rank]
        cpus.advance(self.now)
        self.number += 1
        heapq.heappush(cpus.ready, (cpus.clock + ns, self.number, frame))
        self.reckon(cpus)

    def reckon(self, cpus: HostCpus[_Frame]) -> None:
        """Plan when the next thread has computed what it had to."""
        cpus.version += 1
        if cpus.ready:
            delay = max(cpus.ready[0][0] - cpus.clock, 0.0) / cpus.rate
            self.later(delay, self.computed, (cpus, cpus.version))

    def computed(self, of: tuple[HostCpus[_Frame], int]) -> None:
        cpus, version = of
        if version != cpus.version:
            return  # other threads have become ready, or are no more
        cpus.advance(self.now)
        until, _, frame = heapq.heappop(cpus.ready)
        cpus.clock = max(cpus.clock, until)
        self.reckon(cpus)
        gil = self.gils[frame.rank]
        if not gil or gil[0] is not frame:
            self.go_on(frame)
        elif frame.left > 0:
            gil.rotate(-1)
            self.with_gil(gil[0])
        else:
            self.pass_on(gil, self.with_gil)
            self.go_on(frame)

    def chain(self) -> str:
        """Which calls wait for which, from the driver on."""
        names, words, seen = self.program.names, list[str](), set[int]()
        drivers = (at for at, root in enumerate(self.program.roots) if root.is_driver)
        frame: _Frame | None = self.frames[next(drivers)]
        while frame is not None:
            if (number := self.awaited(frame)) is None or number in seen:
                break
            seen.add(number)
            call = self.calls[number]
            # The function of a fetch has no name.
            name = f"{call.function or 'to_here'} on {names[call.server]}"
            for rank, is_answer in ((call.server, False), (call.client, True)):
                if (number, is_answer) in self.jobs[rank]:
                    what = f"the answer of {name}" if is_answer else name
                    words.append(f"{what}, for which no thread of {names[rank]} is free")
                    # One that holds a thread there stands for all.
                    frame = next((each for each in self.served.values() if each.rank == rank), None)
                    break
            else:
                words.append(name)
                frame = self.served.get(number) or self.pending.get(number)
        return ", which waits for ".join(words)

    def awaited(self, frame: _Frame) -> int | None:
        """A call that a frame waits for."""
        if any(frame in takers for takers in self.takers):
            # One that waits itself, beside it, may have the semaphore.
            beside = [(n, other) for n, other in self.served.items() if other.rank == frame.rank]
            return next((n for n, o in beside if (o.waits_for, o.drains_to) != (None, None)), None)
        if frame.drains_to is None:
            return frame.waits_for
        own = (n for n, caller in self.caller.items() if caller is frame and n not in self.over)
        return next(own, None)
