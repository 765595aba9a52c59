"""The metrics of a trial, in one table: an entry is a column of `trials.csv` and of tables, a key
of `--json`, an attribute of the Optuna trial, and a line in its note."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from tuner.plan.objectives import CPUS_USED as CPUS
from tuner.plan.objectives import OBJECTIVES, Objective
from tuner.text import three_digits
from tuner.world.measurement import Measurement


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number that is known of a trial, apart from its objective."""

    name: str
    label: str  # metrics of one label share a cell, separated by a `/`
    read: Callable[[Measurement], float | None]  # the number of one world; None: it cannot tell
    combine: Callable[[Sequence[float]], float] = statistics.fmean  # of all worlds
    unit: str = ""
    format: Callable[[float], str] = three_digits
    traced: bool = False  # whether the traced world tells it; else the worlds that count tell it
    table_heading: str | None = None  # in the tables of a terminal; None: it is in none of these

    @property
    def heading(self) -> str:
        """The label with the unit: `peak memory (MB)`."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _others_cpus(world: Measurement) -> float | None:
    return None if world.machine is None else world.machine.others_cpus


def _of(objective: Objective, **more: Any) -> Metric:
    """The number that an objective makes small, told of every trial."""
    same = ("name", "label", "unit", "read", "traced")
    return Metric(**{each: getattr(objective, each) for each in same}, **more)


CPUS_USED = _of(CPUS, table_heading=CPUS.table_heading)
PEAK_MEMORY = Metric(name="peak_rss_mb", label="peak memory", unit="MB", combine=max,
                     read=lambda world: world.peak_rss_mb)  # fmt: skip
PARALLELISM_MEAN = Metric(
    name="parallelism_mean", label="parallelism, mean/max", format="{:.1f}".format,
    read=lambda world: None if world.trace is None else world.trace.parallelism_mean,
    traced=True, table_heading="parallelism",
)  # fmt: skip
PARALLELISM_MAX = replace(
    PARALLELISM_MEAN, name="parallelism_max", format="{:.0f}".format,
    read=lambda world: None if world.trace is None else world.trace.parallelism_max,
)  # fmt: skip
_RPC_CPU = OBJECTIVES["rpc_cpu_total_ms"]

METRICS: tuple[Metric, ...] = (
    CPUS_USED,
    _of(OBJECTIVES["step_p99_ms"], combine=statistics.median),
    _of(OBJECTIVES["cpu_ms_per_step"]),
    PEAK_MEMORY,
    _of(_RPC_CPU, table_heading=_RPC_CPU.table_heading),
    PARALLELISM_MEAN,
    PARALLELISM_MAX,
    Metric(name="tracing_overhead", label="tracing overhead", traced=True,
           read=lambda world: world.tracing_overhead),
    Metric(name="others_cpus", label="CPUs used by other programs", read=_others_cpus),
    Metric(name="disturbed_worlds", label="worlds disturbed by others", combine=sum,
           read=lambda world: None if _others_cpus(world) is None else float(world.is_disturbed)),
)  # fmt: skip
"""Every metric, in the order of the CSV's columns."""


def metrics_of(samples: Sequence[Measurement], traced: Measurement | None) -> dict[str, float]:
    """The known metrics of a trial, by name, from its worlds that count and its traced one."""
    found: dict[str, float] = {}
    for metric in METRICS:
        worlds = samples if not metric.traced else [] if traced is None else [traced]
        if values := [value for value in map(metric.read, worlds) if value is not None]:
            found[metric.name] = metric.combine(values)
    return found


def metric_columns(known: Mapping[str, float]) -> dict[str, float | None]:
    """Every metric by name, from those that are known of a trial; None where one is not."""
    return {metric.name: known.get(metric.name) for metric in METRICS}


class MetricCell(NamedTuple):
    """Metrics of one label: a column of a table, or a line of a note."""

    heading: str
    table_heading: str | None
    traced: bool
    metrics: Sequence[Metric]

    def text(self, known: Mapping[str, float]) -> str:
        """`3.5/4`, from the metrics that are known of a trial; empty if none of these is."""
        if known.keys().isdisjoint(metric.name for metric in self.metrics):
            return ""
        return "/".join(
            metric.format(known[metric.name]) if metric.name in known else "?"
            for metric in self.metrics
        )


def metric_cells() -> list[MetricCell]:
    """The metrics by label, in the order of the table, in which those of a label are neighbours."""
    cells = [[*group] for _, group in groupby(METRICS, lambda metric: metric.label)]
    return [MetricCell(c[0].heading, c[0].table_heading, c[0].traced, c) for c in cells]
