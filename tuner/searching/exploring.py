"""What is measured before the race: what a sampler proposes of a large grid, and the front."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from tuner.decide.additive import trial_levels
from tuner.decide.regions import Level, Region, bad_levels, failing_regions, lies_in
from tuner.decide.verdict import LEAST_FRONT_BLOCKS
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, IntegerKnob, SecondsKnob, Value
from tuner.plan.objectives import Objective
from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import calibrate_each, why_broken
from tuner.searching.measurer import Measurer
from tuner.study.deadlocks import too_few_threads
from tuner.study.evidence import is_forecast_far
from tuner.study.front import front_of
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import OptunaSampler, Sampling
from tuner.study.storage.sampling import Axis, Point, SamplingProcess, proposals
from tuner.study.trial_state import TrialState
from tuner.text import distance, plural, three_digits
from tuner.world.measurement import Failure, Measurement

EXPLORATION_SHARE = 0.5  # what is proposed has to be compared in the race and traced as well
BATCH = 4  # configurations of a round: more learn later, fewer leave more to the incumbent
KEPT = 6  # how many of all that were tried go on to the race
FAR = 1.5  # behind the best by this factor after one world, a configuration is not measured again
GRID_WORLDS, GRID_SHARE = 3, 0.5  # worlds of each that fit into a share: measure it whole
LEAST_ROUNDS = 3  # fewer rounds than this teach nothing
# What the first of two objectives counts for, by round: both ends of the front, and its middle.
_WEIGHTS = (1.0, 0.5, 0.0)
FRONT_SHARE = 0.4  # of the budget, for the front; the rest decides by the first objective
FIRST_PER_LEVEL = 2  # every level is tried so often before a sampler can know anything
DRAWN = 40  # of so many drawn at random the one is taken whose levels were tried least

Ask = Callable[
    [OptunaSampler, Sequence[Axis], Sequence[tuple[Point, float]], int, int], list[Point]
]
"""How a sampler is asked: as `tuner.study.storage.sampling.proposals`."""


class Proposer:
    """Proposes configurations of a plan's grid, and learns from what comes of them."""

    def __init__(
        self,
        plan: StudyPlan,
        sampler: OptunaSampler,
        ask: Ask = proposals,
        is_far: Callable[[Config], bool] = lambda config: False,
        is_out: Callable[[Config], object] = lambda config: False,
    ) -> None:
        self._plan, self._sampler, self._ask, self._is_out = plan, sampler, ask, is_out
        self._random = random.Random(plan.measuring.seed)
        self._values: dict[Dimension, list[Value]] = {}
        self._axes: list[Axis] = []
        for dimension, values in plan.space.axes:
            ordered = isinstance(KNOBS[dimension.knob], IntegerKnob | SecondsKnob)
            in_order = sorted(values, key=lambda value: float(str(value))) if ordered else values
            self._values[dimension] = [*in_order]
            self._axes.append(Axis(len(values), ordered))
        points = {self._point(config): config for config in reversed(plan.candidates())}
        self._configs = {point: config for point, config in points.items() if point is not None}
        # What a forecast has far behind is proposed where nothing else is left.
        self._far = {point for point, config in self._configs.items() if is_far(config)}
        self._proposed: dict[Point, None] = {}
        self._learnt: dict[Point, float | None] = {}  # log(value) by point, None for a failure

    def learn(self, config: Config, log_value: float | None) -> None:
        """Learn log(value / baseline) of a configuration, less is better; None: it failed."""
        if (point := self._point(config)) in self._configs:
            self._proposed[point] = None
            self._learnt[point] = log_value

    def propose(self, count: int) -> list[Config]:
        """So many new configurations to measure, or as many as there is reason to try."""
        free = [point for point in self._configs if point not in self._proposed]
        avoided = [*self._failing(), *((level,) for level in self._bad_levels())]
        free = [point for point in free if not any(lies_in(point, each) for each in avoided)]
        free = [point for point in free if not self._is_out(self._configs[point])]
        near = [point for point in free if point not in self._far]
        free = near if len(near) >= count else free
        least = FIRST_PER_LEVEL * max(axis.size for axis in self._axes)
        ideas = self._ideas(count) if len(self._learnt) >= least else iter(())
        found: list[Config] = []
        while free and len(found) < count:
            idea = next(ideas, None)
            chosen = self._least_tried(free) if idea is None else self._nearest(free, idea)
            free.remove(chosen)
            self._proposed[chosen] = None
            found.append(self._configs[chosen])
        return found

    def _failing(self) -> list[Region]:
        points = list(self._learnt)
        return failing_regions(points, [self._learnt[point] is None for point in points])

    def lessons(self, *, bad_values: bool = True) -> list[str]:
        """What is known of what is not proposed any more, as sentences: of what failed, and of
        `bad_values`, which are only bad."""
        found = []
        for region in self._failing():
            failed = sum(lies_in(point, region) for point in self._learnt)
            named = " with ".join(itertools.starmap(self._named, region))
            untried = self._untried(region)
            found.append(f"{named}: all {failed} tried failed. {untried} with it not tried")
        worse = "slower than" if self._plan.objective.is_of_run else "worse than"
        for (factor, level), bad in self._bad_levels().items() if bad_values else ():
            found.append(
                f"{self._named(factor, level)} dropped: {three_digits(bad.ratio.estimate)} times "
                f"{worse} the best value of this knob in {plural(bad.tried, 'configuration')}, "
                f"at least {three_digits(bad.ratio.low)}. "
                f"{self._untried(((factor, level),))} with it not tried"
            )
        return found

    def _bad_levels(self) -> dict[tuple[int, int], Level]:
        known = {point: value for point, value in self._learnt.items() if value is not None}
        return bad_levels(list(known), list(known.values()))

    def _untried(self, region: Region) -> str:
        left = [p for p in self._configs if p not in self._proposed and lies_in(p, region)]
        return plural(len(left), "configuration")

    def _named(self, factor: int, level: int) -> str:
        dimension, values = list(self._values.items())[factor]
        return f"{dimension}={KNOBS[dimension.knob].format(values[level])}"

    def _point(self, config: Config) -> Point | None:
        """Where a configuration is on the axes; None if it is off the grid."""
        point = []
        for dimension, values in self._values.items():
            value = config.value_of(dimension, self._plan.subject)
            if value not in values:
                return None
            point.append(values.index(value))
        return tuple(point)

    def _ideas(self, count: int) -> Iterator[Point]:
        """What the sampler proposes; it takes what failed for as bad as the worst."""
        told = self._learnt.items()
        worst = max((value for _, value in told if value is not None), default=0.0)
        known = [(point, worst if value is None else value) for point, value in told]
        seed = self._random.randrange(2**31)
        return iter(self._ask(self._sampler, self._axes, known, count, seed))

    def _least_tried(self, free: Sequence[Point]) -> Point:
        """Of some points drawn at random the one whose levels were tried least."""

        def tried(point: Point) -> int:
            return sum(
                a == b for other in self._proposed for a, b in zip(point, other, strict=True)
            )

        return min(self._random.sample(free, min(DRAWN, len(free))), key=tried)

    def _nearest(self, free: Sequence[Point], idea: Point) -> Point:
        """The idea, or the point that differs from it in the fewest values, and by the least."""

        def distance(point: Point) -> tuple[int, float, float]:
            pairs = list(zip(point, idea, self._axes, strict=True))
            steps = sum(abs(a - b) / axis.size for a, b, axis in pairs if axis.ordered)
            return sum(a != b for a, b, _ in pairs), steps, self._random.random()

        return min(free, key=distance)


def sampling_for(
    plan: StudyPlan, first: Measurement | Failure, spent_s: float, world_s: float
) -> Sampling | None:
    """Whether to sample the grid, by what the baseline's first world took; None: measure it all."""
    asked, budget_s = plan.measuring.sampler, plan.measuring.budget_s
    configs = len(plan.candidates())
    if asked == "grid":
        return None
    if asked == "auto" and (
        configs <= KEPT + 1  # All of them would go on.
        or spent_s + world_s * GRID_WORLDS * configs <= GRID_SHARE * budget_s
        or isinstance(first, Failure)
        or spent_s + rounds_s(world_s) > budget_s
    ):
        return None
    return Sampling(sampler="tpe" if asked == "auto" else asked, configs=configs)


def rounds_s(world_s: float) -> float:
    """Seconds without which a sampler learns nothing, where a world takes so long."""
    return world_s * (2 * BATCH + 2) * LEAST_ROUNDS / EXPLORATION_SHARE


def explore(measurer: Measurer) -> None:
    """Try what the sampler, if any, proposes until its share of the budget is spent; keep the best
    few."""
    log, sampling = measurer.log, measurer.log.sampling
    if sampling is None or sampling.went_on is not None:
        return
    measurer.begin("exploration")
    end_s, most_blocks = measurer.share_ends("exploration_started_s", EXPLORATION_SHARE)
    weights = _weights(log)
    with ExitStack() as stack:
        ask = proposals
        if sampling.sampler == "gp":
            ask = stack.enter_context(SamplingProcess()).proposals
        of_log = partial(is_forecast_far, log), partial(too_few_threads, log)
        proposer = Proposer(measurer.plan, sampling.sampler, ask, *of_log)
        # What an interrupted session has proposed.
        untried = [trial for trial in log.candidates if log.calibration(trial) is None]
        while measurer.budget.spent_s < end_s and log.blocks("exploration") < most_blocks:
            if why_broken(log):
                break
            weight = weights[log.blocks("exploration") % len(weights)]
            _teach(proposer, log, weight)
            trials = [*untried, *measurer.propose(proposer.propose(BATCH - len(untried)))]
            untried = []
            if not trials:
                break
            _try(measurer, trials, weight)
            # What is bad in one of two objectives may be good in the other one.
            lessons = tuple(proposer.lessons(bad_values=len(weights) == 1))
            for lesson in lessons[len(sampling.lessons) :]:
                measurer.observer.on_event(lesson)
            sampling = sampling.model_copy(update={"lessons": lessons})
            measurer.keep_sampling(sampling)
    _finish(measurer, sampling)


def _weights(log: StudyLog) -> Sequence[float]:
    return _WEIGHTS[:1] if log.plan.second_objective is None else _WEIGHTS


def _try(measurer: Measurer, trials: Sequence[int], weight: float) -> None:
    """Run each trial once; then measure what is near the best, in a block with it."""
    log = measurer.log
    measurer.begin("calibration")
    calibrate_each(measurer, trials)
    measurer.begin("exploration")
    known = _levels_of(log, weight)
    far = min(known.values(), default=0.0) + math.log(FAR)
    # A world that is not traced does not measure a traced objective.
    near = [trial for trial in trials if trial in log.runnable and known.get(trial, far) <= far]
    baseline = [] if log.states[BASELINE].never_ran() else [BASELINE]
    measurer.measure_block(sorted({*baseline, *near, *_ranked(log, known)[:2]}))


def _levels_of(log: StudyLog, weight: float) -> dict[int, float]:
    """log(objective) of each trial that ran and keeps the limits, less is better; of two the sum,
    in which the first one has the weight, and the second the rest."""
    first, second = log.plan.objective, log.plan.second_objective
    known = _levels(log, first)
    if second is None or weight == 1.0:
        return known
    others = _levels(log, second, number=1)
    both = known.keys() & others.keys()
    return {trial: weight * known[trial] + (1 - weight) * others[trial] for trial in sorted(both)}


def _levels(log: StudyLog, objective: Objective, number: int = 0) -> dict[int, float]:
    """By blocks where one has measured a trial, else by its calibration beside those of others in
    the same session, if there are any."""
    levels = trial_levels(log.matrix("exploration", objective=number))
    first = {trial: log.first_cost(trial, objective) for trial in log.runnable}
    offsets = defaultdict[Hashable, list[float]](list)
    for trial, cost in first.items():
        if cost < math.inf and not math.isnan(levels[trial]):
            offsets[log.trials[trial].first_place].append(float(levels[trial]) - cost)
    found = dict[int, float]()
    for trial, cost in first.items():
        here = offsets.get(log.trials[trial].first_place, [] if offsets else [0.0])
        if not math.isnan(levels[trial]):
            found[trial] = float(levels[trial])
        elif here:
            found[trial] = cost + sum(here) / len(here)
    kept = {trial: level for trial, level in found.items() if not _is_no_answer(log.states[trial])}
    return {trial: level for trial, level in kept.items() if level < math.inf}


def _is_no_answer(state: TrialState) -> bool:
    """Whether a trial breaks a limit, or may do less work than the baseline."""
    return bool(state.lost or state.breaks)


def _teach(proposer: Proposer, log: StudyLog, weight: float) -> None:
    """Teach it all that is known: every round moves every level a little."""
    known = _levels_of(log, weight)
    reference = known.get(BASELINE, 0.0)
    for trial, config in enumerate(log.configs):
        if trial in known:
            proposer.learn(config, known[trial] - reference)
        elif log.states[trial].why_out is not None or _is_no_answer(log.states[trial]):
            proposer.learn(config, None)


def _ranked(log: StudyLog, levels: Mapping[int, float]) -> list[int]:
    return sorted((trial for trial in log.candidates if trial in levels), key=levels.__getitem__)


def _finish(measurer: Measurer, sampling: Sampling) -> None:
    """Let the best few go on to the race."""
    log = measurer.log
    levels = [_levels_of(log, weight) for weight in _weights(log)]
    rankings = [_ranked(log, each) for each in levels]
    known, ranked = levels[0], rankings[0]
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*rankings))
    best = [trial for trial in dict.fromkeys(in_turn) if trial is not None]
    kept = {*best[:KEPT], BASELINE}
    behind = {
        trial: f"{distance(known[trial] - known[ranked[0]])} behind the best of what "
        f"was tried, when {KEPT} of {len(ranked)} go on"
        for trial in ranked
        if trial not in kept
    }
    lost = {trial: log.states[trial].lost for trial in log.candidates}
    behind |= {trial: each.text for trial, each in lost.items() if each is not None}
    measurer.eliminate(behind, silently=True)
    went_on = tuple(sorted(kept & {*log.alive}))
    measurer.keep_sampling(sampling.model_copy(update={"went_on": went_on}))
    measurer.observer.on_event(
        f"tried {len(log.configs)} of {sampling.configs:,} configurations; "
        f"{len(kept.intersection(ranked))} go on"
    )


def measure_both_goals(measurer: Measurer) -> None:
    """Measure every configuration that may be on the front, until its share of the budget is spent;
    what is shown to be beaten in both stays in the race alone."""
    log = measurer.log
    if measurer.plan.second_objective is None:
        return
    measurer.begin("exploration")
    end_s, most_blocks = measurer.share_ends("front_started_s", FRONT_SHARE)
    while log.blocks("exploration") < most_blocks:
        front = front_of(log)
        beaten = set() if front is None else {p.trial for p in front.points if not p.in_front}
        # Who was dropped for being slow may be the cheapest.
        runnable = {*log.runnable}
        compared = [trial for trial in log.compared if trial in runnable]
        trials = [trial for trial in compared if trial == BASELINE or trial not in beaten]
        few = log.blocks("exploration") >= LEAST_FRONT_BLOCKS and len(trials) < 2
        if few or not trials or measurer.budget.spent_s + log.block_s(trials) > end_s:
            break
        measurer.measure_blocks(trials)
    measurer.finish_blocks()
