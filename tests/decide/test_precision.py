import math

import numpy as np
import pytest

from tests.decide.observed import observed
from tuner.decide.precision import best_measured_s, blocks_needed, variance_between, variance_within


@pytest.mark.parametrize("count", [2, 6])
def test_the_variance_between_worlds_is_without_what_blocks_share(count: int) -> None:
    matrix = observed([1.0] * count, 400, sigma=0.1, drift=0.5)
    assert variance_between(matrix) == pytest.approx(0.01, rel=0.25)


def test_the_variance_between_worlds_is_without_their_spikes() -> None:
    matrix = observed([1.0] * 6, 400, sigma=0.1, seed=1)
    matrix[::20, 2] += math.log(2)
    assert variance_between(matrix) == pytest.approx(0.01, rel=0.3)


def test_few_blocks_tell_no_variance() -> None:
    assert variance_between(observed([1.0, 1.0], 3, sigma=0.1)) is None
    assert variance_between(observed([1.0], 10, sigma=0.1)) is None


def test_the_variance_within_predicts_that_of_the_median() -> None:
    random = np.random.default_rng(2)
    worlds = 0.01 * np.exp(random.normal(0, 0.2, (400, 25)))
    found = float(np.median([variance_within(world.tolist()) or 0.0 for world in worlds]))
    medians = np.log(np.median(worlds, axis=1))
    assert found / (25 * 0.01) == pytest.approx(medians.var(), rel=0.25)
    assert variance_within([0.01, 0.02]) is None


def test_the_best_measured_time_is_the_cheapest_one() -> None:
    fixed_s, within, alone, used_s = 0.25, 0.0011, 0.0144, 0.3
    best_s = best_measured_s(fixed_s, within, alone + within / used_s, used_s)

    def price(measured_s: float) -> float:
        return (fixed_s + measured_s) * (alone + within / measured_s)

    assert best_s == pytest.approx(math.sqrt(fixed_s * within / alone))
    assert price(best_s) < min(price(best_s * 0.8), price(best_s * 1.25))


def test_half_the_difference_takes_four_times_as_many_pairs() -> None:
    assert blocks_needed(0.01, 0.02) == pytest.approx(4 * blocks_needed(0.01, 0.04))
    assert blocks_needed(1e-9, 1.0) == 2
