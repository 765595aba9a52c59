"""The few statistics that decisions rest on, each a thin use of scipy."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]

TRIM = 0.2
_MAX_EXPONENT = math.log(1e300)
# Above this, neighbouring blocks tell less than as many independent ones would.
MAX_AUTOCORRELATION = 0.2
# Too few blocks to tell an autocorrelation from chance.
MIN_FOR_AUTOCORRELATION = 8


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float

    def exp(self) -> "Interval":
        """The interval of a ratio, from that of its logarithm."""
        # Two or three values can leave an end beyond all numbers.
        ends = (self.estimate, self.low, self.high)
        return Interval(*(math.exp(end) if end < _MAX_EXPONENT else math.inf for end in ends))


def typical(values: FloatArray) -> float:
    """The 20 %-trimmed mean: spikes of a busy machine do not move it."""
    return float(stats.trim_mean(values, TRIM))


def interval(values: FloatArray, confidence: float) -> Interval | None:
    """The 20 %-trimmed mean with its two-sided interval (Tukey-McLaughlin); None below two values.

    With fewer than five values nothing is trimmed, and it is Student's interval.
    """
    if len(values) < 2:
        return None
    middle = typical(values)
    if np.ptp(values) < 1e-12:  # no spread at all, but for rounding: scipy would warn of it
        return Interval(middle, middle, middle)
    alpha = 1 - confidence
    if (cut := math.floor(TRIM * len(values))) == 0:
        low, high = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    else:
        # The share really cut, not TRIM itself: scipy's standard error is for the share it is
        # told. A hair above, or rounding would cut one value less.
        share = (cut + 1e-9) / len(values)
        low, high = stats.mstats.trimmed_mean_ci(values, limits=(share, share), alpha=alpha)
    if not (math.isfinite(low) and math.isfinite(high)):  # what was not cut is all the same
        low = high = middle
    return Interval(middle, float(low), float(high))


def differences(slower: FloatArray, faster: FloatArray) -> FloatArray:
    """`slower - faster` over the blocks that measured both, autocorrelation removed.

    Where one block's difference resembles the next one's, neighbours are averaged first.
    """
    paired: FloatArray = slower - faster
    paired = paired[~np.isnan(paired)]
    if len(paired) >= MIN_FOR_AUTOCORRELATION and _lag_1(paired) > MAX_AUTOCORRELATION:
        whole = len(paired) // 2 * 2
        # An odd block out goes to the last pair: nothing that was measured is dropped.
        pairs: FloatArray = np.mean(paired[:whole].reshape(-1, 2), axis=1)
        if whole < len(paired):
            pairs[-1] = paired[whole - 2 :].mean()
        return pairs
    return paired


def _lag_1(values: FloatArray) -> float:
    centred = values - values.mean()
    power = float(centred @ centred)
    return float(centred[:-1] @ centred[1:]) / power if power > 0 else 0.0


def shown_less(values: FloatArray, alpha: float) -> bool:
    """Whether Wilcoxon's signed-rank test shows the values to lie below zero, at level `alpha`."""
    if len(values) == 0 or not np.any(values):
        return False
    return bool(stats.wilcoxon(values, alternative="less").pvalue < alpha)
