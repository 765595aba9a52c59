"""Light calls between all processes: the cost of RPC itself, with little work in the calls."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import torch.distributed.rpc as rpc
from pydantic import Field
from torch.futures import Future

from workloads.contract import Rank, Workload, World
from workloads.own_thread import OwnThread
from workloads.typed_rpc import async_execution


class Peer:
    """One process's part: it makes calls, and counts those that it serves."""

    def __init__(self, world: World, calls: int, in_flight: int) -> None:
        self.rank = world.rank
        self.others = tuple(name for name in world.names("peer") if name != world.name)
        self.calls = calls
        self.in_flight = in_flight
        self.own_thread = OwnThread()
        self.served = tuple(itertools.count() for _ in world.ranks)
        """By caller's rank. `next` of a count is one C call under the GIL, so no call is missed."""

    def call_others(self) -> int:
        """Call the others in turn, `calls` times each; returns the number of wrong answers."""
        issued = (
            (number, rpc.rpc_async(other, no_op, args=(self.rank, number)))
            for number, other in enumerate(self.others * self.calls)
        )
        return sum(
            answer != number
            for number, answer in answers(issued, at_once=self.in_flight * len(self.others))
        )

    def take_counts(self) -> list[int]:
        """By caller's rank: the calls served since the last time that this was asked."""
        served, self.served = self.served, tuple(itertools.count() for _ in self.served)
        return [next(count) for count in served]


_peer: Peer
"""From setup to teardown."""


def answers(issued: Iterable[tuple[int, Future[int]]], at_once: int) -> Iterator[tuple[int, int]]:
    """The number and the answer of each call, in the order of issue.

    Taking from `issued` issues a call. Once `at_once` are in flight, the oldest is awaited.
    """
    waiting: deque[tuple[int, Future[int]]] = deque()
    for call in issued:
        waiting.append(call)
        if len(waiting) == at_once:
            number, future = waiting.popleft()
            yield number, future.wait()
    for number, future in waiting:
        yield number, future.wait()


def no_op(caller: int, number: int) -> int:
    """Count a call of the rank `caller`, and answer its number."""
    next(_peer.served[caller])
    return number


@async_execution
def call_others() -> Future[int]:
    """Have this process call all others, on a thread of its own, since it waits for answers."""
    return _peer.own_thread.submit(_peer.call_others)


def take_counts() -> list[int]:
    """By caller's rank: the calls served here since the last time that this was asked."""
    return _peer.take_counts()


class Light(Workload):
    """Many no-op calls in flight between all pairs of processes: every process calls every other.

    Rank 0 has all processes start, itself too, and waits until all are done. A process issues the
    next call as soon as its oldest call in flight is answered.
    """

    calls: Annotated[int, Field(ge=1)] = 20
    """Calls that each process makes to each other process in each step."""
    world_size: Annotated[int, Field(ge=2, le=64)] = 3
    """Number of processes."""
    in_flight: Annotated[int, Field(ge=1)] = 10
    """The most calls in flight from each process to each other process."""

    _steps: int = 0
    _strays: int = 0
    """Answers that belonged to another call, in all steps."""

    def ranks(self) -> Sequence[Rank]:
        """All are peers."""
        return [Rank(f"worker{rank}", "peer") for rank in range(self.world_size)]

    def setup(self, world: World) -> None:
        """Get ready to call and to be called."""
        global _peer
        _peer = Peer(world, self.calls, self.in_flight)

    def step(self, world: World) -> None:
        """Have every process call every other, all at the same time."""
        futures = [rpc.rpc_async(name, call_others) for name in world.names("peer")]
        self._strays += sum(future.wait() for future in futures)
        self._steps += 1

    def check(self, world: World) -> None:
        """Every call of every step was served once, and got its own answer."""
        if self._strays:
            raise AssertionError(f"{self._strays} calls got the answer of another call")
        steps, self._steps = self._steps, 0
        for server in world.ranks:
            counts = rpc.rpc_sync(server.name, take_counts)
            for caller, count in zip(world.ranks, counts, strict=True):
                due = 0 if caller == server else steps * self.calls
                if count != due:
                    raise AssertionError(
                        f"{server.name} served {count} calls of {caller.name}, which made {due}"
                    )

    def teardown(self, world: World) -> None:
        """End this process's own thread."""
        del world
        global _peer
        _peer.own_thread.close()
        del _peer
