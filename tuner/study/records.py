"""What a study writes down: each world, and who proposed the configurations."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.study_plan import StudyPlan
from tuner.trace.forecast.ranked import ChangeRow
from tuner.world.measurement import Failure, FailureKind, Outcome, PrintableText

Phase = Literal["calibration", "exploration", "trace", "race"]
OptunaSampler = Literal["tpe", "gp", "random"]

CALIBRATION_BLOCK = -1
TRACE_BLOCK = -2
AGAIN = -1  # stands for the baseline where a block measures it a second time
# A world that fails is run again so often at most: of a program that fails in one of five runs, one
# configuration in six hundred fails as often in a row.
MOST_REPEATS = 3
FAR_FORECAST = 1.5  # a forecast that is entirely beyond this ratio is far behind
SURE_FORECAST = 1.5  # one whose interval spans more is not told unasked
HANGING: tuple[FailureKind, ...] = ("deadlocked", "timed-out")  # too long to be run again at once


class Record(FrozenModel):
    """One world: whose configuration it ran, in which block, and what came of it."""

    trial: int
    block: int  # from 0; calibrations and traces are no samples, and have the blocks -1 and -2
    phase: Phase
    outcome: Outcome
    again: bool = False  # whether it is the baseline's second world in its block
    group: int | None = None  # which group of CPUs or hosts ran it, from 1, if there are several
    attempt: int = 0  # how many worlds in its place failed before it
    session: int = 0  # which session of the study ran it, from 1; 0 in studies of older versions

    @property
    def column(self) -> int:
        """Whose world of the block it is: the trial, or -1 for the baseline's second one."""
        return AGAIN if self.again else self.trial

    @property
    def key(self) -> tuple[int, int, bool, int]:
        """What no two worlds of a study have in common, in the order of blocks."""
        return self.block, self.trial, self.again, self.attempt

    @property
    def is_repeated(self) -> bool:
        """Whether another world is to take its place in its block, as it failed."""
        return self.phase != "trace" and is_repeated(self.outcome, self.attempt)


def is_repeated(outcome: Outcome, attempt: int) -> bool:
    """Whether a world is to be run again at once: it failed, did not hang, and not too often."""
    is_passing = isinstance(outcome, Failure) and outcome.failure not in HANGING
    return is_passing and attempt < MOST_REPEATS


class Sampling(FrozenModel):
    """That a study measures what a sampler proposes, not its grid, and how far that is."""

    sampler: OptunaSampler
    configs: int  # the configurations of the grid, the baseline included
    # The trials that went on to the race, the baseline among them; None until that is known.
    went_on: tuple[int, ...] | None = None
    lessons: tuple[str, ...] = ()  # what is known of those that were not tried, as sentences

    def to_json(self, tried: int) -> dict[str, Any]:
        """The entry in `--json`, of a study that has tried so many configurations."""
        return {
            "sampler": self.sampler,
            "configurations": self.configs,
            "tried": tried,
            "lessons": list(self.lessons),
        }


class ForecastChange(FrozenModel):
    """What a change of the traced program's code would do, by a forecast: as in `changes` of JSON,
    with the sentence that says what to do."""

    change: PrintableText
    function: PrintableText
    site: PrintableText | None
    ratio: float
    ratio_low: float
    ratio_high: float
    condition: PrintableText
    sentence: PrintableText

    @classmethod
    def of(cls, row: ChangeRow) -> Self:
        """That of a trace."""
        return cls(**row.to_json(), sentence=row.sentence)

    @property
    def times(self) -> Interval:
        """How many times as fast the program is then."""
        return Interval(1 / self.ratio, 1 / self.ratio_high, 1 / self.ratio_low)

    @property
    def text(self) -> str:
        """What to do, and where."""
        return f"{self.site} {self.sentence}" if self.site else self.sentence


class ForecastThreads(FrozenModel):
    """What a trace of the baseline tells of other worker threads and switch intervals. It is no
    evidence."""

    threads: tuple[int, ...]  # by role, in the order of the roles
    intervals_s: tuple[float, ...] = ()  # likewise; empty: those of the baseline
    ratio: float | None = None  # its time over the baseline's; None in a deadlock
    low: float | None = None
    high: float | None = None
    deadlock: str = ""  # the chain of calls that wait for each other; empty if it ends

    @property
    def is_far(self) -> bool:
        """Whether it is far behind the baseline, interval and all; a deadlock is not."""
        return self.low is not None and self.low > FAR_FORECAST

    @property
    def is_sure(self) -> bool:
        """Whether its interval is narrow, or it deadlocks."""
        if self.low is None or self.high is None:
            return bool(self.deadlock)
        return self.high <= SURE_FORECAST * self.low

    @property
    def speedup(self) -> Interval | None:
        """How many times as fast as the baseline it is; None in a deadlock."""
        if self.ratio is None or self.low is None or self.high is None:
            return None
        return Interval(1 / self.ratio, 1 / self.high, 1 / self.low)

    def to_json(self) -> dict[str, Any]:
        """The entry `forecast` of a trial in `--json`."""
        found = {"ratio": self.ratio, "ratio_low": self.low, "ratio_high": self.high}
        return {**found, "deadlock": self.deadlock}


def forecast_in(
    found: Mapping[tuple[float, ...], ForecastThreads], plan: StudyPlan, config: Config
) -> ForecastThreads | None:
    """What forecasts, by `StudyPlan.forecast_key`, tell of a configuration; of one whose switch
    intervals they do not know, what they tell of its threads."""
    if not found:
        return None
    return found.get(plan.forecast_key(config), found.get(plan.threads_by_role(config)))
