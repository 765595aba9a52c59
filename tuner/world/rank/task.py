"""What the launcher tells a process of a world. It travels by pickle, between our own processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.plan.knobs import Value
from tuner.world.launcher import TraceOrder


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What one process of a world has to do."""

    rank: int
    ranks: tuple[tuple[str, str], ...]
    """Name and role of every rank."""
    reference: str
    options: Mapping[str, bool | int | float | str]
    values: Mapping[str, Value]
    """This rank's part of the configuration, by knob; PyTorch's default holds for the others."""
    intra_op_threads: int
    seed: int
    steps: int | None
    min_time_s: float
    trace: TraceOrder | None
    folder: Path
    """The working folder that the process starts in."""
    scratch: Path
    """The world's own folder: rendezvous file, captured output, stacks."""

    @property
    def name(self) -> str:
        """This rank's RPC name."""
        return self.ranks[self.rank][0]
