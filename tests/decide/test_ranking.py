import math
from collections.abc import Sequence

import numpy as np

from tests.decide.observed import observed
from tuner.decide.additive import Levels, Points
from tuner.decide.gains import Gains
from tuner.decide.ranking import (
    beaten,
    best_measured,
    cheapest,
    dominated,
    halved,
    scores,
    strongest,
)  # fmt: skip
from tuner.decide.statistics import FloatArray

UNMEASURED = np.nan
NO_COST = np.zeros(5)
EPSILON = math.log(1.03)


def levels(matrix: FloatArray, points: Points | None = None) -> FloatArray:
    return Levels.of(matrix, points).best


def is_beaten(
    matrix: FloatArray, best: int, candidates: Sequence[int], points: Points | None = None
) -> set[int]:
    return {*beaten(Gains(matrix, 0.95), best, candidates, Levels.of(matrix, points).together)}


def test_the_best_measured_is_none_where_no_block_measured_any() -> None:
    matrix = observed([1.0, 0.5, 0.8], blocks=3)
    matrix[:, 1] = UNMEASURED
    assert best_measured(levels(matrix), [0, 1, 2]) == 2
    assert best_measured(levels(matrix), [1]) is None
    assert best_measured(levels(matrix[:0]), [0, 1]) is None


def test_the_strongest_is_a_cheaper_one_within_epsilon() -> None:
    assert strongest(Levels.of(observed([1.0, 1.2, 1.1], 4)), [1, 2], NO_COST, EPSILON) == 2
    alike = Levels.of(observed([1.0, 1.02, 1.02, 1.3], blocks=4))
    cost = np.log([2.0, 1.9, 1.5, 0.5])
    assert strongest(alike, [0, 1, 2, 3], cost, EPSILON) == 2
    # 1.96 is the same cost as 2, and 1.3 is too slow.
    assert strongest(alike, [0, 1, 3], np.log([2.0, 1.96, 1.5, 0.5]), EPSILON) == 0
    # A single rival needs no race.
    nothing = Levels.of(np.empty((0, 3)))
    assert strongest(nothing, [2], NO_COST, EPSILON) == 2
    assert strongest(nothing, [1, 2], NO_COST, EPSILON) is None
    assert strongest(nothing, [], NO_COST, EPSILON) is None


def test_cheapest_counts_cpu_first_then_threads() -> None:
    cost = np.log(np.array([2.0, 1.0, 1.02, 1.01]))
    assert cheapest([0, 1, 2, 3], cost, threads=[2, 32, 8, 16]) == 2
    assert cheapest([0, 1], cost, threads=[2, 32]) == 1
    assert cheapest([0, 1], np.array([UNMEASURED, 3.0]), threads=[1, 32]) == 1


GRID = [(binding, threads) for binding in range(2) for threads in range(6)]


def test_knobs_are_ranked_by_all_trials_that_have_their_values() -> None:
    """One lucky trial is not the best where all others of its binding are slower."""
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=8, sigma=0.1, seed=1)
    matrix[:, 2] += matrix.mean(axis=0).min() - 0.01 - matrix[:, 2].mean()
    assert best_measured(levels(matrix), range(12)) == 2
    assert (best_measured(levels(matrix, GRID), range(12)) or 0) >= 6
    one_knob = levels(matrix, [(0, each) for each in range(12)])
    assert scores(one_knob, range(12)) == scores(levels(matrix), range(12))


def test_of_rivals_that_are_alike_together_the_strongest_is_the_best_alone() -> None:
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=8, sigma=0.03, seed=2)
    found = Levels.of(matrix, GRID)
    best = min(range(1, 12), key=found.alone.__getitem__)
    assert strongest(found, range(1, 12), np.zeros(12), math.log(1.5)) == best


def test_dominated_needs_four_blocks_and_all_of_them() -> None:
    matrix = observed([1.0, 1.6, 1.4], blocks=4)
    assert dominated(matrix, 0) == [False, True, False]
    assert not any(dominated(matrix[:3], 0))
    matrix[2, 1] = 0.0
    assert not any(dominated(matrix, 0))


def test_halving_keeps_two_after_half_of_the_budget() -> None:
    found = levels(observed([1.0 + 0.01 * trial for trial in range(32)], blocks=4))
    candidates = list(range(32))
    assert halved(found, 4, candidates, initial=32, fraction=0.1) == {}
    assert halved(found, 4, candidates[:2], initial=2, fraction=0.9) == {}
    assert sorted(halved(found, 4, candidates, initial=32, fraction=0.16)) == [*range(16, 32)]
    assert sorted(halved(found, 4, candidates, initial=32, fraction=0.5)) == [*range(2, 32)]
    assert halved(found, 4, candidates, initial=32, fraction=1.0)[31] == (
        "31 % behind the best after 4 blocks, when 2 of 32 go on"
    )


def test_beaten_is_what_is_clearly_behind_the_best() -> None:
    matrix = observed([1.0, 1.0, 1.4, 1.4], blocks=20, sigma=0.05, seed=3)
    matrix[3:, 3] = np.nan
    assert is_beaten(matrix, 0, [0, 1, 2, 3]) == {2}


def test_what_other_trials_show_of_a_value_counts_too() -> None:
    """Four blocks do not tell one pair; six pairs of a binding and the other they do."""
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=4, sigma=0.1, seed=1)
    alone, together = (is_beaten(matrix, 8, range(12), points) for points in (None, GRID))
    assert alone < together
    assert together <= {*range(6)}
    one_knob = [(0, each) for each in range(12)]
    assert is_beaten(matrix, 8, range(12), one_knob) == alone
    assert halved(levels(matrix, GRID), 4, range(12), initial=12, fraction=0.2).keys() <= {
        *range(6)
    }
