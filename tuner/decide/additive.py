"""Additive models: trial and block effects, pooled effects of knobs, and variance components.

A matrix holds log(objective), blocks x trials; NaN where nothing was measured.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tuner.decide.statistics import FloatArray, Interval, student

Points = Sequence[tuple[int, ...]]  # for each trial, the number of its value of each knob
# Limited translation: so many standard errors at most may shrinkage move a level, since one trial
# may be unlike all others (Efron and Morris 1972).
MOST_MOVED = 1.0
_MOST_ROUNDS = 50
_RANK = 1e-10  # eigenvalues so small beside the largest are zero: levels add up to the constant
_NEAR = 1e-14
# Rounding alone is no variance.
_LEAST_VARIANCE, _LEAST_TOTAL_VARIANCE = 1e-14, 1e-18


def trial_levels(matrix: FloatArray) -> FloatArray:
    """Trial effects adjusted for block effects, by least squares on an incomplete block design.

    It is log(objective) per trial, up to a constant that all share; NaN for one never measured.
    """
    levels = np.full(matrix.shape[1], np.nan)
    measured = ~np.isnan(matrix).all(axis=0)
    if not measured.any():
        return levels
    known = matrix[:, measured]
    there = ~np.isnan(known)
    filled = np.where(there, known, 0.0)
    trials = np.zeros(known.shape[1])
    for _ in range(_MOST_ROUNDS):
        before = trials
        blocks = ((filled - trials) * there).sum(axis=1) / np.maximum(1, there.sum(axis=1))
        trials = ((filled - blocks[:, None]) * there).sum(axis=0) / there.sum(axis=0)
        if np.abs(trials - before).max() < _NEAR:
            break
    levels[measured] = trials
    return levels


@dataclass(frozen=True, eq=False)
class Pooled:
    """Shrinkage estimates: the sum of main effects, and the part of the rest that is no noise."""

    levels: FloatArray  # log(objective) of each trial, up to a constant; NaN for one never measured
    freedom: float  # of the error variance
    _fitted: FloatArray  # the same, however far they have moved
    _places: Mapping[int, int]  # of the measured trials in what follows
    _design: FloatArray  # measured trials x values of all knobs
    _effects: FloatArray  # what each level counts for in the main effect of each value
    _kept: FloatArray  # the part of each level's distance from its sum that is no noise
    _noise: FloatArray  # the error variance of each level
    _interaction: float  # the variance of true levels about their sums

    def gain(self, trial: int, over: int, alpha: float) -> Interval | None:
        """The log effect size of a trial over another one, with ends of one-sided level alpha.

        It holds as far as the model does, and is no claim: a dropped trial looked worse than it is.
        None where one of them was never measured.
        """
        estimate = float(self._fitted[over] - self._fitted[trial])
        if math.isnan(estimate):
            return None
        variance = self._variance_between(self._places[trial], self._places[over])
        return student(estimate, variance, self.freedom, alpha, alpha)

    def _variance_between(self, one: int, other: int) -> float:
        """The error variance of the difference of two estimates. All weights together would take a
        square of the trials, so these two are made, from the few values that they have."""
        mine, its = ((1 - self._kept[each]) * self._design[each] for each in (one, other))
        values = np.flatnonzero(mine - its)
        weights = (mine - its)[values] @ self._effects[values]
        weights[[one, other]] += self._kept[one], -self._kept[other]
        missed = weights.copy()
        missed[[one, other]] -= 1.0, -1.0
        return float(self._interaction * (missed @ missed) + weights @ (self._noise * weights))


@dataclass(frozen=True, eq=False)
class Levels:
    """The level of each trial: log(objective), up to a constant; NaN for one never measured."""

    alone: FloatArray  # by its own worlds
    together: Pooled | None  # by a fit of all knobs, where there is one

    @classmethod
    def of(cls, matrix: FloatArray, points: Points | None = None) -> Self:
        """Those of blocks x trials; with the points of the trials their knobs are pooled."""
        alone = trial_levels(matrix)
        return cls(alone, None if points is None else pooled(matrix, points, alone))

    @property
    def best(self) -> FloatArray:
        """The best estimates there are."""
        return self.alone if self.together is None else self.together.levels


def pooled(matrix: FloatArray, points: Points, levels: FloatArray) -> Pooled | None:
    """A mixed model of trial effects: fixed main effects of knobs, random interaction.

    By empirical Bayes: the interaction variance is the excess of the residual sum of squares over
    the error variance of the means (DerSimonian and Laird 1986). None for a single knob, and where
    noise and interaction cannot be separated. `levels` are those of the trials by themselves.
    """
    if not points or len(points[0]) < 2:
        return None
    measured = ~np.isnan(levels)
    known, raw = np.asarray(points)[measured], levels[measured]
    if len(raw) < 2 or (known != known[0]).any(axis=0).sum() < 2:
        return None
    noise, freedom = _noise(matrix[:, measured], raw)
    columns = [known[:, [each]] == np.unique(known[:, each]) for each in range(known.shape[1])]
    columns.sort(key=lambda values: -values.shape[1])
    design, first = np.column_stack(columns).astype(float), columns[0].shape[1]
    effects = _effects(design, noise, first)
    own = np.einsum("ij,ji->i", design, effects)  # of each level in its own sum
    left = len(raw) - round(float(own.sum()))
    if freedom < 1 or left < 1:
        return None
    squares = float(raw @ ((raw - design @ (effects @ raw)) / noise))
    interaction = max(0.0, (squares - left) / float(((1 - own) / noise).sum()))
    kept = interaction / (interaction + noise)
    if interaction:
        effects = _effects(design, noise + interaction, first)
    sums = design @ (effects @ raw)
    fitted, reach = np.full((2, len(levels)), np.nan)
    fitted[measured] = sums + kept * (raw - sums)
    reach[measured] = MOST_MOVED * np.sqrt(noise)
    places = {int(trial): place for place, trial in enumerate(np.flatnonzero(measured))}
    within = np.clip(fitted, levels - reach, levels + reach)
    return Pooled(within, freedom, fitted, places, design, effects, kept, noise, interaction)


def _noise(matrix: FloatArray, levels: FloatArray) -> tuple[FloatArray, float]:
    """The error variance of each level, and its degrees of freedom."""
    there = ~np.isnan(matrix)
    matrix, there = matrix[there.any(axis=1)], there[there.any(axis=1)]
    behind = matrix - levels
    left = behind - np.nanmean(behind, axis=1, keepdims=True)
    freedom = float(there.sum() - sum(matrix.shape) + 1)
    variance = float(np.nansum(np.square(left))) / max(1.0, freedom)
    return max(variance, _LEAST_VARIANCE) / there.sum(axis=0), freedom


def _effects(design: FloatArray, variance: FloatArray, first: int) -> FloatArray:
    """What each value counts for in each effect of a weighted least-squares fit, by the normal
    equations. Those of the `first` values, one knob's, are diagonal, so the others are left."""
    weighted = (design / variance[:, None]).T
    own, others, rest = weighted[:first], weighted[first:], design[:, first:]
    cross, size = own @ rest, own.sum(axis=1, keepdims=True)
    left = others - (cross / size).T @ own
    found = np.linalg.pinv(left @ rest, _RANK, hermitian=True) @ left
    return np.vstack([(own - cross @ found) / size, found])


def variance_shares(
    factors: Mapping[str, Sequence[Hashable]], log_values: Sequence[float]
) -> dict[str, float]:
    """Eta squared of each factor: the share of the variance that it explains alone.

    The rest is interactions and noise. On a grid with holes factors overlap, and the shares can add
    up to more than 1; a factor with nearly as many levels as values explains much by chance.
    `factors` are the levels of the values by the factor's name, and so are the shares, the largest
    first.
    """
    logs = np.asarray(log_values, dtype=float)
    mean = float(logs.mean()) if len(logs) else 0.0
    total = float(np.square(logs - mean).sum())
    shares: dict[str, float] = {}
    for name, levels in factors.items():
        groups = defaultdict[Hashable, list[float]](list)
        for level, value in zip(levels, logs.tolist(), strict=True):
            groups[level].append(value)
        between = sum(len(own) * (float(np.mean(own)) - mean) ** 2 for own in groups.values())
        shares[name] = min(1.0, between / total) if total > _LEAST_TOTAL_VARIANCE else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
