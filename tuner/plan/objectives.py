"""The objectives: numbers of a world that a search makes small, or large, one entry each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

LEAST_VALUE = 1e-12
"""The logarithm of 0 is no number."""


class TracedWorld(Protocol):
    """What an objective reads from a world's trace; None where the trace cannot tell."""

    @property
    def rpc_cpu_total_ms(self) -> float | None:
        """CPU time of the RPC calls per step, in milliseconds."""

    @property
    def rpc_p99_ms(self) -> float | None:
        """99th percentile of the latency of the RPC calls, in milliseconds."""


class MeasuredProgram(Protocol):
    """What an objective reads from a run of a program."""

    @property
    def calls(self) -> int:
        """RPC calls that the program made while it was measured."""

    @property
    def rpc_active_s(self) -> float | None:
        """Seconds from the last rank's `init_rpc` to the driver's `shutdown`, if it has one."""

    @property
    def metric(self) -> float | None:
        """The number that the program printed; None if nobody asked for one."""


class MeasuredWorld(Protocol):
    """What an objective reads from a world: `tuner.world.measurement.Measurement` has all of it."""

    @property
    def world_s(self) -> float:
        """Seconds from the start of the first process to the end of the last."""

    @property
    def median_step_s(self) -> float | None:
        """The median step time, in seconds; None for a program, which has no steps."""

    @property
    def p99_step_s(self) -> float | None:
        """The 99th percentile of the step times, in seconds."""

    @property
    def cpu_ms_per_step(self) -> float | None:
        """CPU time of all ranks per step, in milliseconds."""

    @property
    def wall_s(self) -> float:
        """Seconds that all timed steps took, or that the RPC of a program was active."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all ranks in that time."""

    @property
    def cpu_cores(self) -> float:
        """CPU seconds per wall second, all ranks."""

    @property
    def peak_rss_mb(self) -> float:
        """Peak resident memory, summed over the ranks, in MB."""

    @property
    def program(self) -> MeasuredProgram | None:
        """What only a program has; None for a workload."""

    @property
    def trace(self) -> TracedWorld | None:
        """What the world's trace shows; None where it was not traced."""


_SHORT = 30
"""Letters of a heading that fits beside the axis of a figure, or above a column of a table."""

Kind = Literal["workload", "program"]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A number of a world to make small, or large."""

    name: str
    unit: str
    label: str
    table_heading: str
    """The heading in the tables of trials, folded for a terminal."""
    read: Callable[[MeasuredWorld], float | None]
    """The number, in `unit`; None where the world does not have it."""
    of: tuple[Kind, ...]
    """What it can be measured of."""
    traced: bool = False
    """Whether it is read from a trace, so that every world of a study is traced."""
    maximize: bool = False
    """Whether more is better."""

    @property
    def heading(self) -> str:
        """The label with the unit: `median step time (ms)`."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def short_heading(self) -> str:
        """The heading where there is little room: `median step time (ms)`, `RPC active (s)`."""
        short = self.table_heading.replace("\n", " ")
        return self.heading if len(self.heading) <= _SHORT else short

    @property
    def better(self) -> str:
        """Which way is better, for the caption of a figure."""
        return "higher is better" if self.maximize else "lower is better"

    @property
    def is_time(self) -> bool:
        """Whether less of it is faster; of other numbers, one is better than another."""
        return self.unit in ("ms", "s")

    def cost(self, value: float) -> float:
        """The logarithm of a value, turned so that less is better."""
        logarithm = math.log(max(value, LEAST_VALUE))
        return -logarithm if self.maximize else logarithm

    def value(self, world: MeasuredWorld) -> float:
        """The objective of one world, in `unit`.

        Raises:
            ValueError: The world does not have it: it was not traced, say.
        """
        found = self.read(world)
        if found is None:
            raise ValueError(f"the world has no {self.name}")
        return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _ms_per_call(world: MeasuredWorld) -> float | None:
    calls = world.program.calls if world.program else 0
    return world.wall_s * 1e3 / calls if calls else None


def _cpu_s(world: MeasuredWorld) -> float | None:
    """Of a program's run, or of a workload's step: worlds of one have different numbers of them."""
    if world.program is not None:
        return world.cpu_s
    return None if world.cpu_ms_per_step is None else world.cpu_ms_per_step / 1e3


_WORKLOADS: tuple[Kind, ...] = ("workload",)
_PROGRAMS: tuple[Kind, ...] = ("program",)

ACTIVE_FROM_FIRST = "time from the first rank's init_rpc to the last shutdown"
"""The label of `rpc_active_s` where ranks have no world size: each joins when it likes."""

METRIC = Objective(
    name="metric",
    unit="",
    label="the number that the program prints",
    table_heading="metric",
    read=lambda world: None if world.program is None else world.program.metric,
    of=_PROGRAMS,
)
"""What stands for `--metric`; a plan gives it its name and its direction."""

CPUS_USED = Objective(
    name="cpu_cores",
    unit="",
    label="CPUs used",
    table_heading="CPUs\nused",
    read=lambda world: world.cpu_cores,
    of=(*_WORKLOADS, *_PROGRAMS),
)
"""No objective, since a world that does nothing uses none; but it can be limited."""

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            name="step_ms",
            unit="ms",
            label="median step time",
            table_heading="step\n(ms)",
            read=lambda world: _ms(world.median_step_s),
            of=_WORKLOADS,
        ),
        Objective(
            name="step_p99_ms",
            unit="ms",
            label="99th percentile of the step time",
            table_heading="step_p99\n(ms)",
            read=lambda world: _ms(world.p99_step_s),
            of=_WORKLOADS,
        ),
        Objective(
            name="cpu_ms_per_step",
            unit="ms",
            label="CPU time of all ranks per step",
            table_heading="CPU\nper step\n(ms)",
            read=lambda world: world.cpu_ms_per_step,
            of=_WORKLOADS,
        ),
        Objective(
            name="rpc_cpu_total_ms",
            unit="ms",
            label="RPC CPU total per step",
            table_heading="RPC CPU\ntotal\n(ms)",
            read=lambda world: None if world.trace is None else world.trace.rpc_cpu_total_ms,
            of=_WORKLOADS,
            traced=True,
        ),
        Objective(
            name="rpc_p99_ms",
            unit="ms",
            label="99th percentile of the latency of RPC calls",
            table_heading="rpc_p99\n(ms)",
            read=lambda world: None if world.trace is None else world.trace.rpc_p99_ms,
            of=_WORKLOADS,
            traced=True,
        ),
        Objective(
            name="rpc_active_s",
            unit="s",
            label="time from the last rank's init_rpc to the driver's shutdown",
            table_heading="RPC\nactive\n(s)",
            read=lambda world: None if world.program is None else world.program.rpc_active_s,
            of=_PROGRAMS,
        ),
        Objective(
            name="ms_per_call",
            unit="ms",
            label="time per RPC call",
            table_heading="per call\n(ms)",
            read=_ms_per_call,
            of=_PROGRAMS,
        ),
        Objective(
            name="wall_s",
            unit="s",
            label="time from the start of the program to its end",
            table_heading="wall\n(s)",
            read=lambda world: None if world.program is None else world.world_s,
            of=_PROGRAMS,
        ),
        Objective(
            name="peak_rss_mb",
            unit="MB",
            label="peak memory of all ranks",
            table_heading="peak\nmemory\n(MB)",
            read=lambda world: world.peak_rss_mb,
            of=(*_WORKLOADS, *_PROGRAMS),
        ),
        Objective(
            name="cpu_s",
            unit="s",
            label="CPU time of all ranks",
            table_heading="CPU\n(s)",
            read=_cpu_s,
            of=(*_WORKLOADS, *_PROGRAMS),
        ),
        METRIC,
    )
}
