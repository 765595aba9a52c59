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
    """The first one that went well, or else the first one."""
    first_group: int | None = None
    """The group that ran the calibration."""
    trace: Outcome | None = None
    ran: int = 0
    """The worlds that went well, but traces; those of blocks that count no more included."""
    failures: list[Failure] = field(default_factory=list)
    """Of the worlds that failed, but traces."""
    wrong_answer: Failure | None = None
    """The first of these that gave a wrong answer."""
    samples: list[Measurement] = field(default_factory=list)
    samples_s: float = 0.0
    """How long the samples took together, in seconds."""
    repeated_s: float = 0.0
    """How long the worlds of blocks took that failed."""
    costs: list[float] = field(default_factory=list)
    """log(objective), turned so that less is better, of each sample."""
    cpu_costs: list[float] = field(default_factory=list)
    """log(CPU seconds per step or run) of each sample."""
    blocks: list[int] = field(default_factory=list)
    """The block of each sample."""
    _within: dict[int, float | None] = field(default_factory=dict)
    """`variance_within` of the samples that were asked for it, by their places."""

    def add(self, record: Record) -> None:
        """Take in one world of the trial."""
        outcome = record.outcome
        if record.phase == "trace":
            self.trace = self.trace or outcome
            return
        if isinstance(outcome, Failure):
            self.failures.append(outcome)
            if outcome.failure == "wrong-answer":
                self.wrong_answer = self.wrong_answer or outcome
        else:
            self.ran += 1
        if record.phase == "calibration":
            if not isinstance(self.calibration, Measurement):
                self.calibration, self.first_group = outcome, record.group
        elif isinstance(outcome, Failure):
            self.repeated_s += outcome.world_s
        else:
            self.samples.append(outcome)
            self.blocks.append(record.block)
            self.samples_s += outcome.world_s
            self.cpu_costs.append(_CPU.cost(_CPU.value(outcome)))

    def drop(self, block: int) -> None:
        """Have the samples of a block count no more."""
        while block in self.blocks:
            place = self.blocks.index(block)
            self.samples_s -= self.samples[place].world_s
            for each in (self.blocks, self.samples, self.costs, self.cpu_costs):
                del each[place]
        self._within.clear()

    def world_s(self, min_time_s: float) -> float:
        """Seconds that a world takes whose steps last so long, those that fail before it included.

        0 where none went well.
        """
        if self.samples:
            return (self.samples_s + self.repeated_s) / len(self.samples)
        if not isinstance(self.calibration, Measurement):
            return 0.0
        # Its steps were few, and those of its other worlds last longer.
        least_s = min_time_s if self.calibration.step_s else 0.0
        longer_s = max(0.0, least_s - self.calibration.wall_s)
        return self.calibration.world_s + longer_s + self.repeated_s

    def recent_within(self, count: int) -> list[float]:
        """`variance_within` of those of the latest samples that have enough steps to tell."""
        places = range(max(0, len(self.samples) - count), len(self.samples))
        for place in places:
            if place not in self._within:
                self._within[place] = variance_within(self.samples[place].step_s)
        known = [self._within[place] for place in places]
        return [within for within in known if within is not None]
