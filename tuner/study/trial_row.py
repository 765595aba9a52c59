"""What is known of one trial: its row in the tables, its worlds, how its times are distributed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.limits import BrokenLimit
from tuner.study.metrics import Metric, metric_columns
from tuner.study.records import Phase
from tuner.world.measurement import CallPart, Quantiles


class Paired(NamedTuple):
    """One trial beside another, from the blocks that measured both."""

    ratio: Interval
    """How many times as fast it is, or as good: the other's time / its time. The interval of
    fewer than 3 blocks reaches from 0 to infinity."""
    blocks: int

    def columns(self) -> dict[str, float]:
        """The numbers by column; those of a ratio that is too uncertain to say are NaN."""
        if not self.ratio.is_told:
            return {**_UNPAIRED, "paired_blocks": self.blocks}
        return {
            "speedup": self.ratio.estimate,
            "speedup_ci_low": self.ratio.low,
            "speedup_ci_high": self.ratio.high,
            "paired_blocks": self.blocks,
        }


def ratio_json(found: Interval | None) -> dict[str, float | None]:
    """A ratio as `estimate`, `ci_low`, `ci_high`; all null where it is too uncertain to say."""
    if found is None or not found.is_told:
        return {"estimate": None, "ci_low": None, "ci_high": None}
    return {"estimate": found.estimate, "ci_low": found.low, "ci_high": found.high}


_UNPAIRED = {
    "speedup": math.nan,
    "speedup_ci_low": math.nan,
    "speedup_ci_high": math.nan,
    "paired_blocks": 0,
}


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """What became of one configuration.

    `value` and its interval have the objective's unit, and are NaN where nothing was measured.
    """

    trial: int
    config: Config
    outcome: str
    """`completed`, `eliminated`, `not-measured`, `infeasible`, or the kind of failure."""
    failure: str | None
    samples: int
    """Worlds measured."""
    worlds_run: int = 0
    """All of its worlds but traces: first ones, those that failed, and of blocks that do not count.
    """
    worlds_failed: int = 0
    unreliable: bool = False
    """Whether it is shown to fail more often than the others."""
    value: float
    ci_low: float
    ci_high: float
    against_baseline: Paired | None = None
    """How many times as fast as the baseline it is; None where no block measured both."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics that are known, by name; `tuner.study.metrics` declares them."""
    diagnosis: str | None = None
    """What limits the configuration, from its traced world; or why there is no trace."""
    enough_threads: tuple[str, ...] = ()
    """The ranks that more threads do not help, by the diagnosis."""
    tied_with_best: bool = False
    broken: tuple[BrokenLimit, ...] = ()
    """The limits that it does not keep."""
    eliminated: str | None = None
    """Why it left the race, or was in no block; None where it stayed, or failed."""

    @property
    def label(self) -> str:
        """The configuration in words: `num_worker_threads=8`."""
        return str(self.config)

    @property
    def fails_sometimes(self) -> bool:
        """Whether some of its worlds failed, and not all."""
        return 0 < self.worlds_failed < self.worlds_run

    @property
    def is_measured(self) -> bool:
        """Whether the configuration was measured, and is not out for its failures."""
        return self.failure is None and not math.isnan(self.value)

    @property
    def broken_text(self) -> str:
        """By how much it breaks which limits: `peak_rss_mb 2400 > 2000, by 20 %`."""
        return "; ".join(each.text for each in self.broken)

    def metric(self, metric: Metric) -> float:
        """The value of a metric; NaN where it is not known."""
        return self.metrics.get(metric.name, math.nan)

    def columns(self) -> dict[str, Any]:
        """The row of `trials.csv`, by column; None where a metric is not known."""
        return {
            "trial": self.trial,
            "label": self.label,
            "config": self.config,
            **self._numbers(),
            "broken_limits": self.broken_text or None,
            "eliminated": self.eliminated,
        }

    def to_json(self) -> dict[str, Any]:
        """The entry of the trial in `--json`; null where a number is not known."""
        numbers = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in self._numbers().items()
        }
        broken = [each.to_json() for each in self.broken]
        return {
            "config": self.config.to_json(),
            **numbers,
            "unreliable": self.unreliable,
            "broken_limits": broken,
            "eliminated": self.eliminated,
        }

    def _numbers(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "failure": self.failure,
            "samples": self.samples,
            "worlds_run": self.worlds_run,
            "worlds_failed": self.worlds_failed,
            "value": self.value,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            **(self.against_baseline.columns() if self.against_baseline else _UNPAIRED),
            **metric_columns(self.metrics),
            "diagnosis": self.diagnosis,
            "tied_with_best": self.tied_with_best,
        }


class Observation(NamedTuple):
    """One world that counts: its objective, in the objective's unit."""

    trial: int
    block: int
    phase: Phase
    value: float


@dataclass(frozen=True, kw_only=True)
class TrialDetail:
    """How the times of one trial are distributed; for figures and notes, not for the table."""

    step_ms: Quantiles | None = None
    """Of every timed step of every world that counts."""
    calls: int | None = None
    """How many RPC calls its trace holds; None where no trace tells."""
    call_ms: Quantiles | None = None
    """Of the outermost calls of its trace."""
    call_parts_ms: Mapping[CallPart, float] = field(default_factory=dict)
    """Where the time of such a call goes, on average; empty where no trace tells."""
