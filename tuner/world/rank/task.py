"""What each process of a world has to do. It travels by pickle, between our own processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.plan.knobs import Value
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.launcher import WorldOrder

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
    order: WorldOrder
    place: tuple[int, int]
    """Its place among the ranks of its host, from 0, and how many these are."""
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
    def spec(self) -> WorkloadSpec:
        """The workload."""
        assert isinstance(self.order.subject, WorkloadSpec), "subject_of took no program"
        return self.order.subject

    @property
    def name(self) -> str:
        """This rank's RPC name."""
        return self.spec.ranks[self.rank].name

    @property
    def values(self) -> Mapping[str, Value]:
        """This rank's part of the configuration, by knob; for others PyTorch's defaults hold."""
        return self.order.config.for_role(self.spec.ranks[self.rank].role)


def rank_tasks(order: WorldOrder, scratch: Path) -> list[RankTask]:
    """The task of each rank of the world, in rank order."""
    assert isinstance(order.subject, WorkloadSpec), "subject_of took no program"
    folder, count = Path.cwd(), len(order.subject.ranks)
    return [
        RankTask(rank=rank, order=order, place=(rank, count), folder=folder, scratch=scratch)
        for rank in range(count)
    ]
