"""Calls inside of calls, through a chain of processes."""

from collections.abc import Sequence
from typing import Annotated

import torch.distributed.rpc as rpc
from pydantic import Field

from workloads.contract import Rank, Workload, World


def call_on(route: tuple[str, ...], call: int) -> tuple[int, tuple[str, ...]]:
    """Call this function on the first process of `route`, with the rest of it, and wait.

    The answer is `call`, and the names of this process and of those along the route, in order.
    """
    here = rpc.get_worker_info().name
    if not route:
        return call, (here,)
    number, behind = rpc.rpc_sync(route[0], call_on, args=(route[1:], call))
    return number, (here, *behind)


class Nested(Workload):
    """A chain of calls: worker0 calls worker1, which calls worker2 and waits for it, and so on.

    A server that waits for the next one holds a worker thread, and the answer that it waits for
    needs one more. So each server but the last needs one thread more than there are calls in
    flight; with fewer it deadlocks as soon as calls hold all of them. With one thread the first
    call deadlocks, unless `depth` is 1.
    """

    depth: Annotated[int, Field(ge=1)] = 3
    """Processes that a call goes through, the caller not counted."""
    calls: Annotated[int, Field(ge=1)] = 4
    """Calls in flight in each step; PyTorch's default of 16 worker threads serves up to 15."""

    _answers: list[tuple[int, tuple[str, ...]]]

    def ranks(self) -> Sequence[Rank]:
        """One caller, and the servers in the order in which a call goes through them."""
        servers = [Rank(f"worker{rank}", "server") for rank in range(1, self.depth + 1)]
        return [Rank("worker0", "caller"), *servers]

    def step(self, world: World) -> None:
        """Issue every call before awaiting any."""
        first, *others = world.names("server")
        futures = [
            rpc.rpc_async(first, call_on, args=(tuple(others), call)) for call in range(self.calls)
        ]
        self._answers = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        """Every answer is that of its call, and went through every server in order."""
        if len(self._answers) != self.calls:
            raise AssertionError(f"{self.calls} calls gave {len(self._answers)} answers")
        for call, (number, names) in enumerate(self._answers):
            if number != call:
                raise AssertionError(f"call {call} got the answer of call {number}")
            if names != world.names("server"):
                raise AssertionError(
                    f"call {call} went through {', '.join(names)}, "
                    f"not through {', '.join(world.names('server'))}"
                )
