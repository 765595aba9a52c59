"""Which settings stay in the race: a pure function of the matrix of observations.

The procedure of `docs/how-it-decides.md`. Where the budget allows many blocks, a race by
Wilcoxon tests with an alpha that is spent over the looks (irace's idea); where it allows few,
sequential halving on the same interleaved blocks, which finds a better argmin than the race.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.decide.statistics import FloatArray, differences, interval, shown_less, typical

FIRST_LOOK = 8
LOOK_GROWTH = 1.4
DOMINATED_BLOCKS = 4
DOMINATED_RATIO = 1.5
# Below this many blocks a race has no time to certify anything.
RACE_FROM_BLOCKS = 150
# CPU costs nearer than this are the same cost: the measurement cannot tell them apart.
SAME_COST = math.log(1.05)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as a difference, and how sure a claim must be."""

    epsilon: float
    confidence: float

    @property
    def log_epsilon(self) -> float:
        """log(1 + epsilon): the difference on the scale of the matrix."""
        return math.log1p(self.epsilon)

    @property
    def alpha(self) -> float:
        """The chance of a wrong claim that is accepted."""
        return 1 - self.confidence


@dataclass(frozen=True)
class Decision:
    """What follows from the blocks so far."""

    dropped: Mapping[int, str] = field(default_factory=dict)
    """Column and the reason."""
    finished: bool = False
    """Nothing is left for another block to decide."""


def scores(matrix: FloatArray, candidates: Sequence[int]) -> dict[int, float]:
    """The 20 %-trimmed mean of (Y - its block mean) over the blocks that have all candidates."""
    chosen = matrix[:, list(candidates)]
    complete = chosen[~np.isnan(chosen).any(axis=1)]
    if not len(complete):
        return dict.fromkeys(candidates, 0.0)
    # Not the median: with two to four candidates it makes ties at zero.
    centred = complete - complete.mean(axis=1, keepdims=True)
    return {
        candidate: typical(centred[:, position]) for position, candidate in enumerate(candidates)
    }


def incumbent(matrix: FloatArray, candidates: Sequence[int]) -> int:
    """The candidate with the best score."""
    found = scores(matrix, candidates)
    return min(candidates, key=lambda candidate: (found[candidate], candidate))


def looks(cap: int) -> list[int]:
    """The numbers of blocks at which a race up to `cap` blocks tests: 8, then x1.4."""
    found: list[int] = []
    look = float(FIRST_LOOK)
    while round(look) < cap:
        found.append(round(look))
        look *= LOOK_GROWTH
    return [*found, cap]


def spent_alpha(alpha: float, look: int, previous: int, cap: int) -> float:
    """The part of alpha that a look may spend; all looks together spend `alpha`."""
    return alpha * ((look / cap) ** 2 - (previous / cap) ** 2)


def dominated(matrix: FloatArray, candidates: Sequence[int]) -> dict[int, str]:
    """The candidates that were slower than the best one by more than 1.5x in every block."""
    best = incumbent(matrix, candidates)
    found = {}
    for candidate in candidates:
        behind = matrix[:, candidate] - matrix[:, best]
        behind = behind[~np.isnan(behind)]
        if len(behind) >= DOMINATED_BLOCKS and (behind > math.log(DOMINATED_RATIO)).all():
            found[candidate] = (
                f"at least {math.exp(behind.min()):.2g} times the best in each of "
                f"{len(behind)} blocks"
            )
    return found


def halve(
    matrix: FloatArray, candidates: Sequence[int], *, initial: int, fraction: float
) -> Decision:
    """Sequential halving: after each of log2(initial) equal parts of the budget, the worse half go.

    `initial` is the number of candidates at the start, `fraction` the part of the race's budget
    that is spent.
    """
    if len(matrix) < DOMINATED_BLOCKS:
        return Decision(finished=fraction >= 1)
    dropped = dominated(matrix, candidates)
    if fraction >= 1:
        return Decision(dropped, finished=True)
    left = [candidate for candidate in candidates if candidate not in dropped]
    rounds = max(1, math.ceil(math.log2(max(2, initial))))
    target = max(1, math.ceil(initial / 2 ** math.floor(fraction * rounds)))
    found = scores(matrix, left)
    for candidate in sorted(left, key=found.__getitem__)[target:]:
        behind = math.expm1(found[candidate] - min(found.values()))
        dropped[candidate] = (
            f"{behind * 100:.1f} % behind the best after {len(matrix)} blocks, "
            f"when {target} of {initial} go on"
        )
    return Decision(dropped, finished=len(candidates) - len(dropped) == 1)


def race(
    matrix: FloatArray,
    candidates: Sequence[int],
    log_cost: FloatArray,
    *,
    initial: int,
    cap: int,
    rules: Rules,
) -> Decision:
    """One look of the race, if the number of blocks is one to look at."""
    blocks = len(matrix)
    if blocks == DOMINATED_BLOCKS and (dropped := dominated(matrix, candidates)):
        return Decision(dropped, finished=len(dropped) == len(candidates) - 1)
    at = looks(cap)
    if blocks not in at or len(candidates) < 2:
        return Decision(finished=blocks >= cap or len(candidates) < 2)
    alpha = look_alpha(blocks, initial=initial, cap=cap, rules=rules)
    best = incumbent(matrix, candidates)
    dropped = {}
    for candidate in candidates:
        if candidate == best:
            continue
        ahead = differences(matrix[:, best], matrix[:, candidate])
        dearer = log_cost[candidate] >= log_cost[best]
        if shown_less(ahead + rules.log_epsilon, alpha) or (dearer and shown_less(ahead, alpha)):
            dropped[candidate] = f"shown slower than the best after {blocks} blocks"
    left = [candidate for candidate in candidates if candidate not in dropped]
    done = (
        len(left) == 1
        or blocks >= cap
        or bool(near_optimal(matrix, left, alpha=alpha, log_epsilon=rules.log_epsilon))
    )
    return Decision(dropped, finished=done)


def look_alpha(blocks: int, *, initial: int, cap: int, rules: Rules) -> float:
    """The level of each test at the look after `blocks` blocks of a race up to `cap`."""
    previous = max((look for look in looks(cap) if look < blocks), default=0)
    return spent_alpha(rules.alpha, min(blocks, cap), previous, cap) / max(1, initial - 1)


def near_optimal(
    matrix: FloatArray, candidates: Sequence[int], *, alpha: float, log_epsilon: float
) -> list[int]:
    """The candidates shown to be at most epsilon slower than each of the others."""
    return [
        candidate
        for candidate in candidates
        if all(
            shown_less(differences(matrix[:, candidate], matrix[:, other]) - log_epsilon, alpha)
            for other in candidates
            if other != candidate
        )
    ]


def cheapest(candidates: Sequence[int], log_cost: FloatArray, threads: Sequence[int]) -> int:
    """The candidate with the least CPU per step; of about equal ones that with fewest threads."""
    cost = np.nan_to_num(log_cost, nan=math.inf)  # settings not measured yet are not cheap
    least = min(cost[candidate] for candidate in candidates)
    near = [candidate for candidate in candidates if cost[candidate] <= least + SAME_COST]
    return min(near, key=lambda candidate: (threads[candidate], cost[candidate], candidate))


def epsilon_achieved(
    matrix: FloatArray, chosen: int, others: Sequence[int], rules: Rules
) -> float | None:
    """The smallest epsilon at which `chosen` is shown to be at most epsilon slower than the others.

    From one-sided bounds at the rules' confidence, shared among the others. None when a pair has
    too few blocks in common for any bound.
    """
    worst = 0.0
    for other in others:
        behind = differences(matrix[:, chosen], matrix[:, other])
        # A one-sided bound is the end of a two-sided interval with twice the alpha.
        bound = interval(behind, 1 - 2 * rules.alpha / len(others))
        if bound is None:
            return None
        worst = max(worst, math.expm1(bound.high))
    return worst
