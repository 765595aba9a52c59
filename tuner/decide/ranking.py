"""Which candidate looks best so far, and which is cheapest: no claim, only an order.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured. Candidates are
columns of it.
"""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.additive import Points, pooled, trial_levels
from tuner.decide.statistics import FloatArray

# CPU costs nearer than this are the same cost: the measurement cannot tell them apart.
SAME_COST = math.log(1.05)


def scores(
    matrix: FloatArray, candidates: Sequence[int], points: Points | None = None
) -> dict[int, float]:
    """How candidates compare: their levels, as if all had been in the same blocks.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns to compare.
        points: The values of each trial, where knobs are to be estimated together.

    Returns:
        The score by candidate, less is better; the worst for those that no block measured.
    """
    together = None if points is None else pooled(matrix, points)
    levels = trial_levels(matrix) if together is None else together.levels
    levels = np.nan_to_num(levels, nan=math.inf)
    return {candidate: float(levels[candidate]) for candidate in candidates}


def incumbent(matrix: FloatArray, candidates: Sequence[int], points: Points | None = None) -> int:
    """The candidate with the best score; of equal ones the first column."""
    found = scores(matrix, candidates, points)
    return min(candidates, key=lambda candidate: (found[candidate], candidate))


def best_measured(
    matrix: FloatArray, candidates: Sequence[int], points: Points | None = None
) -> int | None:
    """The best of the candidates that a block has measured.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns to choose from.
        points: As in `scores`.

    Returns:
        The candidate with the best score; None if no block measured any.
    """
    measured = _measured(matrix, candidates)
    return incumbent(matrix, measured, points) if measured else None


def strongest(
    matrix: FloatArray,
    rivals: Sequence[int],
    log_cost: FloatArray,
    log_epsilon: float,
    points: Points | None = None,
) -> int | None:
    """The rival that is compared with the baseline for the verdict.

    It is the one with the best score, or of those within epsilon of it the one that costs least
    CPU, if that is clearly less. Fewer threads are no argument: the score is the better guess.
    Where knobs are estimated together, those within epsilon are alike, and the best alone is it.

    Args:
        matrix: log(objective), blocks x trials.
        rivals: The columns to choose from. A single one needs no block.
        log_cost: log(CPU per step) by trial; NaN where unknown.
        log_epsilon: The difference that does not matter.
        points: As in `scores`.

    Returns:
        The rival; None if there are several and no block measured any, or if there is none.
    """
    if len(rivals) == 1:
        return rivals[0]
    measured = _measured(matrix, rivals)
    if not measured:
        return None
    found = scores(matrix, measured, points)
    near = [rival for rival in measured if found[rival] <= min(found.values()) + log_epsilon]
    # Of rivals that are alike, the one that did best alone is shown to be better most easily.
    alone = found if points is None else scores(matrix, near)
    best = min(near, key=lambda rival: (alone[rival], rival))
    cheaper = [rival for rival in near if log_cost[rival] < log_cost[best] - SAME_COST]
    return min(cheaper, key=lambda rival: float(log_cost[rival]), default=best)


def cheapest(candidates: Sequence[int], log_cost: FloatArray, threads: Sequence[int]) -> int:
    """The candidate with the least CPU per step; of about equal ones that with fewest threads.

    Args:
        candidates: Trials; at least one.
        log_cost: log(CPU per step) by trial; NaN where unknown, which is never cheap.
        threads: RPC worker threads of all ranks, by trial.
    """
    cost = np.nan_to_num(log_cost, nan=math.inf)
    least = min(cost[candidate] for candidate in candidates)
    near = [candidate for candidate in candidates if cost[candidate] <= least + SAME_COST]
    return min(near, key=lambda candidate: (threads[candidate], cost[candidate], candidate))


def _measured(matrix: FloatArray, candidates: Sequence[int]) -> list[int]:
    return [candidate for candidate in candidates if not bool(np.isnan(matrix[:, candidate]).all())]
