"""Interim analyses (looks): when one is due, alpha spending, and nominal levels.

The looks share alpha by a spending function: at the information time t, the part of the budget that
is spent, t^2 of it may be spent, and the last look spends the rest. Where the budget is a limit, it
is the root of t. A budget never gets all of alpha: a study that is continued needs some too. Means
of looks are correlated, so each look tests at a higher nominal level than what it spends (Armitage,
McPherson and Rowe 1969; Lan and DeMets 1983).
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from tuner.decide.statistics import FloatArray

SESSION_SHARE = 0.8  # the part of what is left of alpha that one budget may spend
_NOTHING = 1e-9  # what rounding can leave of alpha
LOOK_GROWTH = 1.4  # a look for every so many times as many blocks, from so many on
FIRST_LOOK = 4
_PACE, _EARLY_PACE = 2.0, 0.5  # the power of the spending function, for a budget and for a limit
_GRID: FloatArray = np.linspace(-8.0, 8.0, 321)  # of normal scores: densities are integrated on it
_STEP = float(_GRID[1] - _GRID[0])


class InterimAnalysis(NamedTuple):
    """A test of every rival on the first `rows` blocks, at the level `alpha`."""

    rows: int
    alpha: float
    spent_s: float  # of the budget
    total_s: float  # the budget


def is_due(rows: int, taken: Sequence[InterimAnalysis]) -> bool:
    """Whether so many blocks are enough for another look."""
    return rows >= max(FIRST_LOOK, LOOK_GROWTH * taken[-1].rows if taken else 0.0)


def due_alpha(
    alpha: float,
    taken: Sequence[InterimAnalysis],
    spent_s: float,
    total_s: float,
    *,
    over: bool,
    early: bool = False,
) -> float:
    """The alpha that a look may spend now.

    Args:
        alpha: What all looks together may spend.
        taken: The looks taken before, in order; those of another budget leave a part for this one.
        spent_s: How much of the budget `total_s` is spent, in seconds.
        total_s: The budget.
        over: Whether this is the last look, which spends what is left for this budget.
        early: Whether the budget is only a limit, so that early looks get more.
    """
    before = [look.alpha for look in taken if look.total_s != total_s]
    this = [look.alpha for look in taken if look.total_s == total_s]
    left = _left_of(SESSION_SHARE * _left_of(alpha, before), this)
    if over or not left:
        return left
    pace = _EARLY_PACE if early else _PACE
    at_look_s = taken[-1].spent_s if taken else 0.0
    done, now = (math.pow(min(at_s, total_s) / total_s, pace) for at_s in (at_look_s, spent_s))
    share = (now - done) / max(1e-9, 1 - done)
    return left * min(1.0, max(0.0, share))


def _left_of(alpha: float, spent: Iterable[float]) -> float:
    """What is left of `alpha`; 0 where that is only rounding."""
    left = alpha - sum(spent)
    return left if left > _NOTHING * alpha else 0.0


def levels(counts: Sequence[int], spent: Sequence[float]) -> tuple[float, ...]:
    """The nominal one-sided level of each look, of means of normal values; none below its spending.

    `counts` are how many values each look has, more than the one before, `spent` of alpha; tuples.
    """
    return tuple(_look(counts[:end], spent[:end])[0] for end in range(1, len(counts) + 1))


@lru_cache(maxsize=1024)
def _look(counts: Sequence[int], spent: Sequence[float]) -> tuple[float, FloatArray]:
    """The level of the last look, and the density of the score after it where none is wrong."""
    alpha = spent[-1]
    if len(counts) == 1:
        density = _normal(_GRID) * _STEP
        score = -float(special.ndtri(alpha)) if alpha > 0 else math.inf
    else:
        # From the score at the look before to this one's.
        kept = math.sqrt(counts[-2] / counts[-1])
        fresh = math.sqrt(1 - kept**2)
        moved = (_GRID[:, None] - kept * _GRID) / fresh
        _, before = _look(counts[:-1], spent[:-1])
        wrong = special.ndtr(-moved) @ before
        score = float(np.interp(-alpha, -wrong, _GRID))
        density = (_normal(moved) / fresh) @ before * _STEP
    # The point nearest to the border belongs to both sides.
    density = density * np.clip((score - _GRID) / _STEP + 0.5, 0.0, 1.0)
    return max(alpha, float(special.ndtr(-score))), density


def _normal(scores: FloatArray) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * np.square(scores)) / math.sqrt(2 * math.pi)
    return density
