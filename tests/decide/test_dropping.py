import numpy as np

from tests.decide.observed import observed
from tuner.decide.dropping import MOST_RIVALS, beaten, halved, is_dominated


def test_dominated_needs_four_blocks_and_all_of_them() -> None:
    matrix = observed([1.0, 1.6, 1.4], blocks=4)
    assert is_dominated(matrix, 1, 0)
    assert not is_dominated(matrix, 2, 0)
    assert not is_dominated(matrix[:3], 1, 0)
    matrix[2, 1] = 0.0
    assert not is_dominated(matrix, 1, 0)


def test_halving_keeps_eight_after_a_part_of_the_budget() -> None:
    matrix = observed([1.0 + 0.01 * trial for trial in range(32)], blocks=4)
    candidates = list(range(32))
    assert halved(matrix, candidates, initial=32, fraction=0.1) == {}
    assert sorted(halved(matrix, candidates, initial=32, fraction=0.16)) == [*range(16, 32)]
    assert sorted(halved(matrix, candidates, initial=32, fraction=0.3)) == [*range(8, 32)]
    assert halved(matrix, candidates, initial=32, fraction=1.0)[31] == (
        "31 % behind the best after 4 blocks, when 8 of 32 go on"
    )


def test_few_rivals_are_not_halved() -> None:
    matrix = observed([1.0 + 0.2 * trial for trial in range(MOST_RIVALS)], blocks=9)
    assert halved(matrix, [*range(MOST_RIVALS)], initial=MOST_RIVALS, fraction=0.9) == {}


def test_beaten_is_what_is_clearly_behind_the_best() -> None:
    matrix = observed([1.0, 1.0, 1.4, 1.4], blocks=20, sigma=0.05, seed=3)
    matrix[3:, 3] = np.nan
    assert [*beaten(matrix, 0, [0, 1, 2, 3])] == [2]


def test_what_other_trials_show_of_a_value_counts_too() -> None:
    """Four blocks do not tell one pair; six pairs of a binding and the other they do."""
    points = [(binding, threads) for binding in range(2) for threads in range(6)]
    matrix = observed([1.0] * 6 + [0.8] * 6, blocks=4, sigma=0.1, seed=1)
    alone, together = ({*beaten(matrix, 8, range(12), *more)} for more in ([], [points]))
    assert alone < together
    assert together <= {*range(6)}
    one_knob = [(0, each) for each in range(12)]
    assert beaten(matrix, 8, range(12), one_knob) == beaten(matrix, 8, range(12))
    few, many = (
        halved(matrix, range(12), initial=12, fraction=1.0, points=each)
        for each in (one_knob, points)
    )
    assert few == halved(matrix, range(12), initial=12, fraction=1.0)
    assert many.keys() <= {*range(6)}
