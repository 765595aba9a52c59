"""Point estimates that rank candidates, and the rules that drop some of them; no claims.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured. Candidates are
columns of it. `points` are the values of each trial, where the effects of knobs are pooled.
"""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.additive import Points, pooled, trial_levels
from tuner.decide.simultaneous import one_sided
from tuner.decide.statistics import FloatArray, differences
from tuner.text import distance, plural

SAME_COST = math.log(1.05)  # CPU costs nearer than this cannot be separated
DOMINATED_BLOCKS = 4
DOMINATED_RATIO = 1.5
MOST_RIVALS = 8  # so many rivals at most share the larger part of a budget
HALVING_SHARE = 0.3  # the part of the budget in which the others are dropped
BEATEN = 0.025  # one that the best so far beats with this chance of error is dropped


def scores(
    matrix: FloatArray, candidates: Sequence[int], points: Points | None = None
) -> dict[int, float]:
    """The level of each candidate, adjusted for blocks; infinite for one that no block measured."""
    together = None if points is None else pooled(matrix, points)
    levels = trial_levels(matrix) if together is None else together.levels
    levels = np.nan_to_num(levels, nan=math.inf)
    return {candidate: float(levels[candidate]) for candidate in candidates}


def best_measured(
    matrix: FloatArray, candidates: Sequence[int], points: Points | None = None
) -> int | None:
    """The candidate with the best score of those that a block has measured; None without one."""
    found = scores(matrix, _measured(matrix, candidates), points)
    return min(found, key=lambda candidate: (found[candidate], candidate), default=None)


def strongest(
    matrix: FloatArray,
    rivals: Sequence[int],
    log_cost: FloatArray,
    log_epsilon: float,
    points: Points | None = None,
) -> int | None:
    """The rival that is compared with the baseline for the verdict; None if no block measured one.

    It is the one with the best score, or of those within `log_epsilon` of it the one that costs
    least CPU, if that is clearly less. Fewer threads are no argument: the score is the better
    guess. Where effects are pooled, those within epsilon are alike, and the best by itself is it.

    Args:
        matrix: log(objective), blocks x trials.
        rivals: The columns to choose from. A single one needs no block.
        log_cost: log(CPU per step) by trial; NaN where unknown.
        log_epsilon: The margin of equivalence.
        points: The values of each trial.
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
    """The candidate with the least CPU per step, where known; of about equal ones the one with the
    fewest threads."""
    cost = np.nan_to_num(log_cost, nan=math.inf)
    least = min(cost[candidate] for candidate in candidates)
    near = [candidate for candidate in candidates if cost[candidate] <= least + SAME_COST]
    return min(near, key=lambda candidate: (threads[candidate], cost[candidate], candidate))


def _measured(matrix: FloatArray, candidates: Sequence[int]) -> list[int]:
    return [candidate for candidate in candidates if not bool(np.isnan(matrix[:, candidate]).all())]


def is_dominated(matrix: FloatArray, candidate: int, by: int) -> bool:
    """Whether a candidate was more than 1.5 times as slow as another one in all blocks that have
    both, 4 at least."""
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
        candidates: The columns that are still measured, of `initial` ones at the start.
        initial: Their number then.
        fraction: The part of the budget that is spent.
        points: The values of each trial.

    Returns:
        The reason by candidate that is dropped.
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
    """The reason by candidate that is clearly slower than the best so far, in 4 blocks at least."""
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
