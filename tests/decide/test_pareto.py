import numpy as np
import pytest

from tuner.decide.pareto import pareto_front
from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray

RULES = Rules(epsilon=0.03, confidence=0.95)


def noisy(values: list[float], blocks: int, sigma: float, seed: int) -> FloatArray:
    """log(value) by block and trial, with a drift that all trials of a block share."""
    random = np.random.default_rng(seed)
    drift = random.normal(0, 0.3, (blocks, 1))
    logs: FloatArray = np.log(values) + drift + random.normal(0, sigma, (blocks, len(values)))
    return logs


def front(first: list[float], second: list[float], **noise: float) -> list[int]:
    how = {"blocks": 12, "sigma": 0.02, "seed": 0, **noise}
    blocks, sigma, seed = int(how["blocks"]), how["sigma"], int(how["seed"])
    return pareto_front(
        noisy(first, blocks, sigma, seed), noisy(second, blocks, sigma, seed + 1),
        range(len(first)), RULES,
    )  # fmt: skip


def test_what_another_one_beats_in_both_is_off_the_front() -> None:
    assert front([1.0, 1.5, 2.0, 2.2], [4.0, 2.0, 1.0, 2.5]) == [0, 1, 2]


def test_what_is_worse_in_one_and_equal_in_the_other_is_off_it_too() -> None:
    assert front([1.0, 2.0], [1.0, 1.0], sigma=0.01) == [0]


def test_equal_ones_stay_together() -> None:
    assert front([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]) == [0, 1, 2]


def test_noise_takes_nothing_off_the_front() -> None:
    assert front([1.0, 1.1], [1.0, 1.1], sigma=0.5) == [0, 1]
    assert front([1.0, 2.0], [1.0, 2.0], blocks=3) == [0, 1]


@pytest.mark.parametrize("seed", range(10))
def test_some_are_always_in_front(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.normal(size=(6, 8)), random.normal(size=(6, 8))
    assert pareto_front(first, second, range(8), RULES)


def test_a_wrong_exclusion_is_rare() -> None:
    wrong = sum(
        front([1.0, 1.02, 1.04, 1.06], [1.06, 1.04, 1.02, 1.0], sigma=0.1, seed=2 * seed)
        != [0, 1, 2, 3]
        for seed in range(100)
    )
    assert wrong <= 10
