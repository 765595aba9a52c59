"""What a world yields: a measurement or a failure, each with a JSON round trip."""

import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

FailureKind = Literal[
    "deadlocked", "timed-out", "crashed", "init-failed", "wrong-answer", "trace-failed"
]


CallPart = Literal["transport", "queue", "on_cpu", "run_queue", "off_cpu", "served", "pending"]
"""`served` stands for on_cpu, run_queue and off_cpu where the server's CPU time is not known."""


def _printable(text: object) -> object:
    """Text for any file: half a character, as in a broken file name, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


PrintableText = Annotated[str, BeforeValidator(_printable)]


class RankUsage(BaseModel):
    """What one process used: CPU during the timed steps, memory and threads at its end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cpu_s: float
    peak_rss_mb: float
    threads: int


class Quantiles(BaseModel):
    """How long something takes, in milliseconds, at some quantiles."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class TraceNumbers(BaseModel):
    """What a study keeps of a world's trace beside its file; None where the trace cannot tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rpc_cpu_total_ms: float | None
    """RPC CPU total per step, over the calls that no other call contains."""
    rpc_p99_ms: float | None
    """99th percentile of the latency of those calls."""
    parallelism_mean: float | None
    """Calls being served, over all servers: the mean while any is."""
    parallelism_max: float | None
    """The most calls being served at one time."""
    diagnosis: str
    """What limits the busiest server."""
    losses: tuple[str, ...] = ()
    call_ms: Quantiles | None = None
    """Latency of those of the calls that ended."""
    call_parts_ms: dict[CallPart, float] = {}
    """Where the time of such a call goes, on average: the parts sum up to the latency."""


class Measurement(BaseModel):
    """One world that did its work: the times of its steps, and what they took."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["measurement"] = "measurement"
    step_s: tuple[float, ...] = Field(min_length=1)
    """Seconds of each timed step, in order; warm-up steps are not among them."""
    wall_s: float
    """Seconds that all timed steps took together."""
    world_s: float
    """Seconds from the launch of the first process to the end of the last."""
    ranks: tuple[RankUsage, ...]
    tracing_overhead: float | None = None
    """Traced step time over untraced step time; None if the world was not traced. The times of a
    traced world must not be compared with those of an untraced one."""
    trace: TraceNumbers | None = None

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all ranks during the timed steps."""
        return sum(rank.cpu_s for rank in self.ranks)

    @property
    def cpu_cores(self) -> float:
        """CPU seconds per wall second, all ranks."""
        return self.cpu_s / self.wall_s

    @property
    def peak_rss_mb(self) -> float:
        """Peak resident memory, summed over the ranks; shared pages count once for each rank."""
        return sum(rank.peak_rss_mb for rank in self.ranks)

    @property
    def cpu_ms_per_step(self) -> float:
        """CPU time of all ranks over the measured time, per step, in milliseconds."""
        return self.cpu_s / len(self.step_s) * 1e3

    # Read again and again: by everything that looks at all worlds of a study.
    @cached_property
    def median_step_s(self) -> float:
        """The median step time, in seconds."""
        return statistics.median(self.step_s)

    @cached_property
    def p99_step_s(self) -> float:
        """The 99th percentile of the step times, in seconds."""
        if len(self.step_s) == 1:
            return self.step_s[0]
        return statistics.quantiles(self.step_s, n=100, method="inclusive")[98]


class Failure(BaseModel):
    """One world that went wrong: a measured fact about its configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["failure"] = "failure"
    failure: FailureKind
    message: PrintableText
    """The root cause in one line: which rank failed first, where, and how."""
    detail: PrintableText = ""
    """Traceback or gauges, several lines."""
    world_s: float


Outcome = Annotated[Measurement | Failure, Field(discriminator="kind")]
