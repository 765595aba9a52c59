"""What a world yields: a measurement or a failure, each with a JSON round trip."""

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tuner.plan.frozen_model import FrozenModel
from tuner.text import printable, shortened
from tuner.world.environment import MachineState
from tuner.world.messages import FailureKind as FailureKind

CallPart = Literal["transport", "queue", "on_cpu", "run_queue", "off_cpu", "served", "pending"]
"""`served` stands for on_cpu, run_queue and off_cpu where the server's CPU time is not known."""
CLOCKS_SHARE, CLOCKS_S = 0.1, 0.05
"""The clocks of ranks are read one after the other: so much more CPU time they may show."""

MOST_CHARACTERS = 4000
"""The most characters of an error's message that a rank reports in full."""
MOST_OF_DETAIL = 16_000
"""Likewise of what stands beside it: a traceback, the gauges of all ranks."""


def _printable(text: object) -> object:
    # Who reports a failure has shortened it; this is for those who have not.
    return shortened(printable(text), 2 * MOST_OF_DETAIL) if isinstance(text, str) else text


PrintableText = Annotated[str, BeforeValidator(_printable)]


def total(amounts: Iterable[float | None]) -> float | None:
    """The sum; None if one of them is not known."""
    known = [*amounts]
    return None if None in known else sum(filter(None, known), 0.0)


class RankUsage(FrozenModel):
    """What one process used: CPU in `Measurement.cpu_s`, memory and threads at its end. None: it
    ended without a word of it."""

    name: str
    cpu_s: float | None
    peak_rss_mb: float | None
    threads: int


class Quantiles(FrozenModel):
    """How long something takes, in milliseconds, at some quantiles."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values_ms: Sequence[float]) -> Self | None:
        """The quantiles of these values; None if there are none."""
        if not values_ms:
            return None
        if len(values_ms) == 1:
            return cls(**dict.fromkeys(cls.model_fields, values_ms[0]))
        cuts = statistics.quantiles(values_ms, n=100, method="inclusive")
        return cls(**{name: cuts[int(name[1:]) - 1] for name in cls.model_fields})


class TraceNumbers(FrozenModel):
    """What a study keeps of a world's trace beside its file; None where that is not known."""

    rpc_cpu_total_ms: float | None
    """RPC CPU total per step, over the calls that no other call contains."""
    rpc_p99_ms: float | None
    """99th percentile of the latency of those calls."""
    parallelism_mean: float | None
    """Calls being served, over all servers: the mean while any is."""
    parallelism_max: float | None
    """The most calls being served at one time."""
    diagnosis: PrintableText
    """What limits the busiest server."""
    enough_threads: tuple[PrintableText, ...] = ()
    """The servers that more threads do not help, by the diagnosis."""
    losses: tuple[PrintableText, ...] = ()
    calls: int | None = None
    """How many RPC calls there are; None in studies of older versions."""
    failed_calls: int | None = None
    """How many of them raised or timed out; None likewise."""
    open_calls: int | None = None
    """How many of the driver's calls were under way when its last step had ended."""
    call_ms: Quantiles | None = None
    """Latency of those of the calls that ended."""
    call_parts_ms: dict[CallPart, float] = Field(default_factory=dict)
    """Where the time of such a call goes, on average; the parts sum up to the latency."""


class ProgramRun(FrozenModel, extra="ignore"):
    """What only a run of a program has. Earlier versions kept more of it."""

    calls: int
    """RPC calls that its ranks made in `Measurement.wall_s`."""
    functions: dict[PrintableText, int] = Field(default_factory=dict)
    """The same by what they call; empty where that is not known."""
    failed: int | None = None
    """How many of them failed, those that only start an RRef not counted; None: not known."""
    rpc_active_s: float | None = None
    """Seconds from the last rank's `init_rpc` to the driver's `shutdown`; None if a rank calls
    none, or a window was measured."""
    metric: float | None = None
    """The number that it printed, if it was asked for one."""


class Measurement(FrozenModel):
    """One world that did its work: how long that took, and what it used."""

    kind: Literal["measurement"] = "measurement"
    step_s: tuple[float, ...] = ()
    """Seconds of each timed step, in order, or of some drawn at random; empty for a program."""
    steps: int | None = None
    """How many timed steps there were; None where `step_s` has each of them."""
    wall_s: float
    """Seconds that all timed steps took together, or that the RPC of a program was active."""
    world_s: float
    """Seconds from the launch of the first process to the end of the last."""
    cpu_wall_s: float | None = None
    """Seconds in which the ranks used their CPU time, where that is not `wall_s`."""
    ranks: tuple[RankUsage, ...]
    tracing_overhead: float | None = None
    """Traced step time over untraced step time; None if the world was not traced."""
    trace: TraceNumbers | None = None
    program: ProgramRun | None = None
    machine: MachineState | None = None
    """What the machine did meanwhile; None in studies of older versions."""

    @model_validator(mode="after")
    def _has_steps_or_a_program(self) -> Self:
        if (self.program is None) != bool(self.step_s):
            raise ValueError("a measurement has timed steps, or it is one of a program")
        return self

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of all ranks in `cpu_wall_s`, or in `wall_s`; None if that of one is not
        known."""
        return total(rank.cpu_s for rank in self.ranks)

    @property
    def cpu_cores(self) -> float | None:
        """CPU seconds per wall second, all ranks; None if that is not known."""
        used_s = self.cpu_s
        return None if used_s is None else used_s / (self.cpu_wall_s or self.wall_s)

    def check_cpus(self, cpus: int) -> None:
        """AssertionError if its ranks used more CPUs than there are, beyond what clocks explain."""
        seconds = self.cpu_wall_s or self.wall_s
        most_s = (1 + CLOCKS_SHARE) * cpus * seconds + CLOCKS_S * len(self.ranks)
        if (self.cpu_s or 0.0) > most_s:  # no `assert`: it is to hold in optimised Python, too
            raise AssertionError(f"{self.cpu_s} CPU s in {seconds} s, with {cpus} CPUs")

    @property
    def is_disturbed(self) -> bool:
        """Whether others took so much of the machine that its times may not be its own."""
        return self.machine is not None and self.machine.is_disturbed

    @property
    def peak_rss_mb(self) -> float | None:
        """Peak resident memory, summed over the ranks; shared pages count once for each rank. None
        if that of one is not known."""
        return total(rank.peak_rss_mb for rank in self.ranks)

    @property
    def cpu_ms_per_step(self) -> float | None:
        """CPU time of all ranks over the measured time, per step, in milliseconds."""
        if not self.step_s or (used_s := self.cpu_s) is None:
            return None
        return used_s / (self.steps or len(self.step_s)) * 1e3

    # Read again and again: by everything that looks at all worlds of a study.
    @cached_property
    def median_step_s(self) -> float | None:
        """The median step time, in seconds; None for a program."""
        return statistics.median(self.step_s) if self.step_s else None

    @cached_property
    def p99_step_s(self) -> float | None:
        """The 99th percentile of the step times, in seconds; None for a program."""
        if len(self.step_s) < 2:
            return next(iter(self.step_s), None)
        # As `statistics.quantiles`, which works out the other 98 as well.
        ordered = sorted(self.step_s)
        place, rest = divmod(99 * (len(ordered) - 1), 100)
        after = ordered[min(place + 1, len(ordered) - 1)]
        return (ordered[place] * (100 - rest) + after * rest) / 100


class Failure(FrozenModel):
    """One world that went wrong: a measured fact about its configuration."""

    kind: Literal["failure"] = "failure"
    failure: FailureKind
    message: PrintableText
    """The root cause in one line: which rank failed first, where, and how."""
    detail: PrintableText = ""
    """Traceback or gauges, several lines."""
    rank: str = ""
    """The rank whose failure it is; empty where no single one has it, and in older studies."""
    is_untimely: bool = False
    """Whether a process was killed from outside, as far as is known: another world may run."""
    world_s: float
    machine: MachineState | None = None
    """As for a measurement."""


Outcome = Annotated[Measurement | Failure, Field(discriminator="kind")]
