"""Scales of the axes: threads, and plain numbers on a linear or a log scale."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

from tuner.text import plain_number

Which = Literal["x", "y"]
LEAST_FACTOR = 1.25
"""A log scale spans at least this factor: noise of a percent stays small on it."""
_LEAST_SPAN = 0.25
"""Of an axis that does not begin at zero, as a fraction of its largest value."""
_NICE = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""The ticks of a log scale within a power of ten, from dense to sparse."""


def threads_axis(axes: Axes, which: Which, values: Iterable[float]) -> None:
    """A log2 scale with a tick at each value that has room, powers of two before others."""
    axis = _log_scale(axes, which, 2)
    ticks = _with_room(sorted(set(values)))
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([plain_number(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())


def _with_room(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    room = math.log2(max(values) / min(values)) / 12
    kept: list[float] = []
    for value in sorted(values, key=lambda value: (not math.log2(value).is_integer(), value)):
        if all(abs(math.log2(value / other)) >= room for other in kept):
            kept.append(value)
    return sorted(kept)


def plain_axis(axes: Axes, which: Which, ticks: int) -> None:
    """A linear scale with so many plain numbers at most, never with an offset or as powers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    axis.set_major_locator(MaxNLocator(ticks))
    axis.set_major_formatter(formatter)


def plane_axis(axes: Axes, which: Which, ticks: int) -> None:
    """`plain_axis`, which also shows how little values differ that differ by noise alone.

    Call it when everything is drawn. The axis spans at least a quarter of its largest value.
    """
    plain_axis(axes, which, ticks)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    missing = _LEAST_SPAN * max(abs(low), abs(high)) - (high - low)
    if missing > 0:
        # No number of a plane is below zero.
        low = max(min(0.0, low), low - missing / 2)
        (axes.set_xlim if which == "x" else axes.set_ylim)(low, high + missing / 2)


def plain_log_axis(axes: Axes, which: Which, low: float, high: float, ticks: int = 6) -> None:
    """A log scale from `low` to `high` with a few plain numbers, never as powers of ten."""
    axis = _log_scale(axes, which, 10)
    places = _log_ticks(low, high, ticks)
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def margin_of(low: float, high: float) -> float:
    """By what a log scale of these values goes on at both ends, as a factor.

    It is so large that the scale spans `LEAST_FACTOR`.
    """
    spread = high / low
    return max(1.03, math.pow(spread, 0.06), math.sqrt(LEAST_FACTOR / spread))


def _log_scale(axes: Axes, which: Which, base: int) -> Axis:
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=base)
    return axes.xaxis if which == "x" else axes.yaxis


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    if high / low < 3:
        ticks = [float(tick) for tick in MaxNLocator(most).tick_values(low, high)]
        return [tick for tick in ticks if low <= tick <= high]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for numbers in _NICE:
        candidates = [number * 10.0**power for power in powers for number in numbers]
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks[:: math.ceil(len(ticks) / most)] if ticks else [low, high]


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
