"""The log of a study: its settings and every world so far, and what follows from them alone."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tuner.decide.race import Rules, incumbent, scores
from tuner.decide.statistics import FloatArray, typical
from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.study_plan import StudyPlan
from tuner.study.metrics import metrics_of
from tuner.study.records import (
    Phase,
    Record,
    log_matrix,
)
from tuner.world.measurement import Failure, Measurement

BASELINE = 0
"""The number of the baseline's trial."""


class Confirmation(NamedTuple):
    """A challenger that meets the baseline on fresh worlds, in at most `cap` pairs."""

    challenger: int
    cap: int


class StudyLog:
    """What has been measured. Trials are numbered as in the study; the baseline is number 0."""

    def __init__(
        self,
        plan: StudyPlan,
        configs: Sequence[Config],
        records: Sequence[Record] = (),
        eliminated: Mapping[int, str] | None = None,
    ) -> None:
        self.plan = plan
        self.configs = tuple(configs)
        self.records = list(records)
        self.eliminated = dict(eliminated or {})
        """Reason by trial. The baseline can be among them: out of the race, but measured on."""
        self.confirmation: Confirmation | None = None

    @property
    def rules(self) -> Rules:
        """The plan's rules of decision."""
        return Rules(epsilon=self.plan.measuring.epsilon, confidence=self.plan.measuring.confidence)

    @property
    def failures(self) -> dict[int, Failure]:
        """The first failure of each trial that has one; a trace that failed is none of these."""
        found: dict[int, Failure] = {}
        for record in self.records:
            if isinstance(record.outcome, Failure) and record.phase != "trace":
                found.setdefault(record.trial, record.outcome)
        return found

    @property
    def alive(self) -> list[int]:
        """The trials without a failure, eliminated ones included."""
        failed = self.failures
        return [trial for trial in range(len(self.configs)) if trial not in failed]

    @property
    def candidates(self) -> list[int]:
        """The trials that can still win the race."""
        return [trial for trial in self.alive if trial not in self.eliminated]

    @property
    def racing(self) -> list[int]:
        """The trials that the next block measures: the candidates, and the baseline with them."""
        baseline = [BASELINE] if BASELINE in self.alive else []
        return sorted({*self.candidates, *baseline})

    def calibration(self, trial: int) -> Measurement | None:
        """The calibration of a trial, if it has one that worked."""
        for record in self.records:
            if record.trial == trial and record.phase == "calibration":
                return record.outcome if isinstance(record.outcome, Measurement) else None
        return None

    def traced(self, trial: int) -> Measurement | Failure | None:
        """What came of tracing a trial, if that has been tried."""
        for record in self.records:
            if record.trial == trial and record.phase == "trace":
                return record.outcome
        return None

    def samples(self, trial: int) -> list[Measurement]:
        """The worlds that count as observations of a trial, in the order of their blocks."""
        return [
            record.outcome
            for record in self.records
            if record.trial == trial
            and record.phase in ("race", "confirmation")
            and isinstance(record.outcome, Measurement)
        ]

    def blocks(self, phase: Phase) -> int:
        """The number of blocks of a phase, an unfinished one included."""
        return len({record.block for record in self.records if record.phase == phase})

    def matrix(self, *phases: Phase) -> FloatArray:
        """log(objective), blocks x trials, of the phases' blocks; NaN where not measured."""
        return log_matrix(self.records, self.plan.measuring.objective, len(self.configs), phases)

    def values(self, trial: int) -> list[float]:
        """The objective in each world of a trial, in the objective's unit."""
        objective = self.plan.measuring.objective
        return [objective.value(measured) for measured in self.samples(trial)]

    def value(self, trial: int) -> float | None:
        """The typical objective of a trial, in its unit: a trimmed mean of logarithms."""
        values = self.values(trial)
        return math.exp(typical(np.log(values))) if values else None

    def best_of(self, trials: Sequence[int]) -> int | None:
        """The one of these trials with the best score in the race.

        A single trial needs no race; None if there are several, and none was measured.
        """
        if len(trials) == 1:
            return trials[0]
        matrix = self.matrix("race")
        measured = [trial for trial in trials if not np.isnan(matrix[:, trial]).all()]
        return incumbent(matrix, measured) if measured else None

    def near_best(self, trials: Sequence[int]) -> list[int]:
        """Those of these trials whose score in the race is within epsilon of the best of them."""
        matrix = self.matrix("race")
        measured = [trial for trial in trials if not np.isnan(matrix[:, trial]).all()]
        found = scores(matrix, measured) if measured else {}
        least = min(found.values(), default=0.0)
        return [trial for trial in measured if found[trial] <= least + self.rules.log_epsilon]

    def log_cost(self) -> FloatArray:
        """log(CPU ms per step) of each trial, the median of its worlds; NaN without samples."""
        costs = np.full(len(self.configs), np.nan)
        for trial in range(len(self.configs)):
            if measured := self.samples(trial):
                per_step = [max(each.cpu_ms_per_step, 1e-9) for each in measured]
                costs[trial] = np.median(np.log(per_step))
        return costs

    def threads(self) -> list[int]:
        """RPC worker threads of all ranks, by trial."""
        return [self._threads(config) for config in self.configs]

    def _threads(self, config: Config) -> int:
        total = 0
        for rank in self.plan.workload.ranks:
            values = config.for_role(rank.role)
            threads = values.get(NUM_WORKER_THREADS.name, NUM_WORKER_THREADS.default)
            assert isinstance(threads, int)
            total += threads
        return total

    def world_s(self, trial: int) -> float:
        """Seconds that a world of this trial takes, from those it has had."""
        worlds = [measured.world_s for measured in self.samples(trial)]
        if not worlds and (calibration := self.calibration(trial)):
            worlds = [calibration.world_s]
        return sum(worlds) / len(worlds) if worlds else 0.0

    def metrics(self, trial: int) -> dict[str, float]:
        """The metrics that are known of a trial, by name."""
        traced = self.traced(trial)
        return metrics_of(self.samples(trial), traced if isinstance(traced, Measurement) else None)

    def numbers(self, trial: int) -> dict[str, float]:
        """A trial's metrics, and how many worlds count: what its Optuna trial shows."""
        samples = len(self.samples(trial))
        return {**({"samples": samples} if samples else {}), **self.metrics(trial)}
