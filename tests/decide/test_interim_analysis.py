import numpy as np
import pytest
from scipy import special

from tuner.decide.interim_analysis import InterimAnalysis, due_alpha, is_due, levels


def test_a_look_is_due_when_there_are_many_more_blocks() -> None:
    for taken, first in (([], 4), ([InterimAnalysis(5, 0.01, 1.0, 9.0)], 7)):
        assert [rows for rows in range(12) if is_due(rows, taken)] == [*range(first, 12)]


def test_the_looks_of_one_budget_leave_a_part_for_the_next() -> None:
    first = due_alpha(0.05, [], 30.0, 60.0, over=False)
    assert first == pytest.approx(0.8 * 0.05 / 4)
    # One that ends early spends all that it has.
    assert due_alpha(0.05, [], 1.0, 60.0, over=True) == pytest.approx(0.8 * 0.05)
    taken = [InterimAnalysis(10, first, 30.0, 60.0)]
    last = due_alpha(0.05, taken, 60.0, 60.0, over=True)
    assert first + last == pytest.approx(0.8 * 0.05)
    taken.append(InterimAnalysis(20, last, 60.0, 60.0))
    assert due_alpha(0.05, taken, 60.0, 60.0, over=True) == 0
    more = due_alpha(0.05, taken, 120.0, 120.0, over=True)
    assert more == pytest.approx(0.8 * 0.2 * 0.05)


def test_a_limit_spends_more_of_alpha_early_and_no_more_in_all() -> None:
    early = due_alpha(0.05, [], 10.0, 600.0, over=False, early=True)
    assert early > 100 * due_alpha(0.05, [], 10.0, 600.0, over=False)
    taken = [InterimAnalysis(4, early, 10.0, 600.0)]
    last = due_alpha(0.05, taken, 600.0, 600.0, over=False, early=True)
    assert early + last == pytest.approx(0.8 * 0.05)


def test_all_looks_together_are_wrong_as_often_as_they_spend() -> None:
    assert levels((30,), (0.025,)) == pytest.approx((0.025,))
    assert levels((), ()) == ()
    counts, spent = (5, 7, 10, 20, 40, 41), (0.001, 0.001, 0.002, 0.006, 0.03, 0.01)
    random, runs = np.random.default_rng(0), 100_000
    sums, wrong, before = np.zeros(runs), np.zeros(runs, dtype=bool), 0
    for count, level in zip(counts, levels(counts, spent), strict=True):
        sums += random.normal(0, np.sqrt(count - before), runs)
        before = count
        wrong |= sums / np.sqrt(count) > -special.ndtri(level)
    assert wrong.mean() == pytest.approx(0.05, abs=0.003)
    # None is stricter than what it spends.
    uneven = (1e-9, 1e-5, 0.001, 0.0, 0.02)
    assert (np.array(levels((4, 6, 9, 13, 19), uneven)) >= uneven).all()
