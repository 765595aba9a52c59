"""The worlds of one trial, and what is read from each of them once."""

from dataclasses import dataclass, field

from tuner.decide.precision import variance_within
from tuner.plan.objectives import OBJECTIVES
from tuner.study.records import Record
from tuner.world.measurement import Failure, Measurement, Outcome

_CPU = OBJECTIVES["cpu_s"]


@dataclass
class TrialWorlds:
    """The worlds of one trial, by what they are for."""

    calibration: Outcome | None = None
    trace: Outcome | None = None
    failure: Failure | None = None
    """The first one; a trace that failed is none."""
    samples: list[Measurement] = field(default_factory=list)
    samples_s: float = 0.0
    """How long the samples took together, in seconds."""
    costs: list[float] = field(default_factory=list)
    """log(objective), turned so that less is better, of each sample."""
    cpu_costs: list[float] = field(default_factory=list)
    """log(CPU seconds per step or run) of each sample."""
    within: list[float] = field(default_factory=list)
    """`variance_within` of each sample that has enough steps to tell."""

    def add(self, record: Record) -> None:
        """Take in one world of the trial."""
        outcome = record.outcome
        if record.phase == "trace":
            self.trace = self.trace or outcome
            return
        if record.phase == "calibration":
            self.calibration = self.calibration or outcome
        elif isinstance(outcome, Measurement):
            self.samples.append(outcome)
            self.samples_s += outcome.world_s
            self.cpu_costs.append(_CPU.cost(_CPU.value(outcome)))
            if (within := variance_within(outcome.step_s)) is not None:
                self.within.append(within)
        if isinstance(outcome, Failure):
            self.failure = self.failure or outcome
