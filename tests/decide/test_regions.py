import itertools
import math
import random

import pytest

from tuner.decide.regions import Region, bad_levels, failing_regions, lies_in, main_effects
from tuner.decide.statistics import Interval

GRID = list(itertools.product(range(4), range(3), range(2)))


def drawn(seed: int, count: int) -> list[tuple[int, int, int]]:
    return random.Random(seed).sample(GRID, count)


@pytest.mark.parametrize("region", [((0, 3),), ((1, 1),), ((0, 2), (2, 1))])
def test_what_all_failures_have_in_common_is_found(region: Region) -> None:
    failed = [lies_in(point, region) for point in GRID]
    assert failing_regions(GRID, failed) == [region]


def test_two_causes_are_told_apart_and_what_ever_worked_is_none() -> None:
    failed = [point[0] == 3 or point[1] == 1 for point in GRID]
    assert sorted(failing_regions(GRID, failed)) == [((0, 3),), ((1, 1),)]
    failed = [point[1] == 1 and point != (0, 1, 0) for point in GRID]
    assert ((1, 1),) not in failing_regions(GRID, failed)
    assert failing_regions(drawn(0, 12), [number == 5 for number in range(12)]) == []


def test_failures_by_chance_seldom_look_like_a_region() -> None:
    found = 0
    for seed in range(200):
        points = drawn(seed, 16)
        chance = random.Random(seed + 1000)
        found += bool(failing_regions(points, [chance.random() < 0.15 for _ in points]))
    assert found <= 30


def test_main_effects_are_those_planted() -> None:
    effect = [0.0, math.log(2), math.log(1.05)]
    noise = random.Random(0)
    values = [0.1 * point[0] + effect[point[1]] + noise.gauss(0, 0.05) for point in GRID]
    levels = main_effects(GRID, values)[1]
    assert levels[0].ratio == Interval(1.0, 1.0, 1.0)
    assert levels[1].ratio.estimate == pytest.approx(2.0, rel=0.05)
    assert 1.7 < levels[1].ratio.low < levels[1].ratio.estimate
    assert levels[2].ratio.low < 1.05
    assert {level.tried for level in levels.values()} == {8}
    assert set(bad_levels(GRID, values)) == {(1, 1), (0, 3)}


def test_as_many_levels_as_values_tell_no_least_ratio() -> None:
    levels = main_effects([(0, 0), (1, 0), (0, 1)], [0.0, 1.0, 0.5], ridge=1e-6)
    assert levels[0][1].ratio.estimate == pytest.approx(math.e, rel=1e-3)
    assert {level.ratio.low for factor in levels for level in factor.values()} == {0.0}


def test_noise_drops_nothing() -> None:
    dropped = 0
    for seed in range(200):
        noise = random.Random(seed)
        points = drawn(seed, 14)
        dropped += bool(bad_levels(points, [noise.gauss(0, 0.15) for _ in points]))
    assert dropped <= 6
    assert bad_levels([], []) == {}
    assert main_effects([], []) == []
