"""What each process of a world has to do. It travels by pickle, between our own processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.plan.knobs import Value
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.launcher import TraceOrder, WorldOrder

MEETING = "rpc-tuner"
"""The scheme of the addresses where ranks of several hosts meet; see `rank/run_rank.py`."""


def listening_on(interface: str) -> dict[str, str]:
    """The environment in which RPC listens on this interface and on no other."""
    return {"TP_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}


LOOPBACK = listening_on("lo")
"""RPC runs any function it is sent: listening beyond loopback would be an open door."""


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What one process of a world has to do."""

    rank: int
    spec: WorkloadSpec
    values: Mapping[str, Value]
    """This rank's part of the configuration, by knob; PyTorch's default holds for the others."""
    place: tuple[int, int]
    """Its place among the ranks of its host, from 0, and how many these are."""
    seed: int
    steps: int | None
    min_time_s: float
    trace: TraceOrder | None
    folder: Path
    """The working folder that the process starts in."""
    scratch: Path
    """The world's own folder: rendezvous file, captured output, stacks."""
    init_method: str | None = None
    """Where the ranks meet; None: at a file in `scratch`, for those of one host."""
    network_of: int | None = None
    """The process whose network namespace this one joins; None: it stays in the machine's."""
    environment: Mapping[str, str] = field(default_factory=lambda: LOOPBACK)
    """Variables for this process."""

    @property
    def name(self) -> str:
        """This rank's RPC name."""
        return self.spec.ranks[self.rank].name


def rank_tasks(order: WorldOrder, scratch: Path) -> list[RankTask]:
    """The task of each rank of the world, in rank order."""
    spec, folder = order.subject, Path.cwd()
    assert isinstance(spec, WorkloadSpec), "subject_of took no program"
    return [
        RankTask(
            rank=rank,
            spec=spec,
            values=order.config.for_role(each.role),
            place=(rank, len(spec.ranks)),
            seed=order.seed,
            steps=order.steps,
            min_time_s=order.min_time_s,
            trace=order.trace,
            folder=folder,
            scratch=scratch,
        )
        for rank, each in enumerate(spec.ranks)
    ]
