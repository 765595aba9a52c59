"""The program that both sides of the benchmark run: a caller, and servers that it calls."""

from collections.abc import Sequence

import torch
import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World


def call_all(servers: Sequence[str]) -> None:
    """One small call to each server, all in flight at once."""
    futures = [rpc.rpc_async(name, torch.add, args=(torch.ones(10), 1)) for name in servers]
    for future in futures:
        future.wait()


class FanOut(Workload):
    """A caller and `servers` servers."""

    servers: int = 1
    """Ranks besides the caller."""

    def ranks(self) -> Sequence[Rank]:
        return [
            Rank("worker0", "caller"),
            *(Rank(f"worker{n}", "server") for n in range(1, self.servers + 1)),
        ]

    def step(self, world: World) -> None:
        call_all(world.names("server"))
