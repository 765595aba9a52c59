import math

import numpy as np
import pytest

from tests.decide.observed import observed
from tuner.decide.ranking import best_measured, cheapest, incumbent, scores, strongest

UNMEASURED = np.nan
NO_COST = np.zeros(5)
EPSILON = math.log(1.03)


def test_scores_remove_what_the_configs_of_a_block_share() -> None:
    matrix = observed([1.0, 2.0], blocks=6, drift=3.0)
    found = scores(matrix, [0, 1])
    assert found[1] - found[0] == pytest.approx(math.log(2))


def test_scores_tell_blocks_and_trials_apart() -> None:
    matrix = observed([1.0, 2.0, 0.5], blocks=5)
    matrix[3:, 2] = UNMEASURED
    matrix[3:] += 9.0
    assert incumbent(matrix, [0, 1, 2]) == 2
    assert scores(matrix, [0, 1, 2])[0] < scores(matrix, [0, 1, 2])[1]


def test_the_best_measured_is_none_where_no_block_measured_any() -> None:
    matrix = observed([1.0, 0.5, 0.8], blocks=3)
    matrix[:, 1] = UNMEASURED
    assert best_measured(matrix, [0, 1, 2]) == 2
    assert best_measured(matrix, [1]) is None
    assert best_measured(matrix[:0], [0, 1]) is None


def test_the_strongest_is_the_one_with_the_best_score() -> None:
    matrix = observed([1.0, 1.2, 1.1], blocks=4)
    assert strongest(matrix, [1, 2], NO_COST, EPSILON) == 2


def test_the_strongest_is_a_cheaper_one_within_epsilon() -> None:
    matrix = observed([1.0, 1.02, 1.02, 1.3], blocks=4)
    cost = np.log([2.0, 1.9, 1.5, 0.5])
    assert strongest(matrix, [0, 1, 2, 3], cost, EPSILON) == 2
    # 1.96 is the same cost as 2, and 1.3 is too slow.
    assert strongest(matrix, [0, 1, 3], np.log([2.0, 1.96, 1.5, 0.5]), EPSILON) == 0


def test_a_single_rival_needs_no_race_and_several_do() -> None:
    nothing = np.empty((0, 3))
    assert strongest(nothing, [2], NO_COST, EPSILON) == 2
    assert strongest(nothing, [1, 2], NO_COST, EPSILON) is None
    assert strongest(nothing, [], NO_COST, EPSILON) is None


def test_cheapest_counts_cpu_first_then_threads() -> None:
    cost = np.log(np.array([2.0, 1.0, 1.02, 1.01]))
    assert cheapest([0, 1, 2, 3], cost, threads=[2, 32, 8, 16]) == 2
    assert cheapest([0, 1], cost, threads=[2, 32]) == 1


def test_what_was_not_measured_is_not_cheap() -> None:
    assert cheapest([0, 1], np.array([UNMEASURED, 3.0]), threads=[1, 32]) == 1


GRID = [(binding, threads) for binding in range(2) for threads in range(6)]


def test_knobs_are_ranked_by_all_trials_that_have_their_values() -> None:
    """One lucky trial is not the best where all others of its binding are slower."""
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=8, sigma=0.1, seed=1)
    matrix[:, 2] += matrix.mean(axis=0).min() - 0.01 - matrix[:, 2].mean()
    assert incumbent(matrix, range(12)) == 2
    assert incumbent(matrix, range(12), GRID) >= 6
    assert best_measured(matrix, range(12), GRID) == incumbent(matrix, range(12), GRID)
    assert scores(matrix, range(12), [(0, each) for each in range(12)]) == scores(matrix, range(12))


def test_of_rivals_that_are_alike_together_the_strongest_is_the_best_alone() -> None:
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=8, sigma=0.03, seed=2)
    alone = scores(matrix, range(12))
    assert strongest(matrix, range(1, 12), np.zeros(12), math.log(1.5), GRID) == min(
        range(1, 12), key=alone.__getitem__
    )
