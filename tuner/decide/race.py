"""Which configurations stay in the race: pure functions of the matrix of observations.

The procedure of `docs/how-it-decides.md`. Where the budget allows many blocks, a race by
Wilcoxon tests with an alpha that is spent over the looks (irace's idea); where it allows few,
sequential halving on the same interleaved blocks, which finds a better argmin than the race.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured. Candidates are
columns of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.decide.ranking import incumbent, scores
from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray, differences, interval, shown_less
from tuner.text import plural, share, three_digits

FIRST_LOOK = 8
LOOK_GROWTH = 1.4
DOMINATED_BLOCKS = 4
DOMINATED_RATIO = 1.5
# Below this many blocks a race has no time to show that anything is near-optimal.
RACE_FROM_BLOCKS = 150


@dataclass(frozen=True)
class Decision:
    """What follows from the blocks so far."""

    dropped: Mapping[int, str] = field(default_factory=dict)
    """The reason by candidate."""
    finished: bool = False
    """Whether another block has nothing left to decide."""


def decide(
    matrix: FloatArray,
    candidates: Sequence[int],
    log_cost: FloatArray,
    *,
    initial: int,
    cap: int,
    fraction: float,
    rules: Rules,
) -> Decision:
    """Who goes on after these blocks: by a race where the budget allows one, else by halving.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns still in the race.
        log_cost: log(CPU per step) by trial; NaN where unknown.
        initial: The number of candidates at the start.
        cap: The most blocks that the race's budget allows.
        fraction: The part of the race's budget that is spent.
        rules: What counts as a difference, and how sure a claim must be.
    """
    if cap < RACE_FROM_BLOCKS:
        return halve(matrix, candidates, initial=initial, fraction=fraction)
    return race(matrix, candidates, log_cost, initial=initial, cap=cap, rules=rules)


def near_optimal_of_race(
    matrix: FloatArray, candidates: Sequence[int], *, initial: int, cap: int, rules: Rules
) -> list[int]:
    """The candidates that a finished race has shown to be near-optimal, by their last look.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns still in the race.
        initial: The number of candidates at the start.
        cap: The most blocks that the race's budget allowed.
        rules: What counts as a difference, and how sure a claim must be.

    Returns:
        Columns; none after halving, which finds an argmin and shows nothing.
    """
    if len(candidates) < 2 or cap < RACE_FROM_BLOCKS:
        return []
    alpha = look_alpha(len(matrix), initial=initial, cap=cap, rules=rules)
    return near_optimal(matrix, candidates, alpha=alpha, log_epsilon=rules.log_epsilon)


def looks(cap: int) -> list[int]:
    """The numbers of blocks at which a race up to `cap` blocks tests: 8, then 1.4 times as many."""
    found: list[int] = []
    look = float(FIRST_LOOK)
    while round(look) < cap:
        found.append(round(look))
        look *= LOOK_GROWTH
    return [*found, cap]


def spent_alpha(alpha: float, look: int, previous: int, cap: int) -> float:
    """What the look after `look` of `cap` blocks spends, where the one before it was at `previous`.

    All looks up to `cap` together spend `alpha`.
    """
    return alpha * ((look / cap) ** 2 - (previous / cap) ** 2)


def dominated(matrix: FloatArray, candidates: Sequence[int]) -> dict[int, str]:
    """The candidates that were more than 1.5 times as slow as the best one in every block.

    Args:
        matrix: log(objective), blocks x trials; it takes 4 blocks at least.
        candidates: The columns to compare.

    Returns:
        The reason by candidate.
    """
    best = incumbent(matrix, candidates)
    found = {}
    for candidate in candidates:
        behind = matrix[:, candidate] - matrix[:, best]
        behind = behind[~np.isnan(behind)]
        if len(behind) >= DOMINATED_BLOCKS and (behind > math.log(DOMINATED_RATIO)).all():
            least = three_digits(math.exp(behind.min()))
            found[candidate] = (
                f"at least {least} times as slow as the best in each of "
                f"{plural(len(behind), 'block')}"
            )
    return found


def halve(
    matrix: FloatArray, candidates: Sequence[int], *, initial: int, fraction: float
) -> Decision:
    """Sequential halving: after each of log2(initial) equal parts of the budget, half are dropped.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns still in the race.
        initial: The number of candidates at the start.
        fraction: The part of the race's budget that is spent.
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
            f"{share(behind)} behind the best after {plural(len(matrix), 'block')}, "
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
    """One look of the race, if the number of blocks is one to look at.

    Args:
        matrix: log(objective), blocks x trials.
        candidates: The columns still in the race.
        log_cost: log(CPU per step) by trial; NaN where unknown.
        initial: The number of candidates at the start.
        cap: The most blocks that the race's budget allows.
        rules: What counts as a difference, and how sure a claim must be.
    """
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
        # What costs no less has to be slower only, and what is cheaper slower by epsilon.
        margin = 0.0 if log_cost[candidate] >= log_cost[best] else rules.log_epsilon
        if shown_less(ahead + margin, alpha):
            dropped[candidate] = f"shown slower than the best after {blocks} blocks"
    left = [candidate for candidate in candidates if candidate not in dropped]
    done = (
        len(left) == 1
        or blocks >= cap
        or bool(near_optimal(matrix, left, alpha=alpha, log_epsilon=rules.log_epsilon))
    )
    return Decision(dropped, finished=done)


def look_alpha(blocks: int, *, initial: int, cap: int, rules: Rules) -> float:
    """The level of each test at the look after `blocks` blocks of a race up to `cap`.

    The look's share of alpha is divided among the comparisons with the best of `initial`.
    """
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


def epsilon_achieved(
    matrix: FloatArray, chosen: int, others: Sequence[int], rules: Rules
) -> float | None:
    """The smallest epsilon at which `chosen` is shown to be at most epsilon slower than the others.

    It comes from one-sided bounds at the rules' confidence, which the others share.

    Args:
        matrix: log(objective), blocks x trials.
        chosen: A column.
        others: The columns to compare it with.
        rules: How sure the bound must be.

    Returns:
        A fraction, at least 0; None if a pair has too few blocks in common for any bound.
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
