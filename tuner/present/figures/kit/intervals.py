"""Values with intervals: how far the intervals reach, and how much of them a figure shows."""

import math
from collections.abc import Sequence
from typing import Protocol

_MOST = 1.6
"""An interval that ends above so many times the largest value is cut at the figure's edge."""


class WithInterval(Protocol):
    """A value with its interval, NaN where there is none; it may reach to infinity."""

    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def low(self) -> float: ...  # noqa: D102
    @property
    def high(self) -> float: ...  # noqa: D102


def top_of(points: Sequence[WithInterval]) -> float:
    """The end of an axis that shows all values, and their intervals unless these are too wide."""
    largest = max(point.value for point in points)
    highest = max((point.high for point in points if math.isfinite(point.high)), default=largest)
    return 1.05 * max(largest, min(highest, _MOST * largest))


def reach(points: Sequence[WithInterval], top: float) -> list[list[float]]:
    """How far the intervals reach below and above; those beyond `top` end just outside of it."""
    below = [point.value - point.low for point in points]
    above = [min(point.high, 2 * top) - point.value for point in points]
    return [[max(0.0, 0.0 if math.isnan(end) else end) for end in ends] for ends in (below, above)]
