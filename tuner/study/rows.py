"""The rows of a study's table, in its order, and why one above the recommended one is not it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from tuner.decide.gains import Gains, Paired
from tuner.decide.ranking import SAME_COST
from tuner.decide.statistics import Interval, interval
from tuner.plan.config import Config
from tuner.plan.objectives import BrokenLimit, Objective
from tuner.study.log import BASELINE, BLOCK_PHASES, StudyLog
from tuner.study.metrics import Metric, metric_columns
from tuner.study.records import ForecastThreads, Phase
from tuner.study.trial_state import FAILS_MORE
from tuner.text import MOST_TELLING
from tuner.world.measurement import CallPart, Failure, Measurement, Quantiles

Reason = Literal[
    "limit",
    "unreliable",
    "lost-calls",
    "few-blocks",
    "not-told-apart",
    "within-epsilon",
    "not-shown",
]
Preference = Literal["baseline", "less-cpu", "fewer-threads"]

_PLAIN = (
    "outcome", "failure", "samples", "worlds_run", "worlds_failed", "value", "ci_low", "ci_high",
)  # fmt: skip
_UNTOLD = Interval(math.nan, math.nan, math.nan)


def ratio_json(found: Interval | None) -> dict[str, float | None]:
    """A ratio as `estimate`, `ci_low`, `ci_high`; of one too uncertain to say, the bound that shows
    whether it is above 1, and else null."""
    ends: tuple[float | None, ...] = (None, None, None)
    if found and found.is_alone:
        ends = (found.estimate, None, None)
    elif found and found.is_told:
        ends = (found.estimate, found.low, found.high)
    elif found:
        is_more, is_less = 1 < found.low < math.inf, 0 < found.high < 1
        ends = (None, found.low if is_more else None, found.high if is_less else None)
    return dict(zip(("estimate", "ci_low", "ci_high"), ends, strict=True))


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """What became of one configuration. `value` and its interval have the objective's unit, and are
    NaN where nothing was measured."""

    trial: int
    config: Config
    # `completed`, `eliminated`, `not-measured`, `infeasible`, `fails-more`, or the kind of failure
    outcome: str
    failure: str | None  # also how much less work it does than the baseline
    samples: int  # worlds measured
    worlds_run: int = 0  # all of its worlds but traces, also in blocks that do not count
    worlds_failed: int = 0
    unreliable: bool = False  # whether it is shown to fail more often than the others
    lost: str | None = None  # how much less work it seems to do than the baseline: it is no answer
    value: float
    ci_low: float
    ci_high: float
    against_baseline: Paired | None = None  # None where no block measured both
    metrics: Mapping[str, float] = field(default_factory=dict)  # those that are known, by name
    diagnosis: str | None = None  # what limits it, from its traced world; or why there is no trace
    no_trace: str | None = None  # the latter alone
    enough_threads: tuple[str, ...] = ()  # the ranks that more do not help, by the diagnosis
    forecast: ForecastThreads | None = None  # from the baseline's trace
    tied_with_best: bool = False
    broken: tuple[BrokenLimit, ...] = ()  # the limits that it does not keep
    eliminated: str | None = None  # why it left the race, or was in no block

    @property
    def label(self) -> str:
        """The configuration in words: `num_worker_threads=8`."""
        return str(self.config)

    @property
    def fails_sometimes(self) -> bool:
        """Whether some of its worlds failed, and not all."""
        return 0 < self.worlds_failed < self.worlds_run

    @property
    def does_less(self) -> bool:
        """Whether it is shown to do less work than the baseline."""
        return self.outcome == FAILS_MORE

    @property
    def is_measured(self) -> bool:
        """Whether the configuration was measured, and is not out for its failures."""
        return self.failure is None and not math.isnan(self.value)

    @property
    def broken_text(self) -> str:
        """By how much it breaks which limits: `peak_rss_mb 2400 > 2000, by 20 %`."""
        return "; ".join(limit.text for limit in self.broken)

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
        return {
            "config": self.config.to_json(),
            # NaN is what does not equal itself.
            **{name: None if each != each else each for name, each in self._numbers().items()},
            "unreliable": self.unreliable,
            **({"lost_calls": self.lost} if self.lost else {}),
            "broken_limits": [limit.to_json() for limit in self.broken],
            "eliminated": self.eliminated,
            "forecast": self.forecast and self.forecast.to_json(),
        }

    def _numbers(self) -> dict[str, Any]:
        paired = self.against_baseline or Paired(_UNTOLD, 0)
        ratio = paired.ratio if paired.ratio.is_told or paired.ratio.is_alone else _UNTOLD
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "speedup": ratio.estimate,
            "speedup_ci_low": ratio.low,
            "speedup_ci_high": ratio.high,
            "paired_blocks": paired.blocks,
            **metric_columns(self.metrics),
            "diagnosis": self.diagnosis,
            "tied_with_best": self.tied_with_best,
        }


class PassedOver(NamedTuple):
    """A trial that looks better than the recommended one, and why it is not recommended."""

    trial: int
    reason: Reason
    paired: Paired | None  # with the recommended one; None where no block measured both
    preference: Preference | None  # what speaks for that one where the times do not decide


class Observation(NamedTuple):
    """One world that counts: its objective, in the objective's unit."""

    trial: int
    block: int
    phase: Phase
    value: float


@dataclass(frozen=True, kw_only=True)
class TrialDetail:
    """How the times of one trial are distributed; for figures and notes, not for the table."""

    step_ms: Quantiles | None = None  # of every timed step of every world that counts
    calls: int | None = None  # how many RPC calls its trace holds; None where no trace tells
    open_calls: int | None = None  # how many of them its last step did not wait for
    call_ms: Quantiles | None = None  # of the outermost calls of its trace
    call_parts_ms: Mapping[CallPart, float] = field(default_factory=dict)  # their mean parts


def observations_of(log: StudyLog) -> tuple[Observation, ...]:
    """The worlds of a log that count, by block, trial and value."""
    found = [
        Observation(each.trial, each.block, each.phase, log.plan.objective.value(each.outcome))
        for each in log.records
        if each.phase in BLOCK_PHASES and isinstance(each.outcome, Measurement)
    ]
    return tuple(sorted(found, key=lambda seen: (seen.block, seen.trial, seen.value)))


def rows_of(log: StudyLog, tied: Collection[int], trials: Gains) -> tuple[TrialRow, ...]:
    """The rows: the fastest first, as compared with the baseline within blocks."""
    cost = log.plan.objective.cost

    def rank(row: TrialRow) -> tuple[bool, bool, bool, float, int]:
        """The best first, then what breaks a limit; what failed or was not measured last."""
        alone = row.against_baseline is None
        behind = cost(row.value) if row.is_measured else 0.0
        if row.against_baseline is not None:
            behind = -math.log(row.against_baseline.ratio.estimate)
        return not row.is_measured, bool(row.broken), alone, behind, row.trial

    every = range(len(log.configs))
    return tuple(sorted((_row(log, trial, trials, trial in tied) for trial in every), key=rank))


def _row(log: StudyLog, trial: int, trials: Gains, tied: bool) -> TrialRow:
    state, worlds = log.states[trial], log.trials[trial]
    paired = None if log.states[BASELINE].never_ran() else trials.compare(trial, BASELINE)
    failure, lost, outcome = state.why_out, state.lost, state.outcome
    why = failure.message if failure else lost.text if lost and outcome == FAILS_MORE else None
    if outcome == FAILS_MORE:
        paired = None  # it is not faster at what the baseline does
    trace = worlds.trace.trace if isinstance(worlds.trace, Measurement) else None
    values = [*map(log.plan.objective.value, worlds.samples)]
    log_spread = interval(np.log(values), log.rules.confidence) if values else None
    spread = log_spread.exp() if log_spread else _UNTOLD
    if spread.spans_more_than(MOST_TELLING):
        spread = _UNTOLD  # two worlds that differ: it tells nothing
    return TrialRow(
        trial=trial,
        config=log.configs[trial],
        outcome=outcome,
        failure=why,
        samples=len(values),
        worlds_run=worlds.ran + len(worlds.failures),
        worlds_failed=len(worlds.failures),
        unreliable=state.unreliable,
        lost=lost.text if lost else None,
        value=log.value(trial) or math.nan,
        ci_low=spread.low,
        ci_high=spread.high,
        against_baseline=paired,
        metrics=log.metrics(trial),
        diagnosis=_diagnosis(worlds.trace),
        no_trace=worlds.trace.message if isinstance(worlds.trace, Failure) else None,
        enough_threads=trace.enough_threads if trace else (),
        forecast=_forecast_of(log, trial),
        tied_with_best=tied and why is None and not state.broken and lost is None,
        broken=state.broken,
        eliminated=None if why else state.eliminated,
    )


def _forecast_of(log: StudyLog, trial: int) -> ForecastThreads | None:
    """What was forecast of a trial; None where another knob differs from the baseline."""
    config, plan = log.configs[trial], log.plan
    found = log.forecasts.get(plan.forecast_key(config)) if log.forecasts else None
    return found if plan.is_forecast_alone(config) else None


def _diagnosis(traced: Measurement | Failure | None) -> str | None:
    """What a trace showed, and what it lacks; or why there is no trace."""
    if isinstance(traced, Failure):
        return f"No trace: {traced.message}."
    if traced is None or traced.trace is None:
        return None
    return " ".join([traced.trace.diagnosis, *(f"Note: {loss}." for loss in traced.trace.losses)])


def comparable_values(rows: Sequence[TrialRow], objective: Objective) -> dict[int, float]:
    """The objective of each measured trial, in its unit: what it would have been in the baseline's
    blocks, for a trial that left early may have seen good moments alone; or else its own value."""
    found = {row.trial: row.value for row in rows if not math.isnan(row.value)}
    if (value := found.get(BASELINE)) is not None:
        for row in rows:
            if row.trial in found and row.against_baseline is not None:
                ratio = row.against_baseline.ratio.estimate
                found[row.trial] = value * ratio if objective.maximize else value / ratio
    return found


def passed_over(
    log: StudyLog, rows: Sequence[TrialRow], best: int | None, paired: Gains
) -> tuple[PassedOver, ...]:
    """The trials that look better than the recommended one, `best`, in the order of the table."""
    chosen = next((row for row in rows if row.trial == best), None)
    if chosen is None:
        return ()
    above = rows[: rows.index(chosen)]
    # What fails too often does not count as measured, but for the baseline.
    barred = [
        row for row in rows if row.unreliable or (row.is_measured and (row.broken or row.lost))
    ]
    out = {row.trial for row in barred}
    better = [row for row in barred if _ratio(row) > _ratio(chosen)]
    looking = [*(row for row in above if row.is_measured and row.trial not in out), *better]
    return tuple(_passed_over(log, row, chosen, paired) for row in looking)


def _ratio(row: TrialRow) -> float:
    """How many times as fast as the baseline; NaN, which is more than nothing, if not known."""
    return math.nan if row.against_baseline is None else row.against_baseline.ratio.estimate


def _passed_over(log: StudyLog, row: TrialRow, chosen: TrialRow, paired: Gains) -> PassedOver:
    if chosen.trial == BASELINE:
        found = row.against_baseline
    else:
        found = paired.compare(row.trial, chosen.trial)
    reason: Reason = "not-shown"
    if row.broken:
        reason = "limit"
    elif row.unreliable:
        reason = "unreliable"
    elif row.lost:
        reason = "lost-calls"
    elif found is None or not found.ratio.is_told:
        reason = "few-blocks"
    elif found.ratio.low <= 1:
        reason = "not-told-apart"
    elif found.ratio.estimate < 1 + log.rules.epsilon:
        reason = "within-epsilon"
    is_open = reason in ("not-told-apart", "within-epsilon")
    preference = _preference(log, row.trial, chosen.trial) if is_open else None
    return PassedOver(row.trial, reason, found, preference)


def _preference(log: StudyLog, other: int, best: int) -> Preference | None:
    if best == BASELINE:
        return "baseline"
    cost, threads = log.log_cost(), log.threads()
    if cost[best] < cost[other] - SAME_COST:
        return "less-cpu"
    # NaN is no more than anything: where the CPU is not known, it is no argument.
    if not cost[best] > cost[other] + SAME_COST and threads[best] < threads[other]:
        return "fewer-threads"
    return None
