"""Scales of the axes: threads, and plain numbers on a linear or a log scale."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tuner.decide.statistics import Interval
from tuner.text import plain_number

LEAST_FACTOR = 1.25
"""A log scale spans at least this factor: noise of a percent stays small on it."""
_LEAST_SPAN = 0.25
"""Of an axis that does not begin at zero, as a fraction of its largest value."""
_MOST = 1.6
"""An interval that ends above so many times the largest value is cut at the figure's edge."""
_NICE = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""The ticks of a log scale within a power of ten, from dense to sparse."""

_Which = Literal["x", "y"]


def threads_axis(axes: Axes, which: _Which, values: Iterable[float]) -> None:
    """A log2 scale with a tick at each value that has room, powers of two before others."""
    ticks: list[float] = []
    each = sorted({*values}, key=lambda value: (not math.log2(value).is_integer(), value))
    room = math.log2(max(each) / min(each)) / 12 if each else 0
    for value in each:
        if all(abs(math.log2(value / other)) >= room for other in ticks):
            ticks.append(value)
    _set_log_scale(axes, which, 2, sorted(ticks))


def plain_log_axis(axes: Axes, which: _Which, low: float, high: float, ticks: int = 6) -> None:
    """A log scale from `low` to `high` with a few plain numbers, never as powers of ten."""
    _set_log_scale(axes, which, 10, _log_ticks(low, high, ticks))
    axes.set(**{f"{which}lim": (low, high)})


def _set_log_scale(axes: Axes, which: _Which, base: int, ticks: Sequence[float]) -> None:
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=base)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(ticks, [plain_number(tick) for tick in ticks])
    axis.minorticks_off()


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    if high / low < 3:
        return [float(tick) for tick in MaxNLocator(most).tick_values(low, high)
                if low <= tick <= high]  # fmt: skip
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for numbers in _NICE:
        candidates = [number * 10.0**power for power in powers for number in numbers]
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks[:: math.ceil(len(ticks) / most)] if ticks else [low, high]


def margin_of(low: float, high: float) -> float:
    """By which factor a log scale goes on at both ends: so large that it spans `LEAST_FACTOR`."""
    spread = high / low
    return max(1.03, math.pow(spread, 0.06), math.sqrt(LEAST_FACTOR / spread))


def plain_axis(axes: Axes, which: _Which, ticks: int) -> None:
    """A linear scale with so many plain numbers at most, never with an offset or as powers."""
    (axes.xaxis if which == "x" else axes.yaxis).set_major_locator(MaxNLocator(ticks))
    axes.ticklabel_format(axis=which, style="plain", useOffset=False)


def plane_axis(axes: Axes, which: _Which, ticks: int) -> None:
    """`plain_axis` of at least a quarter of its largest value; call it when everything is drawn."""
    plain_axis(axes, which, ticks)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    missing = _LEAST_SPAN * max(abs(low), abs(high)) - (high - low)
    if missing > 0:
        # No number of a plane is below zero.
        low = max(min(0.0, low), low - missing / 2)
        axes.set(**{f"{which}lim": (low, high + missing / 2)})


def top_of(found: Sequence[Interval]) -> float:
    """The end of an axis that shows all estimates, and their intervals unless too wide."""
    largest = max(interval.estimate for interval in found)
    highest = max((each.high for each in found if math.isfinite(each.high)), default=largest)
    return 1.05 * max(largest, min(highest, _MOST * largest))


def reach(found: Sequence[Interval], top: float) -> list[list[float]]:
    """How far intervals reach below and above; those beyond `top` end just outside, NaN is none."""
    below = [interval.estimate - interval.low for interval in found]
    above = [min(interval.high, 2 * top) - interval.estimate for interval in found]
    return [[max(0.0, 0.0 if math.isnan(end) else end) for end in ends] for ends in (below, above)]
