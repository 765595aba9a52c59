"""What a search answers: one frozen value for people, files and programs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tuner.decide.statistics import Interval, interval
from tuner.decide.verdict_kind import VerdictKind
from tuner.plan.config import Config
from tuner.plan.objectives import Objective
from tuner.plan.study_plan import StudyPlan
from tuner.study.conclusion import Conclusion
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import Phase
from tuner.world.environment import Environment
from tuner.world.measurement import CallPart, Failure, Measurement, Quantiles


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """What became of one settings; declared once, in the order of the CSV's columns.

    Numbers are NaN where nothing was measured. `value` and its interval have the objective's unit.
    """

    trial: int
    label: str
    config: dict[str, Any]
    outcome: str
    """`completed`, `eliminated`, or the kind of failure."""
    failure: str | None
    samples: int
    """Worlds measured."""
    value: float
    ci_low: float
    ci_high: float
    cpu_cores: float
    """CPU seconds per wall second, all ranks."""
    peak_rss_mb: float
    rpc_cpu_total_ms: float = math.nan
    """CPU total of the RPC calls per step. From a traced world, as is all that follows but the
    last; NaN where none was traced."""
    parallelism_mean: float = math.nan
    """Calls served at once while any was."""
    parallelism_max: float = math.nan
    tracing_overhead: float = math.nan
    """Traced over untraced step time."""
    diagnosis: str | None = None
    """What limits these settings."""
    tied_with_best: bool = False

    @property
    def counts(self) -> bool:
        """Whether these settings ran, and were measured: what failed later on does not count."""
        return self.failure is None and not math.isnan(self.value)


class Observation(NamedTuple):
    """One world that counts: its objective, in the objective's unit."""

    trial: int
    block: int
    phase: Phase
    value: float


@dataclass(frozen=True, kw_only=True)
class TrialDetail:
    """How the time of one settings is spread; what is for pictures, not for the table."""

    step_ms: Quantiles | None = None
    """Of every timed step of every world that counts."""
    call_ms: Quantiles | None = None
    """Of the outermost calls of its trace."""
    call_parts_ms: Mapping[CallPart, float] = field(default_factory=dict)
    """Where the time of such a call goes, on average; empty where no trace tells."""


@dataclass(frozen=True, kw_only=True)
class StudyAnswer:
    """The answer of a study, finished or interrupted."""

    study: str
    plan: StudyPlan
    environment: Environment
    objective: Objective
    baseline: Config
    best: Config | None
    """The configuration to use; None if the study was interrupted, nothing could run, or the
    baseline failed and no block measured another."""
    verdict: VerdictKind | None
    """None if the study was interrupted or nothing could run."""
    speedup: Interval | None
    """Baseline / best, on fresh worlds; None when too few pairs were measured to tell."""
    challenger: Config | None
    """The settings that met the baseline on fresh worlds."""
    challenger_speedup: Interval | None
    epsilon_achieved: float | None
    """The best is shown to be at most this fraction slower than any other settings."""
    blocks: int
    worlds: int
    elapsed_s: float
    measured_at: datetime
    """When its last session ended."""
    interrupted: bool = False
    """Whether there is still something to measure."""
    rows: tuple[TrialRow, ...]
    """One per settings, the fastest first, failures last."""
    observations: tuple[Observation, ...] = ()
    """One per world that counts, by block and trial."""
    details: Mapping[int, TrialDetail] = field(default_factory=dict)
    """By trial."""

    @property
    def trials(self) -> pd.DataFrame:
        """The rows as a frame, one column per field of TrialRow."""
        return pd.DataFrame([asdict(row) for row in self.rows])

    def row_of(self, config: Config | None) -> TrialRow | None:
        """The row of these settings."""
        return next((row for row in self.rows if row.label == str(config)), None)

    @property
    def why(self) -> dict[str, TrialRow]:
        """What was traced of the baseline and of the winner, or else of what it met, by role."""
        chosen = {"baseline": self.baseline}
        if self.best is not None and self.best != self.baseline:
            chosen["best"] = self.best
        elif self.challenger is not None:
            chosen["challenger"] = self.challenger
        rows = {role: self.row_of(config) for role, config in chosen.items()}
        return {role: row for role, row in rows.items() if row is not None and row.diagnosis}

    @property
    def baseline_failed(self) -> bool:
        """Whether the baseline itself could not run."""
        return any(row.trial == BASELINE and row.failure is not None for row in self.rows)

    @property
    def tied(self) -> list[str]:
        """The labels of the settings tied with the best, the best itself left out."""
        labels = [row.label for row in self.rows if row.tied_with_best]
        return [label for label in labels if label != str(self.best)]

    def challenger_json(self) -> dict[str, Any]:
        """The settings that met the baseline, and baseline / challenger with its interval."""
        return {
            "config": None if self.challenger is None else self.challenger.to_json(),
            "speedup": interval_json(self.challenger_speedup),
        }

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "format": 2,
            "study": self.study,
            "workload": self.plan.workload.reference,
            "objective": self.objective.name,
            "unit": self.objective.unit,
            "baseline": self.baseline.to_json(),
            "best": None if self.best is None else self.best.to_json(),
            "verdict": self.verdict,
            "speedup": interval_json(self.speedup),
            "challenger": self.challenger_json(),
            "why": {role: row.diagnosis for role, row in self.why.items()},
            "epsilon_achieved": self.epsilon_achieved,
            "blocks": self.blocks,
            "worlds": self.worlds,
            "elapsed_s": round(self.elapsed_s, 3),
            "trials": [_plain_row(row) for row in self.rows],
        }


def interval_json(found: Interval | None) -> dict[str, float | None]:
    """An interval as `estimate`, `ci_low`, `ci_high`; all null where there is none."""
    if found is None:
        return {"estimate": None, "ci_low": None, "ci_high": None}
    return {"estimate": found.estimate, "ci_low": found.low, "ci_high": found.high}


def study_answer(
    log: StudyLog,
    conclusion: Conclusion | None,
    environment: Environment,
    *,
    elapsed_s: float,
    measured_at: datetime,
    interrupted: bool,
) -> StudyAnswer:
    """The answer of a log; `conclusion` is None for a study that has none."""
    speedup = challenger_speedup = None
    if conclusion is not None:
        challenger_speedup = conclusion.comparison.speedup if conclusion.comparison else None
        if conclusion.best == conclusion.challenger:
            speedup = challenger_speedup
        elif conclusion.best == BASELINE:
            speedup = Interval(1.0, 1.0, 1.0)
    best = None if conclusion is None else conclusion.best
    challenger = None if conclusion is None else conclusion.challenger
    return StudyAnswer(
        study=log.plan.name,
        plan=log.plan,
        environment=environment,
        objective=log.plan.measuring.objective,
        baseline=log.configs[BASELINE],
        best=None if best is None else log.configs[best],
        verdict=None if conclusion is None else conclusion.kind,
        speedup=speedup,
        challenger=None if challenger is None else log.configs[challenger],
        challenger_speedup=challenger_speedup,
        epsilon_achieved=None if conclusion is None else conclusion.epsilon_achieved,
        blocks=log.blocks("race") + log.blocks("confirmation"),
        worlds=len(log.records),
        elapsed_s=elapsed_s,
        measured_at=measured_at,
        interrupted=interrupted,
        observations=tuple(sorted(_observations(log), key=lambda seen: (seen.block, seen.trial))),
        details={trial: _detail(log, trial) for trial in range(len(log.configs))},
        rows=_rows(log, frozenset() if conclusion is None else conclusion.tied),
    )


def _observations(log: StudyLog) -> Iterator[Observation]:
    objective = log.plan.measuring.objective
    for record in log.records:
        if record.phase in ("race", "confirmation") and isinstance(record.outcome, Measurement):
            value = objective.value(record.outcome)
            yield Observation(record.trial, record.block, record.phase, value)


def _detail(log: StudyLog, trial: int) -> TrialDetail:
    steps_ms = [step_s * 1e3 for world in log.samples(trial) for step_s in world.step_s]
    traced = log.traced(trial)
    trace = traced.trace if isinstance(traced, Measurement) else None
    return TrialDetail(
        step_ms=Quantiles.of(steps_ms),
        call_ms=trace.call_ms if trace else None,
        call_parts_ms=trace.call_parts_ms if trace else {},
    )


def _rows(log: StudyLog, tied: frozenset[int]) -> tuple[TrialRow, ...]:
    rows = [_row(log, trial, trial in tied) for trial in range(len(log.configs))]
    return tuple(sorted(rows, key=_rank))


def _rank(row: TrialRow) -> tuple[bool, float, int]:
    """The fastest first, what failed or was not measured last."""
    return not row.counts, row.value if row.counts else 0.0, row.trial


def _row(log: StudyLog, trial: int, tied: bool) -> TrialRow:
    failure = log.failures.get(trial)
    values = log.values(trial)
    log_spread = interval(np.log(values), log.rules.confidence) if values else None
    spread = log_spread.exp() if log_spread else None
    numbers, traced = log.numbers(trial), log.traced(trial)
    return TrialRow(
        trial=trial,
        label=str(log.configs[trial]),
        config=log.configs[trial].to_json(),
        outcome=log.outcome(trial),
        failure=failure.message if failure else None,
        samples=len(values),
        value=log.value(trial) or math.nan,
        ci_low=spread.low if spread else math.nan,
        ci_high=spread.high if spread else math.nan,
        cpu_cores=numbers.get("cpu_cores", math.nan),
        peak_rss_mb=numbers.get("peak_rss_mb", math.nan),
        rpc_cpu_total_ms=numbers.get("rpc_cpu_total_ms", math.nan),
        parallelism_mean=numbers.get("parallelism_mean", math.nan),
        parallelism_max=numbers.get("parallelism_max", math.nan),
        tracing_overhead=numbers.get("tracing_overhead", math.nan),
        diagnosis=_diagnosis(traced),
        tied_with_best=tied and failure is None,
    )


def _diagnosis(traced: Measurement | Failure | None) -> str | None:
    """What a trace showed, with what it lacks; or why there is none."""
    if isinstance(traced, Failure):
        return f"No trace: {traced.message}."
    if traced is None or traced.trace is None:
        return None
    return " ".join([traced.trace.diagnosis, *(f"Note: {loss}." for loss in traced.trace.losses)])


def _plain_row(row: TrialRow) -> dict[str, Any]:
    """The row for JSON, where an unknown number is null."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in asdict(row).items()
        if name not in ("trial", "label")
    }
