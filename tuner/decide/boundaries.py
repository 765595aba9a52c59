"""At what level each look may test, so that all looks together spend what they are given.

A mean of n blocks resembles the mean of more blocks of which these are a part. So the chance that
a look is wrong while none before it was is smaller than the chance that it is wrong, and each look
may test at a higher level than what it spends (Armitage, McPherson and Rowe 1969; Lan and DeMets
1983).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

from tuner.decide.statistics import FloatArray

# Where a normal score is looked for, and how finely.
_GRID: FloatArray = np.linspace(-8.0, 8.0, 321)
_STEP = float(_GRID[1] - _GRID[0])


def levels(counts: Sequence[int], spent: Sequence[float]) -> tuple[float, ...]:
    """The one-sided level of each look, of means of normal values.

    Args:
        counts: How many values each look has; each more than the one before. A tuple.
        spent: What each look spends of alpha. A tuple.

    Returns:
        As many levels, none below what the look spends.
    """
    assert len(counts) == len(spent)
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
