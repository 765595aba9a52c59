"""Simultaneous repeated confidence intervals of all rivals against one reference.

Looks spend alpha (`tuner.decide.interim_analysis`), and an interval is the intersection of those of
all looks. The variance of a log effect size over a few blocks is moderated by that of the other
rivals (Smyth 2004), which counts less for a rival that shows to vary more than they do.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured, without spikes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import special

from tuner.decide.interim_analysis import levels
from tuner.decide.statistics import LEAST_SPIKE_BLOCKS, FloatArray, Interval, differences

LOW_SHARE = 0.3  # of alpha, for the lower ends, which the rivals share: one looks best by luck
LEAST_BLOCKS = 2  # fewer blocks give no interval
# The prior degrees of freedom, at most: no interval is wrong too often then where the spreads of
# the rivals differ as in the tests.
PRIOR_FREEDOM = 4.0
_OF_OTHERS = 0.5  # gains over the same worlds inform less than as many independent ones


class Spread(NamedTuple):
    """The variance of a log effect size from block to block, and its degrees of freedom."""

    variance: float
    freedom: float


UNKNOWN = Spread(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class AnalysedBlocks:
    """The blocks of an interim analysis, and the alpha that it spends."""

    matrix: FloatArray
    alpha: float
    noise: FloatArray | None = None  # between two worlds of one trial by block; NaN without
    _squares: dict[int, tuple[FloatArray, FloatArray, float, float]] = field(
        default_factory=dict, init=False
    )

    def spread_of_others(self, reference: int, rival: int) -> Spread:
        """The pooled variance of effects over a reference, of all trials but one, and the noise."""
        if reference not in self._squares:
            of_each = squares, freedom = self._squares_over(reference)
            self._squares[reference] = (*of_each, float(squares.sum()), float(freedom.sum()))
        squares, freedom, all_squares, all_freedom = self._squares[reference]
        others = all_freedom - float(freedom[rival])
        if others < 1:
            return UNKNOWN
        variance = (all_squares - float(squares[rival])) / others
        return Spread(variance, min(PRIOR_FREEDOM, _OF_OTHERS * others))

    def _squares_over(self, reference: int) -> tuple[FloatArray, FloatArray]:
        """The sum of squares of each effect, and its degrees of freedom; the noise's last."""
        gains = self.matrix[:, [reference]] - self.matrix
        gains[:, reference] = np.nan
        if self.noise is not None:
            gains = np.column_stack([gains, self.noise])
        known = ~np.isnan(gains)
        counts = known.sum(axis=0)
        filled = np.where(known, gains, 0.0)
        means = filled.sum(axis=0) / np.maximum(1, counts)
        squares: FloatArray = np.where(known, np.square(filled - means), 0.0).sum(axis=0)
        return squares, np.maximum(0, counts - 1).astype(float)


def gain_over(
    tests: Sequence[AnalysedBlocks],
    reference: int,
    rival: int,
    *,
    rivals: int,
    high_shared_by: int = 1,
) -> Interval | None:
    """The log effect size of a rival over a reference.

    Its lower end holds for all rivals at once. Its upper end holds for each of them: "none gains
    more" is wrong only if one that does was missed, and the rival that looks best is no exception,
    for then one that is better still was missed by as much.

    Args:
        tests: The interim analyses taken, in order.
        reference: A column.
        rival: A column.
        rivals: The size of the family that the lower end's alpha is divided by.
        high_shared_by: That of the upper end, where the data has chosen the reference too.

    Returns:
        The intersection of all looks, around the last estimate; None where no look had both.
    """
    known = [(differences(m.matrix[:, reference], m.matrix[:, rival]), m) for m in tests]
    # Without another block there is nothing to look at.
    looks = [
        (gains, test)
        for place, (gains, test) in enumerate(known)
        if test.alpha and len(gains) > max([LEAST_BLOCKS - 1, *(len(g) for g, _ in known[:place])])
    ]
    counts = tuple(len(gains) for gains, _ in looks)
    low, high = (
        levels(counts, tuple(share * test.alpha / max(1, family) for _, test in looks))
        for share, family in ((LOW_SHARE, rivals), (1 - LOW_SHARE, high_shared_by))
    )
    found = None
    for (gains, test), lower, upper in zip(looks, low, high, strict=True):
        each = one_sided(gains, lower, upper, test.spread_of_others(reference, rival))
        found = each if found is None or each is None else _common(found, each)
    return found


def _common(before: Interval, now: Interval) -> Interval:
    """What two intervals leave, around the estimate of the second one."""
    low, high = max(before.low, now.low), min(before.high, now.high)
    # Intervals that contradict each other leave nothing; the later one knows more.
    return Interval(min(max(now.estimate, low), high), low, high) if low <= high else now


def one_sided(
    values: FloatArray, low: float, high: float, others: Spread = UNKNOWN
) -> Interval | None:
    """A mean with one-sided bounds at levels `low` and `high`; `others` moderate its variance."""
    count = len(values)
    if count < LEAST_BLOCKS or not low or not high:
        return None
    mean = float(values.mean())
    # One fewer where the levels of spikes were fitted too.
    own = count - (2 if count >= LEAST_SPIKE_BLOCKS else 1)
    shown = float(values.var(ddof=1))
    # The variance of the others says little of what varies more.
    alike = min(1.0, others.variance / shown) ** 2 if shown else 1.0
    freedom = own + alike * others.freedom
    variance = (own * shown + alike * others.freedom * others.variance) / freedom
    error = math.sqrt(variance / count)
    return Interval(
        mean,
        mean - float(special.stdtrit(freedom, 1 - low)) * error,
        mean + float(special.stdtrit(freedom, 1 - high)) * error,
    )
