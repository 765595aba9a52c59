"""Does an interval hold the truth as often as it says? Simulated, with fixed seeds."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tuner.decide.statistics import FloatArray, interval

pytestmark = pytest.mark.slow

Noise = Callable[[np.random.Generator, int], FloatArray]


def quiet(random: np.random.Generator, count: int) -> FloatArray:
    """log times of worlds that differ by 2 %: the looks often stop early."""
    return random.normal(0, 0.02, count)


def with_spikes(random: np.random.Generator, count: int) -> FloatArray:
    """log times of worlds that differ by 12 %, of which 5 % take twice as long."""
    spikes = np.where(random.random(count) < 0.05, math.log(2), 0.0)
    noisy: FloatArray = random.normal(0, 0.12, count) + spikes
    return noisy


def missed(random: np.random.Generator, count: int, confidence: float, noise: Noise) -> float:
    """How often an interval misses the truth, over how often it may."""
    runs = 4000
    outside = 0
    for _ in range(runs):
        found = interval(noise(random, count) - noise(random, count), confidence)
        assert found is not None
        outside += not found.low <= 0 <= found.high
    return outside / runs / (1 - confidence)


@pytest.mark.parametrize("count", [4, 6, 7, 8, 10])
@pytest.mark.parametrize("noise", [quiet, with_spikes])
def test_the_interval_of_few_values_misses_no_more_often_than_it_says(
    count: int, noise: Noise
) -> None:
    # 4000 runs of an exact interval miss 1.14 times as often as they may in 1 of 50 such tests.
    assert missed(np.random.default_rng(count), count, 0.95, noise) <= 1.14
