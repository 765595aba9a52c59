import math

import numpy as np
import pytest
from scipy import stats

from testing.known import known
from tests.decide.observed import observed
from tuner.decide.gains import Gains, Paired
from tuner.decide.statistics import (
    FloatArray,
    Interval,
    best_measured_s,
    blocks_needed,
    differences,
    interval,
    typical,
    variance_between,
    variance_within,
    without_spikes,
)  # fmt: skip


def test_interval_of_few_values_is_students() -> None:
    values = np.array([0.1, 0.3, 0.2, 0.6])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    found = known(interval(values, 0.9))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.estimate == pytest.approx(0.3)
    assert interval(values[:1], 0.9) is interval(values[:0], 0.9) is None
    assert interval(np.full(6, 0.25), 0.95) == Interval(0.25, 0.25, 0.25)


def test_interval_of_more_values_is_yuens_with_one_degree_of_freedom_less() -> None:
    values = np.array([0.3, 0.1, 0.2, 0.6, 0.25, 0.15, 0.9, 0.35, 0.05, 0.4])
    winsorized, middle = np.clip(values, 0.15, 0.4), stats.trim_mean(values, 0.2)
    reach = stats.t(4).ppf(0.95) * np.sqrt(9 * winsorized.var(ddof=1) / (6 * 5))
    found = known(interval(values, 0.9))
    shown = (found.estimate, found.low, found.high)
    assert shown == pytest.approx((middle, middle - reach, middle + reach))
    assert typical(np.array([1.0] * 8 + [9.0, 99.0])) == 1.0


def test_an_interval_can_be_turned_round_and_be_that_of_a_ratio() -> None:
    assert Interval(2.0, 1.6, 2.5).inverse() == Interval(0.5, 0.4, 0.625)
    assert Interval(1.0, 0.0, math.inf).inverse() == Interval(1.0, 0.0, math.inf)
    assert -Interval(0.5, 0.2, 0.9) == Interval(-0.5, -0.9, -0.2)
    assert Interval(0.0, -0.1, 1e4).exp() == Interval(1.0, math.exp(-0.1), math.inf)


def test_differences_pair_the_blocks_that_have_both() -> None:
    slower = np.array([1.0, np.nan, 3.0, 4.0])
    faster = np.array([0.5, 1.0, np.nan, 1.0])
    assert differences(slower, faster).tolist() == [0.5, 3.0]
    # Autocorrelated ones are averaged in pairs.
    drifting = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    found = differences(drifting, np.zeros(9))
    assert found.tolist() == pytest.approx([0.05, 0.25, 0.45, (0.6 + 0.7 + 0.8) / 3])
    alternating = np.array([0.1, -0.1] * 5)
    assert len(differences(alternating, np.zeros(10))) == 10


def test_a_ratio_is_that_of_the_blocks_that_have_both() -> None:
    drift = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    fast = drift + np.array([0.01, -0.01, 0.0, 0.01, math.nan])
    slow = drift + math.log(1.5)
    both = Gains(np.column_stack([slow, fast]), 0.95)
    found = known(both.alone(1, 0)).ratio
    assert found.low < 1.5 < found.high < 1.04 * found.low
    # That of one block may be any.
    one = Gains(np.array([[0.0, 0.0], [math.nan, 1.0]]), 0.95)
    assert one.alone(1, 0) == Paired(Interval(1.0, 0.0, math.inf), 1)
    assert Gains(one.blocks[1:], 0.95).alone(1, 0) is None


def spiky(times: list[float], blocks: int, seed: int = 0) -> FloatArray:
    """Worlds of which 5 % take twice as long."""
    matrix = observed(times, blocks, sigma=0.1, drift=0.1, seed=seed)
    hit = np.random.default_rng(seed + 1).random(matrix.shape) < 0.05
    return np.where(hit, matrix + np.log(2), matrix)


def test_a_spike_goes_to_where_its_block_and_its_trial_have_it() -> None:
    matrix = observed([1.0, 1.2, 0.9, 1.0], 20, sigma=0.02, drift=0.1)
    spike = matrix.copy()
    spike[7, 2] += np.log(3)
    found = without_spikes(spike)
    assert found[7, 2] == pytest.approx(matrix[7, 2], abs=0.08)
    others = np.ones(matrix.shape, dtype=bool)
    others[7, 2] = False
    assert found[others] == pytest.approx(matrix[others], abs=0.02)


def test_it_needs_fewer_blocks_than_a_trimmed_mean_and_favours_nobody() -> None:
    errors = []
    for seed in range(200):
        found = without_spikes(spiky([1.0, 1.0, 1.0, 1.0, 1.0], 40, seed))
        errors.append((found[:, 0] + found[:, 1]).mean() / 2 - found[:, 2].mean())
    # Worlds without any spike would have a standard error of 0.1 x the root of 1.5 / 40.
    assert np.std(errors) < 1.2 * 0.1 * np.sqrt(1.5 / 40)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(200)


@pytest.mark.parametrize("times_as_noisy", [5, 20])
def test_the_noise_of_a_noisy_trial_is_not_taken_for_spikes(times_as_noisy: int) -> None:
    kept = []
    for seed in range(50):
        matrix = observed([1.0] * 6, 20, sigma=0.02, drift=0.1, seed=seed)
        noise = np.random.default_rng(seed + 1).standard_normal(20)
        matrix[:, 5] += 0.02 * times_as_noisy * noise
        found = without_spikes(matrix)
        gains = [each[:, 0] - each[:, 5] for each in (found, matrix)]
        kept.append(gains[0].var() / gains[1].var())
    assert 0.85 < np.mean(kept) < 1.15


def test_what_was_not_measured_stays_unknown() -> None:
    matrix = spiky([1.0, 1.1, 0.9], 12)
    matrix[5:, 1] = np.nan
    never = np.column_stack([matrix, np.full(12, np.nan)])
    found = without_spikes(never)
    assert (np.isnan(found) == np.isnan(never)).all()
    assert found[:, :3] == pytest.approx(without_spikes(matrix), nan_ok=True)


@pytest.mark.parametrize("matrix", [
    np.empty((0, 3)), observed([1.0, 2.0], 4, sigma=0.1), observed([1.0], 9, sigma=0.1),
    observed([1.0, 2.0], 9), np.full((6, 2), np.nan),
])  # fmt: skip
def test_where_nothing_tells_a_spike_the_worlds_stay_as_they_are(matrix: FloatArray) -> None:
    np.testing.assert_array_equal(without_spikes(matrix), matrix)


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
