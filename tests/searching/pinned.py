"""A workload that is wrong where its ranks do not share a single logical CPU."""

import os

import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


class Pinned(Workload):
    """Asks the other rank for its CPUs."""

    _seen: tuple[list[int], list[int]]

    def ranks(self) -> list[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def step(self, world: World) -> None:
        """Ask."""
        self._seen = cpus(), rpc.rpc_sync("worker1", cpus)

    def check(self, world: World) -> None:
        """Both are on one CPU."""
        own, other = self._seen
        if own != other or len(own) != 1:
            raise ValueError(f"ranks on {own} and {other}")
