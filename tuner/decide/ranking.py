"""Point estimates that rank candidates, and the rules that drop some of them; no claims.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured; a level is that of
a trial, adjusted for blocks.
"""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.additive import Levels, Pooled
from tuner.decide.gains import Gains
from tuner.decide.statistics import FloatArray
from tuner.text import distance, plural

SAME_COST = math.log(1.05)  # CPU costs nearer than this cannot be separated
DOMINATED_BLOCKS = 4
DOMINATED_RATIO = 1.5
MOST_RIVALS = 2  # so many rivals at most share the second half of a budget
HALVING_SHARE = 0.5  # the part of the budget in which the others are dropped
BEATEN = 0.025  # one that the best so far beats with this chance of error is dropped


def scores(levels: FloatArray, candidates: Sequence[int]) -> dict[int, float]:
    """The level of each candidate, adjusted for blocks; infinite for one that no block measured."""
    known = np.nan_to_num(levels, nan=math.inf).tolist()
    return {candidate: known[candidate] for candidate in candidates}


def best_measured(levels: FloatArray, candidates: Sequence[int]) -> int | None:
    """The candidate with the best score of those that a block has measured; None without one."""
    found = scores(levels, _measured(levels, candidates))
    return min(found, key=lambda candidate: (found[candidate], candidate), default=None)


def strongest(
    levels: Levels, rivals: Sequence[int], log_cost: FloatArray, log_epsilon: float
) -> int | None:
    """The rival that is compared with the baseline for the verdict; None if no block measured one.

    It is the one with the best score, or of those within `log_epsilon` of it the one that costs
    least CPU, if that is clearly less. Fewer threads are no argument: the score is the better
    guess. Where effects are pooled, those within epsilon are alike, and the best by itself is it.

    Args:
        levels: The level of each trial.
        rivals: The trials to choose from. A single one needs no block.
        log_cost: log(CPU per step) by trial; NaN where unknown.
        log_epsilon: The margin of equivalence.
    """
    if len(rivals) == 1:
        return rivals[0]
    found = scores(levels.best, _measured(levels.alone, rivals))
    if not found:
        return None
    most = min(found.values()) + log_epsilon
    near = [rival for rival in found if found[rival] <= most]
    # Of rivals that are alike, the one that did best alone is shown to be better most easily.
    alone = scores(levels.alone, near)
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


def _measured(levels: FloatArray, candidates: Sequence[int]) -> list[int]:
    is_known = (~np.isnan(levels)).tolist()
    return [candidate for candidate in candidates if is_known[candidate]]


def dominated(matrix: FloatArray, by: int) -> list[bool]:
    """Of each trial whether it was more than 1.5 times as slow as another one in all blocks that
    have both, 4 at least."""
    behind = matrix - matrix[:, [by]]
    known = ~np.isnan(behind)
    far = np.where(known, behind > math.log(DOMINATED_RATIO), True).all(axis=0)
    found: list[bool] = (far & (known.sum(axis=0) >= DOMINATED_BLOCKS)).tolist()
    return found


def halved(
    levels: FloatArray, blocks: int, candidates: Sequence[int], *, initial: int, fraction: float
) -> dict[int, str]:
    """Sequential halving: half are dropped after each of equal parts of a share, down to 2.

    Args:
        levels: log(objective) of each trial.
        blocks: How many blocks these are of.
        candidates: The trials that are still measured, of `initial` ones at the start.
        initial: Their number then.
        fraction: The part of the budget that is spent.

    Returns:
        The reason by candidate that is dropped.
    """
    rounds = math.ceil(math.log2(max(1.0, initial / MOST_RIVALS)))
    done = rounds if fraction >= HALVING_SHARE else math.floor(fraction / HALVING_SHARE * rounds)
    target = max(MOST_RIVALS, math.ceil(initial / 2**done))
    found = scores(levels, candidates)
    best = min(found.values(), default=0.0)
    return {
        candidate: f"{distance(found[candidate] - best)} behind the best "
        f"after {plural(blocks, 'block')}, when {target} of {initial} go on"
        for candidate in sorted(candidates, key=found.__getitem__)[target:]
    }


def beaten(
    gains: Gains, best: int, candidates: Sequence[int], together: Pooled | None = None
) -> dict[int, str]:
    """The reason by candidate that is clearly slower than the best so far, in 4 blocks at least, or
    by what is pooled of its values; no claim."""
    found, seen = {}, gains.so_far(best)
    those = [each for each in candidates if each != best and seen.counts[each] >= DOMINATED_BLOCKS]
    of_each = seen.intervals(np.array(those, dtype=np.int64), BEATEN, BEATEN)
    for place, candidate in enumerate(those):
        behind = of_each.of(place)
        if together is not None and behind is not None and behind.estimate < 0 <= behind.high:
            behind = together.gain(candidate, best, BEATEN / 2)
        if behind is not None and behind.high < 0:
            blocks = plural(int(seen.counts[candidate]), "block")
            found[candidate] = f"{distance(-behind.estimate)} behind the best after {blocks}"
    return found
