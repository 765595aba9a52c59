"""Regions of a search space to leave alone: what failures have in common, and main effects.

A point is a tuple with a level for each factor: the number of the value of each knob.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tuner.decide.statistics import FloatArray, Interval, student

Point = tuple[int, ...]
Region = tuple[tuple[int, int], ...]  # the (factor, level) pairs that a point in it must have

BY_CHANCE = {1: 0.02, 2: 0.004}  # the chance that failures with nothing in common look alike
LEAST_FAILURES = 2
# A level must have been tried so often, and be so much worse than the best one, to be dropped.
LEAST_TRIED = 3
BAD_RATIO = 1.15
CONFIDENCE = 0.999  # how sure a comparison of two levels must be: many are made, again and again
LEAST_FREEDOM = 0.5  # with less a fit goes through all values, and shows no errors
RIDGE = 0.1  # weak: levels of a factor add up to the constant, so no fit is the only one


def lies_in(point: Point, region: Region) -> bool:
    """Whether a point has every level of a region."""
    return all(point[factor] == level for factor, level in region)


def failing_regions(points: Sequence[Point], failed: Sequence[bool]) -> list[Region]:
    """The regions in which every point failed, and more than by chance; what explains most failures
    comes first, and the next one must explain others."""
    fine = [point for point, out in zip(points, failed, strict=True) if not out]
    left = [point for point, out in zip(points, failed, strict=True) if out]
    found: list[Region] = []
    for size, chance in BY_CHANCE.items():
        allowed = {region for point in fine for region in _regions_of(point, size)}
        while True:
            counts = Counter(region for point in left for region in _regions_of(point, size))
            # How likely so many points all fail where any as many as are left do.
            likely = {
                region: count
                for region, count in counts.items()
                if region not in allowed
                and count >= LEAST_FAILURES
                and math.comb(len(left), count) / math.comb(len(left) + len(fine), count) <= chance
            }
            if not likely:
                break
            best = max(likely, key=likely.__getitem__)
            found.append(best)
            left = [point for point in left if not lies_in(point, best)]
    return found


def _regions_of(point: Point, size: int) -> Iterable[Region]:
    return itertools.combinations(enumerate(point), size)


class Level(NamedTuple):
    """The main effect of a level of a factor, as a ratio to the best level of it."""

    ratio: Interval  # 1 for the best one; from 0 to infinity where too few points give an end
    tried: int


def main_effects(
    points: Sequence[Point],
    log_values: Sequence[float],
    *,
    sure: float = CONFIDENCE,
    ridge: float = RIDGE,
) -> list[Mapping[int, Level]]:
    """The levels of each factor that were tried, by a ridge regression without interactions.

    `sure` is the confidence of each end of a ratio, `ridge` the penalty on the effects.
    """
    columns = sorted({pair for point in points for pair in enumerate(point)})
    ones = [[*(point[factor] == level for factor, level in columns), True] for point in points]
    design = np.array(ones, dtype=float).reshape(len(points), len(columns) + 1)
    effects, covariance, freedom = _fitted(design, np.asarray(log_values, dtype=float), ridge)

    def level(at: int, best: int) -> Level:
        behind, ratio = float(effects[at] - effects[best]), None
        if freedom >= LEAST_FREEDOM:
            variance = covariance[at, at] + covariance[best, best] - 2 * covariance[at, best]
            unsure = 1 - sure
            ratio = student(behind, max(0.0, variance), max(1.0, freedom), unsure, unsure).exp()
        tried = int(design[:, at].sum())
        return Level(ratio or Interval(math.exp(behind), 0.0, math.inf), tried)

    found: list[Mapping[int, Level]] = []
    for factor in range(len(points[0]) if points else 0):
        own = [at for at, (other, _) in enumerate(columns) if other == factor]
        best = min(own, key=effects.__getitem__)
        found.append({columns[at][1]: level(at, best) for at in own})
    return found


def _fitted(
    design: FloatArray, values: FloatArray, ridge: float
) -> tuple[FloatArray, FloatArray, float]:
    """The coefficients of a ridge regression, their covariance, and the degrees of freedom."""
    squares = design.T @ design + ridge * np.eye(design.shape[1])
    inverse = np.asarray(np.linalg.inv(squares), dtype=np.float64)
    effects: FloatArray = inverse @ design.T @ values
    residual = values - design @ effects
    used = float(np.trace(inverse @ design.T @ design))
    freedom = len(values) - used
    return effects, float(residual @ residual) / max(1.0, freedom) * inverse, freedom


def bad_levels(
    points: Sequence[Point], log_values: Sequence[float]
) -> dict[tuple[int, int], Level]:
    """The levels, by (factor, level), that are clearly worse than the best one of their factor, but
    never those of the best point."""
    if not points:
        return {}
    best = points[int(np.argmin(log_values))]
    return {
        (factor, level): found
        for factor, levels in enumerate(main_effects(points, log_values))
        for level, found in levels.items()
        if found.tried >= LEAST_TRIED and found.ratio.low > BAD_RATIO and best[factor] != level
    }
