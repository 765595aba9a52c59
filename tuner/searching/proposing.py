"""Proposes what to measure where the grid is too large for it: nothing twice, nothing in vain."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from tuner.decide.regions import Level, Region, bad_levels, failing_regions, lies_in
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, IntegerKnob, SecondsKnob, Value
from tuner.plan.study_plan import StudyPlan
from tuner.study.records import OptunaSampler
from tuner.study.storage.sampling import Axis, Point, proposals
from tuner.text import plural, three_digits

Ask = Callable[
    [OptunaSampler, Sequence[Axis], Sequence[tuple[Point, float]], int, int], list[Point]
]
"""How a sampler is asked: as `tuner.study.storage.sampling.proposals`."""

FIRST_PER_LEVEL = 2  # every level is tried so often before a sampler can know anything
DRAWN = 40  # of so many drawn at random the one is taken whose levels were tried least


class Proposer:
    """Proposes configurations of a plan's grid, and learns from what comes of them."""

    def __init__(
        self,
        plan: StudyPlan,
        sampler: OptunaSampler,
        ask: Ask = proposals,
        is_far: Callable[[Config], bool] = lambda config: False,
    ) -> None:
        self._plan, self._sampler, self._ask = plan, sampler, ask
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
        worse = "slower than" if self._plan.objective.is_time else "worse than"
        for (factor, level), bad in self._bad_levels().items() if bad_values else ():
            found.append(
                f"{self._named(factor, level)} dropped: {three_digits(bad.ratio)} times "
                f"{worse} the best value of this knob in {plural(bad.tried, 'configuration')}, "
                f"at least {three_digits(bad.least_ratio)}. "
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
