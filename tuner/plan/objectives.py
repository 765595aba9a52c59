"""The objectives: numbers of a world that a search makes small, or large; and limits on them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from tuner.text import did_you_mean, plain_number, share, three_digits

LEAST_VALUE = 1e-12  # the logarithm of 0 is no number
_SHORT = 30  # letters that fit beside the axis of a figure, or above a column of a table
Kind = Literal["workload", "program"]


class _TracedWorld(Protocol):
    """What objectives read of a world's trace."""

    @property
    def rpc_cpu_total_ms(self) -> float | None: ...
    @property
    def rpc_p99_ms(self) -> float | None: ...


class _ProgramRun(Protocol):
    """What objectives read of a world that is a run of a program."""

    @property
    def calls(self) -> int: ...
    @property
    def functions(self) -> Mapping[str, int]: ...
    @property
    def rpc_active_s(self) -> float | None: ...
    @property
    def metric(self) -> float | None: ...


class _World(Protocol):
    """What objectives read of a world, which is a `tuner.world.measurement.Measurement`."""

    @property
    def median_step_s(self) -> float | None: ...
    @property
    def p99_step_s(self) -> float | None: ...
    @property
    def wall_s(self) -> float: ...
    @property
    def world_s(self) -> float: ...
    @property
    def cpu_s(self) -> float | None: ...
    @property
    def cpu_cores(self) -> float | None: ...
    @property
    def cpu_ms_per_step(self) -> float | None: ...
    @property
    def peak_rss_mb(self) -> float | None: ...
    @property
    def trace(self) -> _TracedWorld | None: ...
    @property
    def program(self) -> _ProgramRun | None: ...


@dataclass(frozen=True)
class Objective:
    """A number of a world to make small, or large."""

    name: str
    unit: str
    label: str
    table_heading: str  # the heading in the tables of trials
    of: tuple[Kind, ...]  # what it can be measured of
    read: Callable[[_World], float | None]  # in `unit`; None where the world does not have it
    traced: bool = False  # whether it is read from a trace, so that every world is traced
    maximize: bool = False  # whether more is better

    @property
    def heading(self) -> str:
        """The label with the unit: `median step time (ms)`."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def short_heading(self) -> str:
        """The heading where there is little room: `median step time (ms)`, `RPC active (s)`."""
        return self.heading if len(self.heading) <= _SHORT else self.table_heading

    @property
    def better(self) -> str:
        """Which way is better, for the caption of a figure."""
        return "higher is better" if self.maximize else "lower is better"

    @property
    def is_time(self) -> bool:
        """Whether less of it is faster; of other numbers, one is better than another."""
        return self.unit in ("ms", "s")

    @property
    def is_of_run(self) -> bool:
        """Whether less of it is a faster run, or step; not so of a call, or of CPU time."""
        return self.is_time and self.name != PER_CALL and "cpu" not in self.name

    @property
    def is_of_calls(self) -> bool:
        """Whether less of it is what a forecast of a change is of: a shorter time of all calls."""
        return self.name in ("step_ms", "rpc_active_s", PER_CALL)

    def cost(self, value: float) -> float:
        """The logarithm of a value, turned so that less is better."""
        logarithm = math.log(max(value, LEAST_VALUE))
        return -logarithm if self.maximize else logarithm

    def value(self, world: _World) -> float:
        """The objective of one world, in `unit`; ValueError where it has none: no trace, say."""
        found = self.read(world)
        if found is None:
            raise ValueError(f"the world has no {self.name}")
        return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def ms_per_call(world: _World, mix: Mapping[str, float] = {}) -> float | None:
    """The time of a program's run over its calls; with a `mix` of functions, each with its share,
    over those of the function that it calls least often for its share. What is only called more
    often, as the program waits for the rest, is no work."""
    if (program := world.program) is None:
        return None
    calls: float = program.calls
    if calls and program.functions:
        # What a run does not reach at all is less than one call.
        made = (max(program.functions.get(name, 0), 0.5) / mix[name] for name in mix)
        calls = min(made, default=calls)
    return world.wall_s * 1e3 / calls if calls else None


def _cpu_s(world: _World) -> float | None:
    """Of a program's run, or of a workload's step: worlds of one have different numbers of them."""
    if world.program is not None:
        return world.cpu_s
    return None if world.cpu_ms_per_step is None else world.cpu_ms_per_step / 1e3


_WORKLOADS: tuple[Kind, ...] = ("workload",)
_PROGRAMS: tuple[Kind, ...] = ("program",)
_BOTH: tuple[Kind, ...] = ("workload", "program")

PER_CALL = "ms_per_call"
LEAST_SERVED = "time per RPC call, by the function that gains least"  # its label with a mix
# The label of `rpc_active_s` where ranks have no world size: each joins when it likes.
ACTIVE_FROM_FIRST = "time from the first rank's init_rpc to the last shutdown"
METRIC = Objective("metric", "", "the number that the program prints", "metric", _PROGRAMS,
                   lambda world: world.program.metric if world.program else None)  # fmt: skip
"""What stands for `--metric`; a plan gives it its name and its direction."""

CPUS_USED = Objective(
    "cpu_cores", "", "CPUs used", "CPUs used", _BOTH, lambda world: world.cpu_cores
)
"""No objective, since a world that does nothing uses none; but it can be limited."""

_OBJECTIVES = (
    Objective("step_ms", "ms", "median step time", "step (ms)", _WORKLOADS,
              lambda world: _ms(world.median_step_s)),
    Objective("step_p99_ms", "ms", "99th percentile of the step time", "step_p99 (ms)",
              _WORKLOADS, lambda world: _ms(world.p99_step_s)),
    Objective("cpu_ms_per_step", "ms", "CPU time of all ranks per step", "CPU per step (ms)",
              _WORKLOADS, lambda world: world.cpu_ms_per_step),
    Objective("rpc_cpu_total_ms", "ms", "RPC CPU total per step", "RPC CPU total (ms)",
              _WORKLOADS, lambda world: world.trace.rpc_cpu_total_ms if world.trace else None,
              traced=True),
    Objective("rpc_p99_ms", "ms", "99th percentile of the latency of RPC calls", "rpc_p99 (ms)",
              _WORKLOADS, lambda world: world.trace.rpc_p99_ms if world.trace else None,
              traced=True),
    Objective("rpc_active_s", "s", "time from the last rank's init_rpc to the driver's shutdown",
              "RPC active (s)", _PROGRAMS,
              lambda world: world.program.rpc_active_s if world.program else None),
    Objective(PER_CALL, "ms", "time per RPC call", "per call (ms)", _PROGRAMS, ms_per_call),
    Objective("wall_s", "s", "time from the start of the program to its end", "wall (s)",
              _PROGRAMS, lambda world: world.world_s if world.program else None),
    Objective("peak_rss_mb", "MB", "peak memory of all ranks", "peak memory (MB)", _BOTH,
              lambda world: world.peak_rss_mb),
    Objective("cpu_s", "s", "CPU time of all ranks", "CPU (s)", _BOTH, _cpu_s),
    METRIC,
)  # fmt: skip
OBJECTIVES = {objective.name: objective for objective in _OBJECTIVES}  # as documented
LIMITED = {**OBJECTIVES, CPUS_USED.name: CPUS_USED}  # what may be limited, by name

_LIMIT = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


@dataclass(frozen=True)
class Limit:
    """A bound that a configuration must keep to be recommended, on the median over its worlds."""

    name: str  # a key of `LIMITED`
    at_most: bool  # whether the number may not be larger than the bound; else it may not be smaller
    bound: float

    @classmethod
    def read(cls, raw: object) -> Self:
        """The limit in text such as `peak_rss_mb<=2000`; ValueError if it is none."""
        if isinstance(raw, cls):
            return raw
        if not isinstance(raw, str) or not (match := _LIMIT.fullmatch(raw)):
            raise ValueError(f"must be a limit such as peak_rss_mb<=2000, got {raw!r}")
        name = match["name"]
        if name not in LIMITED:
            raise ValueError(f"unknown metric {name[:60]!r}{did_you_mean(name, tuple(LIMITED))}")
        try:
            bound = float(match["bound"])
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"must end in a number, without a unit, got {raw!r}")
        return cls(name, match["sign"] == "<=", bound)

    @property
    def number(self) -> Objective:
        """What is bounded, and how it is read from a world."""
        return LIMITED[self.name]

    def excess(self, value: float) -> float:
        """How far a value is beyond the bound, in the unit of the number; 0 or less keeps it."""
        return value - self.bound if self.at_most else self.bound - value

    def mistake(self, kind: Kind, objective: str, *, has_metric: bool) -> str:
        """What is wrong with it for a workload or a program, and for a study's objective."""
        if kind not in self.number.of:
            known = [name for name, each in LIMITED.items() if kind in each.of and not each.traced]
            return f"require: {self.name} is not one of a {kind}; known: {', '.join(known)}"
        if self.name == METRIC.name and not has_metric:
            return "require: metric needs a metric: NAME=REGEX with one group"
        if self.number.traced and self.name != objective:
            return (
                f"require: {self.name} is read from traces, and the worlds that count are not "
                "traced. It can be limited where it is the objective"
            )
        return ""

    def __str__(self) -> str:
        return f"{self.name}{'<=' if self.at_most else '>='}{plain_number(self.bound)}"


@dataclass(frozen=True)
class BrokenLimit:
    """A limit that a configuration does not keep."""

    limit: Limit
    value: float  # the median over the configuration's worlds

    @property
    def text(self) -> str:
        """`peak_rss_mb 2400 > 2000, by 20 %`; without a share where the bound is 0."""
        limit = self.limit
        sign, bound = ">" if limit.at_most else "<", plain_number(limit.bound)
        # Just beyond the bound, the share alone tells it.
        value = three_digits(self.value)
        shown = "" if value == three_digits(limit.bound) else f"{value} "
        said = f"{limit.name} {shown}{sign} {bound}"
        if not limit.bound:
            return said
        return f"{said}, by {share(limit.excess(self.value) / abs(limit.bound)) or '0 %'}"

    def to_json(self) -> dict[str, object]:
        """The entry in `--json`."""
        excess = self.limit.excess(self.value)
        return {"limit": str(self.limit), "value": self.value, "excess": excess}
