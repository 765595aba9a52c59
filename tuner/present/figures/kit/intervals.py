"""Values with intervals: how far these reach, and how much of that a figure shows."""

import math
from collections.abc import Sequence
from typing import Protocol

_MOST = 1.6
"""An interval that reaches higher than so many times the largest value leaves the picture."""


class Spread(Protocol):
    """A value with its interval, NaN where there is none; it may reach to infinity."""

    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def low(self) -> float: ...  # noqa: D102
    @property
    def high(self) -> float: ...  # noqa: D102


def top_of(points: Sequence[Spread]) -> float:
    """Up to where to draw so that all values are seen, and their intervals if they are not wide."""
    largest = max(point.value for point in points)
    highest = max((point.high for point in points if math.isfinite(point.high)), default=largest)
    return 1.05 * max(largest, min(highest, _MOST * largest))


def reach(points: Sequence[Spread], top: float) -> list[list[float]]:
    """How far the intervals reach below and above; those that leave the picture, just out of it."""
    below = [point.value - point.low for point in points]
    above = [min(point.high, 2 * top) - point.value for point in points]
    return [[max(0.0, 0.0 if math.isnan(end) else end) for end in ends] for ends in (below, above)]
