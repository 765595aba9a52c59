"""A bounded sample of many numbers."""

import random
import statistics

import pytest

from tuner.world.rank.reservoir import Reservoir


def sampled(most: int, count: int) -> Reservoir:
    reservoir = Reservoir(most)
    for number in range(count):
        reservoir.add(float(number))
    return reservoir


@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_few_numbers_are_all_kept_in_order(count: int) -> None:
    reservoir = sampled(10, count)
    assert reservoir.values() == [float(number) for number in range(count)]
    assert reservoir.count == count


def test_of_many_numbers_each_part_is_as_likely() -> None:
    reservoir = sampled(2000, 300_000)
    values = reservoir.values()
    assert len(values) == 2000
    assert reservoir.count == 300_000
    assert values == sorted(set(values))
    tenths = [sum(value // 30_000 == tenth for value in values) for tenth in range(10)]
    assert min(tenths) > 130  # 200 are expected; 13 is a standard deviation
    assert max(tenths) < 270
    assert statistics.mean(values) == pytest.approx(150_000, rel=0.07)


def test_the_workloads_own_numbers_are_not_disturbed() -> None:

    random.seed(3)
    expected = random.random()
    random.seed(3)
    sampled(10, 1000)
    assert random.random() == expected
