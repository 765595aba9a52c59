"""Robust statistics: biweight fits without spikes, trimmed means, intervals, paired differences;
and what the noise allows: how long a world should be, and how many blocks a difference takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.text import is_told

FloatArray = npt.NDArray[np.float64]
CountArray = npt.NDArray[np.int64]
Numbers = FloatArray | float
TRIM = 0.2
LEAST_TRIMMED = 7  # of fewer values too little is left to estimate a spread from
_MAX_EXPONENT = math.log(1e300)
MAX_AUTOCORRELATION = 0.2  # above, blocks inform less than as many independent ones
# By chance alone it is above so many over the root of the number of blocks 1 time in 20.
_BY_CHANCE = 1.645
MIN_FOR_AUTOCORRELATION = 8  # too few blocks to distinguish an autocorrelation from chance
_CUT = 6.0  # a world so many standard deviations from the fit counts for nothing
_ROUNDS = 30
_OF_MEDIAN = 1.4826  # the standard deviation of normal values over their median size
LEAST_SPIKE_BLOCKS = 5  # fewer blocks do not show what is a spike
_LEAST_SCALE = 1e-9  # noise this small is none
_LEAST_WEIGHT = 1e-3  # not even a block of spikes alone is without a level
_LEAST_SLOPE = 0.5  # the estimate is not trusted to be further than this from an ordinary mean
_MEDIAN_VARIANCE = math.pi / 2  # the variance of a median over that of a mean, for normal values
_LEAST_VARIANCE_BLOCKS, _LEAST_STEPS = 4, 3  # of fewer, a spread is a guess
_WINSORIZED = 1 / 0.4129  # the variance of normal values over that of them winsorized
_REACH = 2.2  # two standard errors and a little: an interval's reach at the last look


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    comparisons: int = field(default=1, compare=False)  # of so many at once it holds

    def __neg__(self) -> "Interval":
        return Interval(-self.estimate, -self.high, -self.low, self.comparisons)

    @property
    def is_told(self) -> bool:
        """Whether the interval of a ratio is narrow enough for the ratio to be a number."""
        return is_told(self.low, self.high)

    @property
    def is_alone(self) -> bool:
        """Whether it is an estimate without an interval, whose ends are NaN."""
        return math.isnan(self.low) and not math.isnan(self.estimate)

    def spans_more_than(self, factor: float) -> bool:
        """Whether the ends, of a positive number, are further apart than this factor."""
        return self.high > factor * self.low

    def exp(self) -> "Interval":
        """The interval of a ratio, from that of its logarithm."""
        # Two or three values can leave an end beyond all numbers.
        ends = (self.estimate, self.low, self.high)
        estimate, low, high = (
            math.exp(each) if each < _MAX_EXPONENT else math.inf for each in ends
        )
        return Interval(estimate, low, high, self.comparisons)

    def inverse(self) -> "Interval":
        """The interval of a ratio, from that of the ratio the other way round."""
        ends = (self.estimate, self.high, self.low)
        estimate, low, high = (1 / each if each > 0 else math.inf for each in ends)
        return Interval(estimate, low, high, self.comparisons)


def trimmed_mean(values: FloatArray) -> FloatArray:
    """The 20 %-trimmed mean along the first axis, which has one value at least and no NaN."""
    cut = math.floor(TRIM * len(values))
    mean: FloatArray = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return mean


def typical(values: FloatArray) -> float:
    """The 20 %-trimmed mean of a list of values."""
    return float(trimmed_mean(values))


def students(
    estimate: Numbers, variance: Numbers, freedom: Numbers, low: float, high: float
) -> tuple[Any, Any]:
    """Student's one-sided bounds at the levels `low` and `high`, of estimates with such error
    variances. The ends of each gain are made here."""
    error = np.sqrt(variance)
    below, above = (special.stdtrit(freedom, 1 - level) for level in (low, high))
    return estimate - below * error, estimate + above * error


def student(estimate: float, variance: float, freedom: float, low: float, high: float) -> Interval:
    """`students` of one estimate."""
    below, above = students(estimate, variance, freedom, low, high)
    return Interval(estimate, float(below), float(above))


def interval(values: FloatArray, confidence: float, comparisons: int = 1) -> Interval | None:
    """A mean of independent observations with its two-sided confidence interval, which holds of so
    many `comparisons` at once.

    Below 7 values it is Student's; from there on that of the 20 %-trimmed mean with Yuen's standard
    error. The degrees of freedom are one fewer than Yuen's: with his, 10 normal values miss the
    truth 1.2 to 1.5 times as often as the confidence allows. None for fewer than two values.
    """
    count = len(values)
    if count < 2:
        return None
    cut = math.floor(TRIM * count) if count >= LEAST_TRIMMED else 0
    ordered = np.sort(values)
    kept = ordered[cut : count - cut]
    winsorized = np.clip(ordered, kept[0], kept[-1])
    squares = float(np.square(winsorized - winsorized.mean()).sum())
    variance = squares / (len(kept) * (len(kept) - 1))
    level = (1 - confidence) / 2 / comparisons
    found = student(float(kept.mean()), variance, len(kept) - (2 if cut else 1), level, level)
    return replace(found, comparisons=comparisons)


def differences(slower: FloatArray, faster: FloatArray) -> FloatArray:
    """Paired differences `slower - faster` of the blocks that have both; where neighbours are
    correlated, half as many batch means."""
    found = differences_over(np.column_stack([slower, faster]), 0)[:, 1]
    return found[~np.isnan(found)]


def differences_over(matrix: FloatArray, reference: int) -> FloatArray:
    """`differences` of a reference and each column of blocks x trials, with NaN below them."""
    paired = matrix[:, [reference]] - matrix
    missing = np.isnan(paired)
    counts = (~missing).sum(axis=0)
    found: FloatArray = np.take_along_axis(
        paired, np.argsort(missing, axis=0, kind="stable"), axis=0
    )
    enough = np.flatnonzero(counts >= MIN_FOR_AUTOCORRELATION)
    for column in enough[_are_correlated(found[:, enough], counts[enough])]:
        means = _batch_means(found[: counts[column], column])
        found[:, column] = np.nan
        found[: len(means), column] = means
    return found


def _are_correlated(paired: FloatArray, counts: CountArray) -> npt.NDArray[np.bool_]:
    """Whether neighbours in each column of differences are, which has so many and then NaN."""
    centred = np.nan_to_num(paired - np.nansum(paired, axis=0) / counts)
    power = np.square(centred).sum(axis=0)
    lag_1 = (centred[:-1] * centred[1:]).sum(axis=0)
    most = np.maximum(MAX_AUTOCORRELATION, _BY_CHANCE / np.sqrt(counts))
    found: npt.NDArray[np.bool_] = lag_1 > most * power
    return found


def _batch_means(paired: FloatArray) -> FloatArray:
    whole = len(paired) // 2 * 2
    # An odd block out goes to the last pair: nothing that was measured is dropped.
    pairs: FloatArray = np.mean(paired[:whole].reshape(-1, 2), axis=1)
    if whole < len(paired):
        pairs[-1] = paired[whole - 2 :].mean()
    return pairs


def without_spikes(worlds: FloatArray) -> FloatArray:
    """Pseudo-values of an additive biweight M-estimate of trial and block effects.

    A world that is far from the fit is moved to it. The ordinary means and variances of differences
    within blocks are then those of the biweight estimate. All trials are treated alike, so spikes
    that hit all as often favour none. The worlds are log(objective), blocks x trials, NaN where
    nothing was measured. They stay as they are where there are fewer than 5 blocks.
    """
    used = ~np.isnan(worlds).all(axis=0)
    measured = worlds[:, used]
    freedom = int((~np.isnan(measured)).sum()) - sum(measured.shape)
    if len(measured) < LEAST_SPIKE_BLOCKS or freedom < 1:
        return worlds
    found = worlds.copy()
    found[:, used] = _bounded(measured, freedom)
    return found


def _bounded(worlds: FloatArray, freedom: int) -> FloatArray:
    known = ~np.isnan(worlds)
    filled = np.where(known, worlds, 0.0)
    blocks: FloatArray = _medians(worlds.T)[:, None]
    trials: FloatArray = _medians(worlds - blocks)
    # Fitted levels make residuals smaller than the noise.
    correction = _OF_MEDIAN * math.sqrt(known.sum() / freedom)
    for _ in range(_ROUNDS):
        residuals = filled - blocks - trials
        sizes = np.where(known, np.abs(residuals), np.nan)
        middle = (known.sum() - 1) // 2, known.sum() // 2
        common = correction * float(np.partition(sizes[known], middle)[[*middle]].mean())
        if common < _LEAST_SCALE:
            return worlds
        # What is ordinary for a noisy trial is no spike of it, and counts less for its block.
        scale = np.maximum(common, correction * _medians(sizes))
        inside = np.square(_inside(residuals, scale))
        weights = known * np.maximum(inside, _LEAST_WEIGHT) / np.square(scale / common)
        blocks = ((weights * (filled - trials)).sum(axis=1) / weights.sum(axis=1))[:, None]
        trials = (weights * (filled - blocks)).sum(axis=0) / weights.sum(axis=0)
    residuals = filled - blocks - trials
    inside = _inside(residuals, scale)
    slope = float((inside * (5 * inside - 4))[known].mean())
    moved = blocks + trials + residuals * np.square(inside) / max(slope, _LEAST_SLOPE)
    return np.where(known, moved, np.nan)


def _medians(values: FloatArray) -> FloatArray:
    """The median of each column without its NaN; `np.nanmedian` takes ten times as long."""
    ordered = np.sort(values, axis=0)  # NaN goes to the end.
    counts = (~np.isnan(values)).sum(axis=0)
    column = np.arange(values.shape[1])
    middle: FloatArray = ordered[(counts - 1) // 2, column] + ordered[counts // 2, column]
    return middle / 2


def _inside(residuals: FloatArray, scale: FloatArray) -> FloatArray:
    """1 for a residual of 0, and 0 from the cut on; its square is the biweight."""
    return 1 - np.square(np.minimum(np.abs(residuals) / (_CUT * scale), 1.0))


def variance_between(matrix: FloatArray) -> float | None:
    """Variance of log(objective) between worlds of one configuration, without block effects.

    By the columns without NaN of blocks x trials, winsorized; or else, where trials had turns, by
    how far each is from the first column in the blocks that have both. None for fewer than 4.
    """
    whole: FloatArray = matrix[:, ~np.isnan(matrix).any(axis=0)]
    blocks, count = len(whole), int(whole.shape[1])
    if blocks < _LEAST_VARIANCE_BLOCKS:
        return None
    if count < 2:
        return _variance_of_turns(matrix[:, 1:] - matrix[:, [0]])
    ordered = np.sort(whole - trimmed_mean(whole.T)[:, None], axis=0)
    cut = math.floor(TRIM * blocks)
    clipped = np.clip(ordered, ordered[cut], ordered[blocks - cut - 1])
    scale = _WINSORIZED if cut else 1.0
    variance = float(scale * clipped.var(axis=0, ddof=1).mean())
    return variance * count / (count - 1)


def _variance_of_turns(behind: FloatArray) -> float | None:
    """The same from differences of two worlds each, blocks x trials."""
    known = ~np.isnan(behind)
    counts = known.sum(axis=0)
    behind, counts = behind[:, counts > 1], counts[counts > 1]
    freedom = int((counts - 1).sum())
    if freedom < _LEAST_VARIANCE_BLOCKS - 1:
        return None
    return float(np.nansum(np.square(behind - np.nanmean(behind, axis=0)))) / freedom / 2


def variance_within(step_s: Sequence[float]) -> float | None:
    """Variance of log(median step time) within a world, times the seconds that its steps last; None
    for fewer than 3 steps."""
    if len(step_s) < _LEAST_STEPS:
        return None
    logs = [math.log(max(each, 1e-12)) for each in step_s]
    count, mean = len(logs), math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (count - 1)
    return _MEDIAN_VARIANCE * variance * math.fsum(step_s) / count


def best_measured_s(fixed_s: float, within: float, between: float, used_s: float) -> float:
    """The seconds that a world's steps should last, so that an interval costs the least wall time.

    That is the optimal allocation of two-stage sampling: sqrt(fixed_s x within / `between` alone).

    Args:
        fixed_s: What a world costs beside its steps, in seconds.
        within: `variance_within`.
        between: Variance between worlds whose steps last `used_s` seconds.
        used_s: The measured time that `between` is of.
    """
    # Never less than a part of what was seen: the difference of two estimates can be anything.
    alone = max(between - within / used_s, between / 4, 1e-12)
    return math.sqrt(fixed_s * within / alone)


def blocks_needed(between: float, log_difference: float) -> float:
    """The sample size, in blocks, that resolves a log effect size, by the variance of one world."""
    # A block has one world of the rival, and two of the baseline.
    return max(2.0, 1.5 * between * (_REACH / max(1e-9, log_difference)) ** 2)
