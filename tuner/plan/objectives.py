"""The objectives: numbers of a world that a search makes small. Adding one is one entry here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class TracedWorld(Protocol):
    """What an objective reads from a world's trace; None where the trace cannot tell."""

    @property
    def rpc_cpu_total_ms(self) -> float | None:
        """CPU time of the RPC calls per step, in milliseconds."""

    @property
    def rpc_p99_ms(self) -> float | None:
        """99th percentile of the latency of the RPC calls, in milliseconds."""


class MeasuredWorld(Protocol):
    """What an objective reads from a world: `tuner.world.measurement.Measurement` has all of it."""

    @property
    def median_step_s(self) -> float:
        """The median step time, in seconds."""

    @property
    def p99_step_s(self) -> float:
        """The 99th percentile of the step times, in seconds."""

    @property
    def cpu_ms_per_step(self) -> float:
        """CPU time of all ranks per step, in milliseconds."""

    @property
    def trace(self) -> TracedWorld | None:
        """What the world's trace shows; None where it was not traced."""


@dataclass(frozen=True)
class Objective:
    """A number of a world to make small."""

    name: str
    unit: str
    label: str
    table_heading: str
    """The heading in the tables of trials, folded for a terminal."""
    read: Callable[[MeasuredWorld], float | None]
    """The number, in `unit`; None where the world does not have it."""
    traced: bool = False
    """Whether it is read from a trace, so that every world of a study is traced."""

    def value(self, world: MeasuredWorld) -> float:
        """The objective of one world, in `unit`.

        Raises:
            ValueError: The world does not have it: it was not traced, say.
        """
        found = self.read(world)
        if found is None:
            raise ValueError(f"a world without a trace has no {self.name}")
        return found


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            "step_ms",
            "ms",
            "median step time",
            "step\n(ms)",
            lambda world: world.median_step_s * 1e3,
        ),
        Objective(
            "step_p99_ms",
            "ms",
            "99th percentile of the step time",
            "step_p99\n(ms)",
            lambda world: world.p99_step_s * 1e3,
        ),
        Objective(
            "cpu_ms_per_step",
            "ms",
            "CPU time of all ranks per step",
            "CPU\nper step\n(ms)",
            lambda world: world.cpu_ms_per_step,
        ),
        Objective(
            "rpc_cpu_total_ms",
            "ms",
            "RPC CPU total per step",
            "RPC CPU\ntotal\n(ms)",
            lambda world: None if world.trace is None else world.trace.rpc_cpu_total_ms,
            traced=True,
        ),
        Objective(
            "rpc_p99_ms",
            "ms",
            "99th percentile of the latency of RPC calls",
            "rpc_p99\n(ms)",
            lambda world: None if world.trace is None else world.trace.rpc_p99_ms,
            traced=True,
        ),
    )
}
