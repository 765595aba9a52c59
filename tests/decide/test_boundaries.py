"""The levels of looks that share alpha, against what others have published and simulation."""

import numpy as np
import pytest
from scipy import special

from tuner.decide.boundaries import levels


def test_one_look_tests_at_what_it_spends() -> None:
    assert levels((30,), (0.025,)) == pytest.approx((0.025,))
    assert levels((), ()) == ()


def test_two_looks_at_pococks_levels() -> None:
    # Pocock 1977: two looks at 0.0294, two-sided, are 0.05 together.
    first = 0.0294 / 2
    (_, second) = levels((50, 100), (first, 0.025 - first))
    assert second == pytest.approx(0.0294 / 2, rel=0.02)


def test_all_looks_together_are_wrong_as_often_as_they_spend() -> None:
    counts, spent = (5, 7, 10, 20, 40, 41), (0.001, 0.001, 0.002, 0.006, 0.03, 0.01)
    random, runs = np.random.default_rng(0), 100_000
    sums, wrong, before = np.zeros(runs), np.zeros(runs, dtype=bool), 0
    for count, level in zip(counts, levels(counts, spent), strict=True):
        sums += random.normal(0, np.sqrt(count - before), runs)
        before = count
        wrong |= sums / np.sqrt(count) > -special.ndtri(level)
    assert wrong.mean() == pytest.approx(0.05, abs=0.003)


def test_a_look_tests_no_stricter_than_what_it_spends() -> None:
    spent = (1e-9, 1e-5, 0.001, 0.0, 0.02)
    assert all(level >= each for level, each in zip(levels((4, 6, 9, 13, 19), spent), spent,
                                                    strict=True))  # fmt: skip
