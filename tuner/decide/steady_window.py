"""The window of a run that stands for all of it: where its calls have settled, and long enough."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tuner.decide.statistics import FloatArray

BETWEEN = 0.1**2  # about the variance of log(time per call) between runs: 0.1 to 0.4 squared
MOST_WARM_UP = 0.15  # of a run: what goes on for longer before calls settle is a phase
MOST_END = 1 / 3  # of a run: a configuration that is three times as fast still gets there
MOST_WITHIN = 0.3**2  # the variance of a window that tells too little, if whole runs can be had
SAME_RATE = math.log(1.5)  # the rates of calls in a window and after it may differ so much
LEAST_S, LEAST_WARM_UP_S = 1.0, 0.25
_USUAL_STEP = 0.9
_LEAST_BINS = 12


class SteadyWindow(NamedTuple):
    """When a window begins and ends, in seconds since the run's calls may begin."""

    start_s: float
    end_s: float


def steady_window(
    counted: FloatArray, fixed_s: float, most_within: float = MOST_WITHIN
) -> SteadyWindow | None:
    """The window that measures the time per call best for what it costs; None where there is none.

    The warm-up is the truncation with the least marginal standard error (MSER, White 1997). The
    length, within MOST_END of the run, has the least cost times variance, which is that between
    runs and that of such windows of this run: the optimal allocation of two-stage sampling.

    Args:
        counted: Rows of a time in seconds, from 0, and the calls made by then.
        fixed_s: What a run costs before its calls begin and after they end, in seconds.
        most_within: The variance of log(time per call) of such windows of a run beyond which one
            tells too little.
    """
    if len(counted) <= _LEAST_BINS:
        return None
    lasted_s = float(counted[-1, 0])
    # Even bins, as wide as most steps between two rows at most.
    bins = math.floor(lasted_s / float(np.quantile(np.diff(counted[:, 0]), _USUAL_STEP)))
    if bins < _LEAST_BINS:
        return None
    width_s = lasted_s / bins
    made = np.interp(np.linspace(0, lasted_s, bins + 1), counted[:, 0], counted[:, 1])
    rates = np.diff(made) / width_s
    cut = _truncation(rates, math.floor(MOST_WARM_UP * bins))
    start_s = max(LEAST_WARM_UP_S, cut * width_s)
    sizes = range(
        math.ceil(LEAST_S / width_s), math.floor((MOST_END * lasted_s - start_s) / width_s) + 1
    )
    if not sizes or not rates[cut:].any():
        return None
    within = {size: _variance(rates[cut:], size) for size in sizes}
    best = min(
        sizes, key=lambda size: (fixed_s + start_s + size * width_s) * (BETWEEN + within[size])
    )
    if within[best] > most_within:
        return None
    return SteadyWindow(start_s, start_s + best * width_s)


def _truncation(rates: FloatArray, most: int) -> int:
    """How many of the first rates are left out, at most so many."""
    errors = [float(rates[cut:].var()) / (len(rates) - cut) for cut in range(most + 1)]
    return int(np.argmin(errors))


def _variance(rates: FloatArray, size: int) -> float:
    """The variance of log(rate) of all windows of so many bins; about."""
    means = np.convolve(rates, np.full(size, 1 / size), mode="valid")
    return float(means.var()) / float(rates.mean()) ** 2


def changes(counted: Sequence[FloatArray], window: SteadyWindow) -> tuple[float, float] | None:
    """The calls a second in the window and after it, of a program whose runs all have more, or all
    have fewer, then; None if the window stands for all. What differs in some is no phase."""
    rates = [_rates_beside(each, window) for each in counted]
    ratios = [math.log(max(inside, 1e-9) / max(later, 1e-9)) for inside, later in rates]
    differ = min(ratios) > SAME_RATE or max(ratios) < -SAME_RATE
    return rates[-1] if differ else None


def _rates_beside(counted: FloatArray, window: SteadyWindow) -> tuple[float, float]:
    """Calls a second in the window, and in the rest of a run after it."""
    end_s = float(counted[-1, 0])
    times = [window.start_s, window.end_s, end_s]
    if end_s <= window.end_s:
        return 1.0, 1.0  # it shows nothing else
    first, second, last = np.interp(times, counted[:, 0], counted[:, 1])
    inside = (second - first) / (window.end_s - window.start_s)
    return float(inside), float((last - second) / (end_s - window.end_s))
