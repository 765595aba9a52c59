"""Which rivals are shown to be no more than epsilon better than a reference: evidence to keep it.

Each look at all blocks so far spends a part of one alpha, and what was excluded at any look stays
excluded. "None is more than epsilon better" is wrong only if one that is was excluded, so the
rivals need not share this alpha: it holds for each of them.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tuner.decide.alpha_spending import SESSION_SHARE, left_of
from tuner.decide.race import DOMINATED_BLOCKS, DOMINATED_RATIO
from tuner.decide.statistics import FloatArray, differences, interval


class ExclusionLook(NamedTuple):
    """A test of every rival on the first `rows` blocks, one-sided, at the level `alpha`."""

    rows: int
    alpha: float
    spent_s: float
    """How much of the budget was spent then, in seconds."""
    total_s: float
    """The budget."""


def due_alpha(
    alpha: float, taken: Sequence[ExclusionLook], spent_s: float, total_s: float, *, over: bool
) -> float:
    """What a look may spend now: the later, the more; the last one what is left for this budget.

    A study that is continued with another budget has a part of alpha left for that.

    Args:
        alpha: What all looks together may spend.
        taken: The looks taken before, in order.
        spent_s: How much of the budget is spent, in seconds.
        total_s: The budget.
        over: Whether this is the last look.
    """
    before = [look.alpha for look in taken if look.total_s != total_s]
    this = [look.alpha for look in taken if look.total_s == total_s]
    allowed = SESSION_SHARE * left_of(alpha, before)
    left = left_of(allowed, this)
    if over or not left:
        return left
    done_s = min(taken[-1].spent_s if taken else 0.0, total_s)
    share = (min(spent_s, total_s) ** 2 - done_s**2) / max(1e-9, total_s**2 - done_s**2)
    return left * min(1.0, max(0.0, share))


def excluded(
    matrix: FloatArray,
    reference: int,
    rivals: Sequence[int],
    looks: Sequence[ExclusionLook],
    log_epsilon: float,
    *,
    shared_by: int = 1,
) -> set[int]:
    """The rivals that a look has shown to be at most epsilon better than the reference.

    One that took more than 1.5 times as long as the reference in each of at least 4 blocks is
    among them.

    Args:
        matrix: log(objective), blocks x trials.
        reference: A column.
        rivals: The columns to compare with it.
        looks: The looks taken, in order.
        log_epsilon: The difference that does not matter.
        shared_by: By how many each look's alpha is divided: the possible references, where the
            data has chosen the reference.
    """
    found = set()
    for rival in rivals:
        gain = matrix[:, reference] - matrix[:, rival]
        measured = gain[~np.isnan(gain)]
        dominated = len(measured) >= DOMINATED_BLOCKS and bool(
            (measured < -math.log(DOMINATED_RATIO)).all()
        )
        if dominated or any(
            _bound(matrix[: look.rows], reference, rival, look.alpha / shared_by) <= log_epsilon
            for look in looks
        ):
            found.add(rival)
    return found


def _bound(matrix: FloatArray, reference: int, rival: int, alpha: float) -> float:
    """The upper end of the rival's gain over the reference; infinite where it is not known."""
    if alpha <= 0:
        return math.inf
    gain = differences(matrix[:, reference], matrix[:, rival])
    # A one-sided bound is the end of a two-sided interval with twice the alpha.
    bound = interval(gain, 1 - 2 * alpha)
    return math.inf if bound is None else bound.high
