"""The benchmarks' own workloads; they import no more than the ranks of a benchmark need."""

from collections.abc import Sequence

import torch
import torch.distributed.rpc as rpc
from torch.autograd.profiler_legacy import profile as legacy_profile

from lab.benchmarks.programs import call_all
from workloads import Rank, Workload, World
from workloads.udf import Udf, num_workers_udf_with_ops


class FanOut(Workload):
    """A caller makes a small call to each of `servers` servers."""

    servers: int = 1
    """Number of ranks beside the caller."""

    def ranks(self) -> Sequence[Rank]:
        servers = [Rank(f"worker{n}", "server") for n in range(1, self.servers + 1)]
        return [Rank("worker0", "caller"), *servers]

    def step(self, world: World) -> None:
        call_all(world.names("server"))


class OneCall(FanOut):
    """worker0 calls the recipe's function on worker1, one call at a time."""

    def step(self, world: World) -> None:
        rpc.rpc_sync("worker1", num_workers_udf_with_ops, args=(100, 10, world.seed))


class LegacyOneCall(OneCall):
    """The same with PyTorch's legacy profiler on during all steps."""

    def setup(self, world: World) -> None:
        if world.rank == 0:
            legacy_profile().__enter__()  # type: ignore[no-untyped-call]

    def teardown(self, world: World) -> None:
        if world.rank == 0:
            # Leaving the context would process the records, which takes minutes.
            torch.autograd._disable_profiler_legacy()  # type: ignore[attr-defined]


class LegacyUdf(Udf):
    """The recipe's step, each in a legacy profiler of its own."""

    def step(self, world: World) -> None:
        with legacy_profile():  # type: ignore[no-untyped-call]
            super().step(world)
