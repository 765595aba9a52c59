"""What each trial and each knob does: trials and blocks add up, and so do knobs as far as shown."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from tuner.decide.statistics import FloatArray, Interval

Points = Sequence[Sequence[int]]
"""For each trial, the number of its value of each knob."""
MOST_MOVED = 1.0
"""By how many standard errors the other trials may move a level at most: one trial may be unlike
all others (Efron and Morris 1972)."""
_MOST_ROUNDS = 50
_NEAR = 1e-14
# Rounding alone is no variance.
_LEAST_VARIANCE = 1e-14
# Rounding alone is no variance.
_LEAST_TOTAL_VARIANCE = 1e-18


def trial_levels(matrix: FloatArray) -> FloatArray:
    """log(objective) of each trial, as if all had been in the same blocks.

    A block that was slow as a whole is slow for all of its trials: the trials that several blocks
    share (the baseline, the best so far) show by how much. It is the least-squares fit of a level
    for each trial and one for each block.

    Args:
        matrix: log(objective), blocks x trials; NaN where nothing was measured.

    Returns:
        A level per trial, up to a constant that all share; NaN where a trial was never measured.
    """
    levels = np.full(matrix.shape[1], np.nan)
    measured = ~np.isnan(matrix).all(axis=0)
    if not measured.any():
        return levels
    known = matrix[:, measured]
    there = ~np.isnan(known)
    filled = np.where(there, known, 0.0)
    trials, blocks = np.zeros(known.shape[1]), np.zeros(known.shape[0])
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
    """What trials take where knobs add up, but for an interaction as large as the data shows.

    The level of a trial is the sum of its knobs' effects, and a part of its own: what is left of
    it, times the share of that which is no noise.
    """

    levels: FloatArray
    """log(objective) of each trial, up to a constant; NaN where a trial was never measured."""
    freedom: float
    """The degrees of freedom with which the noise is known."""
    _fitted: FloatArray
    _errors: FloatArray

    def gain(self, trial: int, over: int, alpha: float) -> Interval | None:
        """log(how many times as good one trial is as another), as far as the model holds.

        It is no claim: who was dropped looked worse than it is.

        Args:
            trial: A column.
            over: A column.
            alpha: The chance of each end to be wrong.

        Returns:
            The gain; None where one was never measured.
        """
        estimate = float(self._fitted[over] - self._fitted[trial])
        if math.isnan(estimate):
            return None
        errors = self._errors[np.ix_([trial, over], [trial, over])]
        variance = max(0.0, float(np.trace(errors) - 2 * errors[0, 1]))
        reach = float(special.stdtrit(self.freedom, 1 - alpha)) * math.sqrt(variance)
        return Interval(estimate, estimate - reach, estimate + reach)


def pooled(matrix: FloatArray, points: Points) -> Pooled | None:
    """Levels for which the effects of several knobs are pooled: a mixed fit, by empirical Bayes.

    The variance of the interaction is that by which levels differ from a sum of effects, beyond the
    noise of their means (DerSimonian and Laird 1986).

    Args:
        matrix: log(objective), blocks x trials; NaN where nothing was measured.
        points: The values of each trial.

    Returns:
        The fit; None for a single knob, and where too little was measured to separate noise and
        interaction apart.
    """
    if not points or len(points[0]) < 2:
        return None
    levels = trial_levels(matrix)
    measured = ~np.isnan(levels)
    known, raw = np.asarray(points)[measured], levels[measured]
    if len(raw) < 2 or (known != known[0]).any(axis=0).sum() < 2:
        return None
    noise, freedom = _noise(matrix[:, measured], raw)
    columns = [known[:, [each]] == np.unique(known[:, each]) for each in range(known.shape[1])]
    design = np.column_stack(columns).astype(float)
    left = len(raw) - int(np.linalg.matrix_rank(design))
    if freedom < 1 or left < 1:
        return None
    itself = np.eye(len(raw))
    apart = (itself - _sums(design, noise)) / noise[:, None]
    squares = float(raw @ apart @ raw)
    interaction = max(0.0, (squares - left) / float(np.trace(apart)))
    sums = _sums(design, noise + interaction)
    weights = sums + (interaction / (interaction + noise))[:, None] * (itself - sums)
    fitted, errors = np.full(len(levels), np.nan), np.full([len(levels)] * 2, np.nan)
    fitted[measured] = weights @ raw
    missed = weights - itself
    errors[np.ix_(measured, measured)] = (
        interaction * missed @ missed.T + (weights * noise) @ weights.T
    )
    reach = np.full(len(levels), np.nan)
    reach[measured] = MOST_MOVED * np.sqrt(noise)
    return Pooled(np.clip(fitted, levels - reach, levels + reach), freedom, fitted, errors)


def _noise(matrix: FloatArray, levels: FloatArray) -> tuple[FloatArray, float]:
    """The variance of the noise of each level, and its degrees of freedom."""
    there = ~np.isnan(matrix)
    matrix, there = matrix[there.any(axis=1)], there[there.any(axis=1)]
    behind = matrix - levels
    left = behind - np.nanmean(behind, axis=1, keepdims=True)
    freedom = float(there.sum() - sum(matrix.shape) + 1)
    variance = float(np.nansum(np.square(left))) / max(1.0, freedom)
    noise: FloatArray = max(variance, _LEAST_VARIANCE) / there.sum(axis=0)
    return noise, freedom


def _sums(design: FloatArray, variance: FloatArray) -> FloatArray:
    """What makes the sums of effects of levels, by weighted least squares."""
    error = np.sqrt(variance)[:, None]
    found: FloatArray = design @ np.linalg.pinv(design / error) / error.T
    return found


def variance_shares(
    factors: Mapping[str, Sequence[Hashable]], log_values: Sequence[float]
) -> dict[str, float]:
    """The share of the variance of values that each factor alone explains (eta squared).

    It is the variance between the means of a factor's levels, weighted by how many values have
    each level, over the variance of all values. What the shares leave is interactions and noise,
    which they do not separate. On a grid with holes the factors overlap, and the shares can add
    up to more than 1. A factor with nearly as many levels as there are values explains much by
    chance.

    Args:
        factors: The level of each value, by the factor's name.
        log_values: Logarithms of what was measured.

    Returns:
        Shares from 0 to 1 by the factor's name, largest first.
    """
    logs = np.asarray(log_values, dtype=float)
    total = float(np.square(logs - logs.mean()).sum()) if len(logs) else 0.0
    shares: dict[str, float] = {}
    for name, levels in factors.items():
        groups: dict[Hashable, list[float]] = {}
        for level, value in zip(levels, logs, strict=True):
            groups.setdefault(level, []).append(float(value))
        between = sum(
            len(group) * (float(np.mean(group)) - float(logs.mean())) ** 2
            for group in groups.values()
        )
        shares[name] = min(1.0, between / total) if total > _LEAST_TOTAL_VARIANCE else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
