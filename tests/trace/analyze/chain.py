"""A workload with a known critical path: worker0 waits for worker1, which waits for worker2."""

import time
from collections.abc import Sequence

import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World

NAP_S = 0.06


def nap() -> int:
    """Sleep."""
    time.sleep(NAP_S)
    return 1


def relay(server: str) -> int:
    """Have another process sleep."""
    answer: int = rpc.rpc_sync(server, nap)
    return answer


class Chain(Workload):
    """A sleep at the end of a chain of calls."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank(f"worker{rank}", "caller" if rank == 0 else "server") for rank in range(3)]

    def step(self, world: World) -> None:
        futures = [rpc.rpc_async("worker1", relay, args=("worker2",)) for _ in range(2)]
        self._answers = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        if self._answers != [1, 1]:
            raise AssertionError(f"the calls gave {self._answers}")
