"""What a budget is enough for, by a first world: all, what a sampler proposes, or the best bets."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from tuner.plan.config import Config
from tuner.plan.knobs import CPU_BINDING, INTRA_OP_THREADS, SWITCH_INTERVAL
from tuner.plan.measuring import WISHED_BLOCKS
from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import MOST_TRACED, TRACED_FACTOR
from tuner.searching.exploring import KEPT, rounds_s, sampling_for
from tuner.study.records import ForecastThreads, Sampling, forecast_in
from tuner.text import duration, plural
from tuner.world.measurement import Failure, Outcome

ANSWER_BLOCKS = 4  # with fewer blocks the intervals are too wide for an answer
_TO_SPARE = 1.1  # a budget that is said to be enough has so much more than it needs
_TRACES = 2  # of the baseline and its challenger
_FIRST_RUNS = 2  # so often a session runs a program as it is, before it measures anything
_CLEAR_GAIN = 0.95  # of the baseline's time: a forecast that is below it has a bet worth making
# What gains most, and never deadlocks.
_FIRST_KNOBS = {CPU_BINDING.name, INTRA_OP_THREADS.name, SWITCH_INTERVAL.name}


class Fit(NamedTuple):
    """What a budget is enough for: all of the grid, what a sampler proposes, the best bets of the
    grid, or not even one comparison."""

    kind: Literal["all", "sampled", "best-bets", "no-comparison"]
    sampling: Sampling | None = None  # of the second kind: who proposes what to measure
    challengers: int = 0  # of the last two: how many have a world, the best bets first
    needed_s: int | None = None  # of these: the budget for all

    @property
    def is_short(self) -> bool:
        """Whether the budget is too short for what was asked."""
        return self.needed_s is not None

    @property
    def compares(self) -> bool:
        """Whether one configuration can be compared with the baseline."""
        return self.kind != "no-comparison"


WHOLE = Fit("all")


def fit_of(
    plan: StudyPlan, first: Outcome, spent_s: float, world_s: float, *,
    is_traced: bool = False, was_traced: bool = False,
) -> Fit:  # fmt: skip
    """What the budget is enough for, by the baseline's first world, where so much was spent, maybe
    on its trace; that world itself may be the one that was traced."""
    budget_s, count = plan.measuring.budget_s, len(plan.candidates())
    sampling = sampling_for(plan, first, spent_s, world_s)
    worlds = (budget_s - spent_s) / world_s
    traces = min(_TRACES - is_traced, MOST_TRACED * budget_s / world_s)
    whole = (count - 1) + ANSWER_BLOCKS * count + traces
    if sampling is None and (count == 1 or isinstance(first, Failure) or whole <= worlds):
        return WHOLE
    if sampling is not None and spent_s + rounds_s(world_s) <= budget_s:
        return Fit("sampled", sampling)
    more_s = whole * first.world_s
    if plan.measuring.sampler != "grid" and count > KEPT + 1:
        more_s = rounds_s(first.world_s) if sampling else min(more_s, rounds_s(first.world_s))
    # The session that has it runs a program as it is once more.
    runs = plan.subject.run_s
    runs_s = _FIRST_RUNS * statistics.fmean(runs) if runs else 0.0
    needed_s = math.ceil((max(spent_s, budget_s) + runs_s + more_s) * _TO_SPARE)
    least_s = min(world_s, first.world_s / (TRACED_FACTOR if was_traced else 1.0))
    left_s = budget_s - spent_s
    if left_s < pair_worlds(plan) * least_s:
        return Fit("no-comparison", None, int(left_s >= least_s), needed_s)
    challengers = math.floor((worlds - traces - WISHED_BLOCKS) / (WISHED_BLOCKS + 1))
    return Fit("best-bets", None, max(1, challengers), needed_s)


def nothing_fits(plan: StudyPlan, spent_s: float) -> Fit:
    """Where setting up alone has spent the budget: how long a world takes is not known. It is set
    up again with a larger one."""
    needed_s = math.ceil((2 * spent_s + plan.measuring.budget_s) * _TO_SPARE)
    return Fit("no-comparison", None, 0, needed_s)


def pair_worlds(plan: StudyPlan) -> int:
    """How many worlds compare anything at least: a block of the baseline and a challenger, and the
    first world of one that has steps."""
    return 2 + plan.subject.has_steps


def in_order_of_promise(
    plan: StudyPlan,
    forecasts: Mapping[tuple[float, ...], ForecastThreads],
    suggested: Collection[str] = (),
) -> list[Config]:
    """The candidates: the baseline, what is forecast to gain, what differs from the baseline in the
    process alone, the others, what is forecast to be far behind, and what to deadlock; in each of
    these by the forecast, and then what differs in least. Of the second kind the knobs that the
    diagnosis has suggested are first, and then bound ranks."""
    baseline, *others = plan.candidates()
    return [
        baseline,
        *sorted(others, key=lambda config: promise_of(plan, forecasts, config, suggested)),
    ]


class Promise(NamedTuple):
    """What is known of a configuration before it is measured; less is better."""

    kind: int  # of the five kinds of `in_order_of_promise`, from 0
    forecast: float
    hope: int
    changed: int  # how many knobs differ from the baseline

    @property
    def is_bet(self) -> bool:
        """Whether there is a reason to measure it before the others."""
        return self.kind <= 1


def promise_of(
    plan: StudyPlan,
    forecasts: Mapping[tuple[float, ...], ForecastThreads],
    config: Config,
    suggested: Collection[str] = (),
) -> Promise:
    """What is promised of a configuration that is not the baseline."""
    changed = plan.changed_by(config)
    found = forecast_in(forecasts, plan, config)
    if found is None and changed <= _FIRST_KNOBS:
        hope = 0 if changed <= {*suggested} else 1 if config.binds else 2
        return Promise(1, 0.0, hope, len(changed))
    if found is None or found.high is None:
        return Promise(2 if found is None else 4, 0.0, 0, len(changed))
    gains = found.high < _CLEAR_GAIN
    return Promise(0 if gains else 3 if found.is_far else 2, found.high, 0, len(changed))


def fit_sentence(plan: StudyPlan, measured: Sequence[Config]) -> str:
    """What a budget that is too short for all is spent on."""
    names = ", ".join(map(str, measured[1:]))
    return (
        f"{duration(plan.measuring.budget_s)} is too short for all "
        f"{plural(len(plan.candidates()), 'configuration')}: "
        + (f"measuring the baseline and {names}" if names else "the baseline comes first")
    )
