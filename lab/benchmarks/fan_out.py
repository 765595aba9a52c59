"""The benchmark's program as a workload: a caller and its servers."""

from collections.abc import Sequence

from lab.benchmarks.calls import call_all
from workloads import Rank, Workload, World


class FanOut(Workload):
    """A caller and `servers` servers."""

    servers: int = 1
    """Number of ranks beside the caller."""

    def ranks(self) -> Sequence[Rank]:
        return [
            Rank("worker0", "caller"),
            *(Rank(f"worker{n}", "server") for n in range(1, self.servers + 1)),
        ]

    def step(self, world: World) -> None:
        call_all(world.names("server"))
