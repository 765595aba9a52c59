"""How much better one trial is than another: an estimate, its interval, and how many comparisons
that holds of at once. All that is decided, printed or exported of two trials comes from here.

Simultaneous repeated confidence intervals: looks spend alpha (`tuner.decide.interim_analysis`), and
an interval is the intersection of those of all looks. The variance of a log effect size over a few
blocks is moderated by that of the other rivals (Smyth 2004), which counts less for a rival that
shows to vary more than they do. An only rival's is moderated by the variance of the sums of both
worlds of a block: where blocks do not differ, the two have the same.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured. A gain is log(how
many times as good).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from tuner.decide.interim_analysis import levels
from tuner.decide.statistics import (
    LEAST_SPIKE_BLOCKS,
    CountArray,
    FloatArray,
    Interval,
    differences,
    differences_over,
    interval,
    students,
)

LOW_SHARE = 0.4  # of alpha, for the lower ends, which the rivals share: one looks best by luck
LEAST_BLOCKS = 2  # fewer blocks give no interval
LEAST_ALONE = 3  # of one pair alone: two that happen to agree would look like certainty
# The prior degrees of freedom, at most: no interval is wrong too often then where the spreads of
# the rivals differ as in the tests.
PRIOR_FREEDOM = 4.0
_OF_OTHERS = 0.5  # gains over the same worlds inform less than as many independent ones


class Spread(NamedTuple):
    """Of each trial the variance of a log effect size from block to block, and its degrees of
    freedom."""

    variance: FloatArray
    freedom: FloatArray


UNKNOWN = Spread(np.zeros(1), np.zeros(1))


@dataclass(frozen=True, eq=False)
class AnalysedBlocks:
    """The blocks of an interim analysis, without spikes, and the alpha that it spends."""

    matrix: FloatArray
    alpha: float
    noise: FloatArray | None = None  # between two worlds of one trial by block; NaN without
    _over: dict[int, "BlockGains"] = field(default_factory=dict, init=False, repr=False)

    def gains_over(self, reference: int) -> "BlockGains":
        """What all trials gain over a reference by these blocks."""
        if reference not in self._over:
            others = self.spread_of_others(reference)
            self._over[reference] = BlockGains.of(self.matrix, reference, others)
        return self._over[reference]

    def spread_of_others(self, reference: int) -> Spread:
        """Beside each trial, the pooled variance of the others' effects and of the noise; where
        there are none, that of its sums with the reference."""
        gains = self.matrix[:, [reference]] - self.matrix
        gains[:, reference] = np.nan
        if self.noise is not None:
            gains = np.column_stack([gains, self.noise])
        counts, _, squares = _moments(gains)
        freedom = np.maximum(0.0, counts - 1.0)
        trials = self.matrix.shape[1]
        others = freedom.sum() - freedom[:trials]
        variance = (squares.sum() - squares[:trials]) / np.maximum(1.0, others)
        of_others = Spread(variance, np.minimum(PRIOR_FREEDOM, _OF_OTHERS * others))
        if (others >= 1).all():
            return of_others
        of_sums = self._spread_of_sums(reference, counts[:trials], squares[:trials])
        return Spread(*np.where(others < 1, of_sums, of_others))

    def _spread_of_sums(self, reference: int, counts: CountArray, squares: FloatArray) -> Spread:
        _, _, of_sums = _moments(self.matrix[:, [reference]] + self.matrix)
        # Where blocks differ, sums vary more than differences, and say little of these.
        alike = np.square(np.minimum(1.0, squares / np.where(of_sums > 0, of_sums, np.inf)))
        # Two fewer than they have: how much they count is chosen by the same few blocks.
        freedom = np.clip(counts - 3.0, 0.0, PRIOR_FREEDOM)
        return Spread(of_sums / np.maximum(1.0, counts - 1.0), alike * freedom)


def _moments(columns: FloatArray) -> tuple[CountArray, FloatArray, FloatArray]:
    """How many values each column has, but NaN; their mean, NaN of none; their squares about it."""
    counts = (~np.isnan(columns)).sum(axis=0)
    mean = np.where(counts > 0, np.nansum(columns, axis=0) / np.maximum(1, counts), np.nan)
    return counts, mean, np.nansum(np.square(columns - mean), axis=0)


class Paired(NamedTuple):
    """One trial beside another, from the blocks that measured both."""

    # How many times as fast it is, or as good: the other's time / its time. Its interval is of the
    # comparison of all at once; the ends are NaN where no look has had both, and that of fewer than
    # 3 blocks reaches from 0 to infinity.
    ratio: Interval
    blocks: int


class GainsOver(NamedTuple):
    """What all trials gain over one of them, by trial; NaN where that is not known."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def unknown(cls, trials: int) -> Self:
        """Of so many trials none is known."""
        return cls(*(np.full(trials, np.nan) for _ in range(3)))

    def of(self, trial: int, comparisons: int = 1) -> Interval | None:
        """That of one trial; None where it is not known."""
        estimate, low, high = (float(each[trial]) for each in self)
        return None if math.isnan(estimate) else Interval(estimate, low, high, comparisons)

    def intersect(self, trials: CountArray, now: "GainsOver") -> None:
        """Leave of these trials what both have, around the estimate of `now`."""
        low, high = np.fmax(self.low[trials], now.low), np.fmin(self.high[trials], now.high)
        # Intervals that contradict each other leave nothing; the later one knows more.
        agree = low <= high
        inside = np.minimum(np.maximum(now.estimate, low), high)
        self.estimate[trials] = np.where(agree, inside, now.estimate)
        self.low[trials] = np.where(agree, low, now.low)
        self.high[trials] = np.where(agree, high, now.high)


class BlockGains(NamedTuple):
    """What all trials gain over one of them by some blocks, by trial."""

    counts: CountArray  # how many blocks have both, or pairs of them where neighbours are alike
    mean: FloatArray  # NaN without a block
    variance: FloatArray  # from block to block; infinite below two of them
    others: Spread = UNKNOWN

    @classmethod
    def of(cls, matrix: FloatArray, reference: int, others: Spread = UNKNOWN) -> Self:
        """Those over a column; `others` moderate the variances."""
        counts, mean, squares = _moments(differences_over(matrix, reference))
        variance = np.where(counts > 1, squares / np.maximum(1, counts - 1), np.inf)
        return cls(counts, mean, variance, others)

    @property
    def error(self) -> FloatArray:
        """The standard errors."""
        return np.sqrt(self.variance / np.maximum(1, self.counts))

    def interval(self, trial: int, low: float, high: float) -> Interval | None:
        """That of one trial, one-sided at these levels; None below two blocks."""
        if self.counts[trial] < LEAST_BLOCKS:
            return None
        return self.intervals(np.array([trial]), low, high).of(0)

    def intervals(self, trials: CountArray, low: float, high: float) -> GainsOver:
        """Those of some trials, two blocks each at least."""
        counts, mean, shown = self.counts[trials], self.mean[trials], self.variance[trials]
        others = Spread(*(np.broadcast_to(each, self.mean.shape)[trials] for each in self.others))
        # One fewer where the levels of spikes were fitted too.
        own = counts - np.where(counts >= LEAST_SPIKE_BLOCKS, 2, 1)
        # The variance of the others says little of what varies more.
        share = np.minimum(others.variance, shown) / np.where(shown > 0, shown, 1.0)
        alike = np.where(shown > 0, np.square(share), 1.0)
        freedom = own + alike * others.freedom
        variance = (own * shown + alike * others.freedom * others.variance) / freedom
        return GainsOver(mean, *students(mean, variance / counts, freedom, low, high))


@dataclass(frozen=True, eq=False)
class Gains:
    """The trials of a study, any two of which are compared.

    An interval's lower end holds for all rivals at once. Its upper end holds for each of them:
    "none gains more" is wrong only if one that does was missed, and the rival that looks best is no
    exception, for then one that is better still was missed by as much.
    """

    blocks: FloatArray  # all of them so far
    confidence: float  # of a pair alone
    looks: Sequence[AnalysedBlocks] | None = None  # in order; None: each pair is compared alone
    rivals: int = 1  # how many comparisons the lower ends hold of at once
    control: int = 0  # the trial that all are compared with, and that no data has chosen
    _over: dict[tuple[int, int], GainsOver] = field(default_factory=dict, init=False, repr=False)
    _so_far: dict[int, BlockGains] = field(default_factory=dict, init=False, repr=False)

    def gain(self, trial: int, over: int, shared: int | None = None) -> Interval | None:
        """What a trial gains over another one, as all looks have left it; None where none had both.

        The control's gain is that over it turned round. `shared` is how many comparisons share the
        upper end's alpha, where they are others than those of the verdict.
        """
        if shared is None and trial == self.control != over:
            found = self.gain(over, trial)
            return None if found is None else -found
        return self.over(over, shared).of(trial, self.rivals)

    def over(self, reference: int, shared: int | None = None) -> GainsOver:
        """What every trial gains over a reference."""
        # Where the data has chosen the reference, every rival could have been it.
        family = shared or (1 if reference == self.control else self.rivals)
        if not self.looks:
            return GainsOver.unknown(self.blocks.shape[1])
        if (reference, family) not in self._over:
            lower = [self.rivals] * len(self.looks)
            if reference == self.control:
                # Those that are no more measured share it, too: the data has chosen who is.
                lower = [min(self.rivals, each) for each in _known(self.looks, reference)]
            found = repeated_intervals(self.looks, reference, lower, family)
            self._over[reference, family] = found
        return self._over[reference, family]

    def so_far(self, reference: int) -> BlockGains:
        """What every trial gains over a reference by all blocks, each pair alone: no claim."""
        if reference not in self._so_far:
            self._so_far[reference] = BlockGains.of(self.blocks, reference)
        return self._so_far[reference]

    def mean(self, trial: int, over: int) -> float | None:
        """The mean gain by all blocks, no claim; None where no block has both."""
        found = float(self.so_far(over).mean[trial])
        return None if math.isnan(found) else found

    def compare(self, trial: int, reference: int) -> Paired | None:
        """How many times as fast, or as good, a trial is as a reference; None without a block."""
        found = self.alone(trial, reference)
        if found is None or self.looks is None or trial == reference:
            return found
        if (tested := self.gain(trial, reference)) is not None:
            return Paired(tested.exp(), found.blocks)
        if found.blocks < LEAST_ALONE:
            return found
        return Paired(Interval(found.ratio.estimate, math.nan, math.nan), found.blocks)

    def alone(self, trial: int, reference: int) -> Paired | None:
        """The same as if no other pair had been compared: for words, and not for an interval."""
        own, its = self.blocks[:, trial], self.blocks[:, reference]
        blocks, gains = int(np.count_nonzero(~np.isnan(own - its))), differences(its, own)
        if not blocks:
            return None
        if trial == reference:
            return Paired(Interval(1.0, 1.0, 1.0), blocks)
        known = interval(gains, self.confidence) if blocks >= LEAST_ALONE else None
        return Paired((known or Interval(float(gains.mean()), -math.inf, math.inf)).exp(), blocks)

    def difference(
        self, here: tuple[int, int], there: tuple[int, int], shared: int
    ) -> Interval | None:
        """By how much the first of two trials is better than the second, here against there, by the
        blocks that have all four; `shared` is how many comparisons share alpha."""
        looks = []
        for look in self.looks or ():
            pairs = [look.matrix[:, each] - look.matrix[:, over] for each, over in (here, there)]
            looks.append(AnalysedBlocks(np.column_stack(pairs), look.alpha))
        family = [shared] * len(looks)
        return repeated_intervals(looks, 1, family, shared).of(0, shared) if looks else None


def _known(looks: Sequence[AnalysedBlocks], reference: int) -> list[int]:
    """Of how many trials each look has enough blocks beside a reference to test them."""
    counts = np.array([look.gains_over(reference).counts for look in looks])
    counts[:, reference] = 0
    found: list[int] = (counts >= LEAST_BLOCKS).sum(axis=1).tolist()
    return found


def repeated_intervals(
    looks: Sequence[AnalysedBlocks],
    reference: int,
    low_families: Sequence[int],
    high_family: int,
) -> GainsOver:
    """What all trials gain over a reference: the intersection of all looks, around the last
    estimate.

    Args:
        looks: The interim analyses taken, in order; one at least.
        reference: A column.
        low_families: How many comparisons the lower end's alpha is divided by, by look.
        high_family: And the upper end's, at all of them.
    """
    seen = [look.gains_over(reference) for look in looks]
    found = GainsOver.unknown(len(seen[0].counts))
    # Trials with as many blocks at each look have the same levels.
    patterns, pattern_of = np.unique([each.counts for each in seen], axis=1, return_inverse=True)
    for number, counts in enumerate(patterns.T.tolist()):
        trials = np.flatnonzero(pattern_of.reshape(-1) == number)
        most = np.maximum.accumulate([LEAST_BLOCKS - 1, *counts])[:-1].tolist()
        used = [place for place, count in enumerate(counts) if count > most[place]]
        used = [place for place in used if looks[place].alpha]
        # A lower end is tested on more blocks alone. An upper one, which nothing shares, is tested
        # on the same ones with what later looks spend, until there are more.
        until = [*used, len(looks)][1:]
        spent = [
            sum(look.alpha for look in looks[start:end])
            for start, end in zip(used, until, strict=True)
        ]
        low, high = (
            levels(tuple(counts[place] for place in used), tuple(shares))
            for shares in (
                [LOW_SHARE * looks[place].alpha / max(1, low_families[place]) for place in used],
                [(1 - LOW_SHARE) * alpha / max(1, high_family) for alpha in spent],
            )
        )
        for place, *level in zip(used, low, high, strict=True):
            found.intersect(trials, seen[place].intervals(trials, *level))
    return found
