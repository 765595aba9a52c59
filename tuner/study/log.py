"""The log of a study: its configurations, every world so far, and what follows from them alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, ConfigDict

from tuner.decide.alpha_spending import Look, left_of
from tuner.decide.ranking import best_measured
from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray, typical
from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.objectives import OBJECTIVES
from tuner.plan.study_plan import StudyPlan
from tuner.study.metrics import metrics_of
from tuner.study.records import TRACE_BLOCK, Phase, Record
from tuner.world.measurement import Failure, Measurement, Outcome

BASELINE = 0
"""The number of the baseline's trial."""


class Confirmation(BaseModel):
    """A challenger that meets the baseline in pairs of fresh worlds, and the looks at them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    challenger: int
    cap: int
    """The most pairs that the budget allows."""
    budget_s: float
    """The study's budget that `cap` is for."""
    alpha: float
    """What all looks together may spend: less where an earlier challenger, which failed, has
    spent a part."""
    looks: tuple[Look, ...] = ()
    """The looks taken so far, in order. A resumed study goes on with what they left."""

    @property
    def alpha_left(self) -> float:
        """What further looks may spend."""
        return left_of(self.alpha, self.looks)


_CPU = OBJECTIVES["cpu_s"]


@dataclass
class _TrialWorlds:
    """The worlds of one trial, by what they are for."""

    calibration: Outcome | None = None
    trace: Outcome | None = None
    failure: Failure | None = None
    """The first one; a trace that failed is none."""
    samples: list[Measurement] = field(default_factory=list)
    samples_s: float = 0.0
    """How long the samples took together, in seconds."""

    def add(self, record: Record) -> None:
        outcome = record.outcome
        if record.phase == "trace":
            self.trace = self.trace or outcome
            return
        if record.phase == "calibration":
            self.calibration = self.calibration or outcome
        elif isinstance(outcome, Measurement):
            self.samples.append(outcome)
            self.samples_s += outcome.world_s
        if isinstance(outcome, Failure):
            self.failure = self.failure or outcome


class StudyLog:
    """What has been measured. Trials are numbered as in the study; the baseline is number 0.

    Adding a record takes the same time however many there are.

    Args:
        plan: The plan of the study.
        configs: The configuration of every trial.
        records: The worlds measured before, in the order of blocks.
        eliminated: Why trials are out of the race, by trial. The baseline can be among them: it
            can no longer win, but is still measured.
    """

    def __init__(
        self,
        plan: StudyPlan,
        configs: Sequence[Config],
        records: Sequence[Record] = (),
        eliminated: Mapping[int, str] | None = None,
    ) -> None:
        self.plan = plan
        self.configs = tuple(configs)
        self.eliminated = dict(eliminated or {})
        self.confirmation: Confirmation | None = None
        self.set_aside: tuple[int, ...] = ()
        """The blocks that others disturbed and that were measured again; their worlds do not
        count."""
        self.failures: dict[int, Failure] = {}
        """The first failure of each trial that has one; a trace that failed is none of these."""
        self._records: list[Record] = []
        self._worlds = [_TrialWorlds() for _ in self.configs]
        self._begun: dict[Phase, dict[int, set[int]]] = {}
        """The trials that each block of a phase has measured."""
        self._rows: dict[Phase, dict[int, FloatArray]] = {}
        """log(objective), or its negative if more is better, by trial, of each block of a phase;
        NaN where not measured."""
        for record in records:
            self.add(record)

    @property
    def records(self) -> Sequence[Record]:
        """Every world so far; `add` adds one."""
        return self._records

    def add(self, record: Record) -> None:
        """Take in the outcome of one world."""
        self._records.append(record)
        worlds = self._worlds[record.trial]
        worlds.add(record)
        if worlds.failure is not None:
            self.failures.setdefault(record.trial, worlds.failure)
        begun = self._begun.setdefault(record.phase, {})
        begun.setdefault(record.block, set()).add(record.trial)
        if record.phase in ("race", "confirmation") and isinstance(record.outcome, Measurement):
            rows = self._rows.setdefault(record.phase, {})
            if record.block not in rows:
                rows[record.block] = np.full(len(self.configs), np.nan)
            objective = self.plan.objective
            rows[record.block][record.trial] = objective.cost(objective.value(record.outcome))

    def disturbed(self, block: int) -> bool:
        """Whether others disturbed a world of a block in which none failed."""
        worlds = [record.outcome for record in self._records if record.block == block]
        measured = [world for world in worlds if isinstance(world, Measurement)]
        return len(measured) == len(worlds) and any(world.is_disturbed for world in measured)

    def put_aside(self, *blocks: int) -> None:
        """Have these blocks count no more; each must be one without a failure."""
        self.set_aside = (*self.set_aside, *blocks)
        kept = [record for record in self._records if record.block not in blocks]
        fresh = StudyLog(self.plan, self.configs, kept)
        # What is private follows from the records alone.
        vars(self).update({key: value for key, value in vars(fresh).items() if key[0] == "_"})

    @property
    def rules(self) -> Rules:
        """The plan's rules of decision."""
        return Rules(epsilon=self.plan.measuring.epsilon, confidence=self.plan.measuring.confidence)

    @property
    def alive(self) -> list[int]:
        """The trials without a failure, eliminated ones included."""
        return [trial for trial in range(len(self.configs)) if trial not in self.failures]

    @property
    def runnable(self) -> list[int]:
        """The trials that have run, and never failed: those that a block can measure."""
        return [trial for trial in self.alive if self.calibration(trial) is not None]

    @property
    def candidates(self) -> list[int]:
        """The trials that can still win the race."""
        return [trial for trial in self.alive if trial not in self.eliminated]

    @property
    def racing(self) -> list[int]:
        """The trials that the next block measures: the candidates, and the baseline with them."""
        baseline = [BASELINE] if BASELINE not in self.failures else []
        return sorted({*self.candidates, *baseline})

    def outcome(self, trial: int) -> str:
        """What became of a trial: `completed`, `eliminated`, or the kind of its failure.

        Who was never measured in a block is `eliminated` too: the budget went to others.
        """
        if failure := self.failures.get(trial):
            return failure.failure
        eliminated = trial in self.eliminated and trial != BASELINE
        return "eliminated" if eliminated or not self.samples(trial) else "completed"

    def calibration(self, trial: int) -> Measurement | None:
        """The calibration of a trial, if it has one that worked."""
        found = self._worlds[trial].calibration
        return found if isinstance(found, Measurement) else None

    def traced(self, trial: int) -> Measurement | Failure | None:
        """What came of tracing a trial, if that has been tried."""
        return self._worlds[trial].trace

    @property
    def traced_trials(self) -> int:
        """The number of trials that have been traced, with or without success."""
        return len(self._begun.get("trace", {}).get(TRACE_BLOCK, ()))

    def samples(self, trial: int) -> list[Measurement]:
        """The worlds that count as observations of a trial, in the order of their blocks."""
        return self._worlds[trial].samples

    def blocks(self, phase: Phase) -> int:
        """The number of blocks of a phase, an unfinished one included."""
        return len(self._begun.get(phase, {}))

    def last_block(self, phase: Phase) -> tuple[int, set[int]] | None:
        """The number of a phase's last block and the trials measured in it; None if it has none."""
        begun = self._begun.get(phase)
        return max(begun.items()) if begun else None

    @property
    def next_block(self) -> int:
        """The number of the next block to begin, of whichever phase."""
        begun = [max(blocks) for blocks in self._begun.values()]
        return max([*begun, *self.set_aside], default=-1) + 1

    def matrix(self, *phases: Phase) -> FloatArray:
        """log(objective) in the blocks of the phases, in order; turned so that less is better.

        Returns:
            Blocks x trials; NaN where nothing was measured. A block in which every world failed
            has no row.
        """
        rows = {block: row for phase in phases for block, row in self._rows.get(phase, {}).items()}
        if not rows:
            return np.empty((0, len(self.configs)))
        return np.array([rows[block] for block in sorted(rows)])

    def pairs(self, challenger: int) -> FloatArray:
        """`matrix` of the baseline and the challenger in the confirmation, pairs x 2."""
        both = self.matrix("confirmation")[:, [BASELINE, challenger]]
        whole: FloatArray = both[~np.isnan(both).any(axis=1)]
        return whole

    def values(self, trial: int) -> list[float]:
        """The objective in each world of a trial, in the objective's unit."""
        objective = self.plan.objective
        return [objective.value(measured) for measured in self.samples(trial)]

    def value(self, trial: int) -> float | None:
        """The typical objective of a trial, in its unit: a trimmed mean of logarithms."""
        values = self.values(trial)
        return math.exp(typical(np.log(values))) if values else None

    def leader(self) -> int | None:
        """The candidate with the best score in the race so far; None if none was measured."""
        return best_measured(self.matrix("race"), self.candidates)

    def log_cost(self) -> FloatArray:
        """log(CPU seconds per step or run) of each trial, the median; NaN without samples."""
        costs = np.full(len(self.configs), np.nan)
        for trial in range(len(self.configs)):
            if measured := self.samples(trial):
                costs[trial] = np.median([_CPU.cost(_CPU.value(each)) for each in measured])
        return costs

    def threads(self) -> list[int]:
        """RPC worker threads of all ranks, by trial."""
        return [self._threads(config) for config in self.configs]

    def _threads(self, config: Config) -> int:
        total = 0
        for rank in self.plan.subject.ranks:
            values = config.for_role(rank.role)
            own = self.plan.subject.default_of(rank.role, NUM_WORKER_THREADS.name)
            threads = values.get(NUM_WORKER_THREADS.name, own)
            assert isinstance(threads, int)
            total += threads
        return total

    def world_s(self, trial: int) -> float:
        """Seconds that a world of this trial takes, from those it has had; 0 if it had none."""
        worlds = self._worlds[trial]
        if worlds.samples:
            return worlds.samples_s / len(worlds.samples)
        calibration = self.calibration(trial)
        return 0.0 if calibration is None else calibration.world_s

    def metrics(self, trial: int) -> dict[str, float]:
        """The metrics that are known of a trial, by name."""
        traced = self.traced(trial)
        return metrics_of(self.samples(trial), traced if isinstance(traced, Measurement) else None)

    def numbers(self, trial: int) -> dict[str, float]:
        """A trial's metrics, and how many worlds count: what its Optuna trial shows."""
        samples = len(self.samples(trial))
        return {**({"samples": samples} if samples else {}), **self.metrics(trial)}
