import numpy as np
import pytest

from tests.decide.observed import observed
from tuner.decide.exclusion import ExclusionLook, due_alpha, excluded

EPSILON = float(np.log1p(0.03))


def look(rows: int, alpha: float = 0.025) -> ExclusionLook:
    return ExclusionLook(rows, alpha, 60.0, 60.0)


def test_a_rival_is_excluded_by_blocks_that_show_it_is_not_much_better() -> None:
    matrix = observed([1.0, 1.1, 1.0, 0.9], 100, sigma=0.05)
    assert excluded(matrix, 0, [1, 2, 3], [look(100)], EPSILON) == {1, 2}


def test_too_few_blocks_exclude_only_what_is_far_behind() -> None:
    matrix = observed([1.0, 1.1, 1.0, 3.0], 4, sigma=0.2)
    assert excluded(matrix, 0, [1, 2, 3], [look(4)], EPSILON) == {3}
    assert excluded(matrix, 0, [1, 2, 3], [], EPSILON) == {3}


def test_what_was_never_measured_is_not_excluded() -> None:
    matrix = observed([1.0, 1.1], 50, sigma=0.01)
    matrix[:, 1] = np.nan
    assert excluded(matrix, 0, [1], [look(50)], EPSILON) == set()


def test_who_was_excluded_stays_excluded() -> None:
    matrix = observed([1.0, 1.1], 60, sigma=0.02)
    matrix[30:, 1] -= 1.0
    assert excluded(matrix, 0, [1], [look(30), look(60)], EPSILON) == {1}
    assert excluded(matrix, 0, [1], [look(60)], EPSILON) == set()


def test_the_looks_of_one_budget_leave_a_part_for_the_next() -> None:
    first = due_alpha(0.025, [], 30.0, 60.0, over=False)
    assert first == pytest.approx(0.8 * 0.025 / 4)
    taken = [ExclusionLook(10, first, 30.0, 60.0)]
    last = due_alpha(0.025, taken, 60.0, 60.0, over=True)
    assert first + last == pytest.approx(0.8 * 0.025)
    taken.append(ExclusionLook(20, last, 60.0, 60.0))
    assert due_alpha(0.025, taken, 60.0, 60.0, over=True) == 0
    more = due_alpha(0.025, taken, 120.0, 120.0, over=True)
    assert more == pytest.approx(0.8 * 0.2 * 0.025)


def test_one_that_is_better_by_just_epsilon_is_seldom_excluded() -> None:
    wrong = sum(
        bool(
            excluded(
                observed([1.0, 1 / 1.0301], 40, sigma=0.1, seed=seed), 0, [1],
                [look(10, 0.005), look(20, 0.005), look(40, 0.015)], EPSILON,
            )
        )
        for seed in range(400)
    )  # fmt: skip
    assert wrong / 400 <= 0.025 + 0.025  # what 400 runs can tell
