"""Who is measured no more, to leave the time to others: no claim rests on it.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured. Candidates are
columns of it.
"""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.additive import Points, pooled
from tuner.decide.ranking import scores
from tuner.decide.simultaneous import one_sided
from tuner.decide.statistics import FloatArray, differences
from tuner.text import distance, plural

DOMINATED_BLOCKS = 4
DOMINATED_RATIO = 1.5
# So many rivals at most share the larger part of a budget.
MOST_RIVALS = 8
# The part of the budget in which the others are dropped.
HALVING_SHARE = 0.3
# One that the best so far beats with this chance of error is dropped.
BEATEN = 0.025


def is_dominated(matrix: FloatArray, candidate: int, by: int) -> bool:
    """Whether a candidate was more than 1.5 times as slow as another one in every block.

    Args:
        matrix: log(objective), blocks x trials; it takes 4 blocks at least that have both.
        candidate: A column.
        by: A column.
    """
    behind = matrix[:, candidate] - matrix[:, by]
    behind = behind[~np.isnan(behind)]
    return len(behind) >= DOMINATED_BLOCKS and bool((behind > math.log(DOMINATED_RATIO)).all())


def halved(
    matrix: FloatArray,
    candidates: Sequence[int],
    *,
    initial: int,
    fraction: float,
    points: Points | None = None,
) -> dict[int, str]:
    """Sequential halving: half are dropped after each of equal parts of a share, down to 8.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns that are still measured.
        initial: The number of candidates at the start.
        fraction: The part of the budget that is spent.
        points: The values of each trial, where knobs are to be estimated together.

    Returns:
        The reason by candidate.
    """
    rounds = math.ceil(math.log2(max(1.0, initial / MOST_RIVALS)))
    done = rounds if fraction >= HALVING_SHARE else math.floor(fraction / HALVING_SHARE * rounds)
    target = max(MOST_RIVALS, math.ceil(initial / 2**done))
    found = scores(matrix, candidates, points)
    return {
        candidate: f"{distance(found[candidate] - min(found.values()))} behind the best "
        f"after {plural(len(matrix), 'block')}, when {target} of {initial} go on"
        for candidate in sorted(candidates, key=found.__getitem__)[target:]
    }


def beaten(
    matrix: FloatArray, best: int, candidates: Sequence[int], points: Points | None = None
) -> dict[int, str]:
    """The candidates that are clearly slower than the best so far.

    Args:
        matrix: log(objective), blocks x trials; it takes 4 blocks at least.
        best: A column.
        candidates: The columns to compare with it.
        points: The values of each trial: what other trials show of these counts too.

    Returns:
        The reason by candidate.
    """
    found = {}
    together = None if points is None else pooled(matrix, points)
    for candidate in candidates:
        behind = differences(matrix[:, candidate], matrix[:, best])
        known = one_sided(behind, BEATEN, BEATEN) if len(behind) >= DOMINATED_BLOCKS else None
        if known is not None and together is not None and known.estimate > 0 and known.low <= 0:
            known = together.gain(best, candidate, BEATEN / 2)
        if candidate != best and known is not None and known.low > 0:
            found[candidate] = (
                f"{distance(known.estimate)} behind the best after {plural(len(behind), 'block')}"
            )
    return found
