"""The contract of every launcher: describe a workload, run a world of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.measurement import Failure, Measurement


@dataclass(frozen=True, kw_only=True)
class TraceOrder:
    """A trace to take of a world."""

    path: Path
    """Where it is written."""
    operators: bool
    """Whether to record operators too, which costs more."""


@dataclass(frozen=True, kw_only=True)
class WorldOrder:
    """One world to launch."""

    workload: WorkloadSpec
    config: Config
    seed: int
    steps: int | None
    """Timed steps; None calibrates: as many as the timed part needs to last `timed_part_s`."""
    min_time_s: float
    deadline_s: float
    trace: TraceOrder | None = None
    """Trace the steps, of which `steps` gives the number: a world to look into, not to time."""
    failure_folder: Path | None = None
    """Where what the ranks printed, and their stacks, go if the world fails."""


class Launcher(Protocol):
    """Launches worlds, one at a time; a context manager that leaves no rank behind."""

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """The workload with its options filled in; UsageError lists what is wrong with it."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """One world, from launch to gone.

        Whatever happens in the world becomes a Failure; LauncherError means that no world can
        be launched here at all.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
