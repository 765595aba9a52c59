"""A workload that is wrong where its ranks do not share a single logical CPU."""

import os

import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


class Pinned(Workload):
    """Both ranks are on one CPU."""

    def ranks(self) -> list[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def step(self, world: World) -> None:
        """Ask the other rank for its CPUs."""
        own, other = cpus(), rpc.rpc_sync("worker1", cpus)
        assert own == other
        assert len(own) == 1
