import math

import numpy as np
import pytest
from scipy import stats

from tuner.decide.statistics import (
    Interval,
    differences,
    interval,
    paired_ratio,
    typical,
)


def test_typical_is_not_moved_by_spikes() -> None:
    assert typical(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 99.0])) == 1.0


def test_interval_of_few_values_is_students() -> None:
    values = np.array([0.1, 0.3, 0.2, 0.6])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    found = interval(values, 0.9)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.estimate == pytest.approx(0.3)


def test_interval_of_more_values_is_yuens_with_one_degree_of_freedom_less() -> None:
    values = np.array([0.3, 0.1, 0.2, 0.6, 0.25, 0.15, 0.9, 0.35, 0.05, 0.4])
    kept, winsorized = np.sort(values)[2:8], np.clip(values, 0.15, 0.4)
    error = np.sqrt(9 * winsorized.var(ddof=1) / (6 * 5))
    reach = stats.t(4).ppf(0.95) * error
    found = interval(values, 0.9)
    assert found is not None
    assert found.estimate == pytest.approx(stats.trim_mean(values, 0.2))
    assert found.estimate == pytest.approx(kept.mean())
    assert (found.low, found.high) == pytest.approx(
        (found.estimate - reach, found.estimate + reach)
    )


def test_interval_needs_two_values() -> None:
    assert interval(np.array([]), 0.95) is None
    assert interval(np.array([1.0]), 0.95) is None


def test_equal_values_have_an_interval_without_width() -> None:
    assert interval(np.full(6, 0.25), 0.95) == Interval(0.25, 0.25, 0.25)


def test_the_inverse_of_a_ratio_turns_its_ends_round() -> None:
    assert Interval(2.0, 1.6, 2.5).inverse() == Interval(0.5, 0.4, 0.625)
    assert Interval(1.0, 0.0, math.inf).inverse() == Interval(1.0, 0.0, math.inf)


def test_exp_turns_logarithms_into_ratios() -> None:
    found = Interval(0.0, -0.1, 0.1).exp()
    assert (found.estimate, found.low, found.high) == (1.0, math.exp(-0.1), math.exp(0.1))


def test_a_gain_turned_round_is_the_inverse_ratio() -> None:
    found = Interval(0.5, 0.2, 0.9)
    assert -found == Interval(-0.5, -0.9, -0.2)
    assert (-found).exp().high == pytest.approx(1 / found.exp().low)


def test_differences_pair_the_blocks_that_have_both() -> None:
    slower = np.array([1.0, np.nan, 3.0, 4.0])
    faster = np.array([0.5, 1.0, np.nan, 1.0])
    assert differences(slower, faster).tolist() == [0.5, 3.0]


def test_autocorrelated_differences_are_averaged_in_pairs() -> None:
    drifting = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    found = differences(drifting, np.zeros(9))
    assert found.tolist() == pytest.approx([0.05, 0.25, 0.45, (0.6 + 0.7 + 0.8) / 3])


def test_alternating_differences_are_left_alone() -> None:
    alternating = np.array([0.1, -0.1] * 5)
    assert len(differences(alternating, np.zeros(10))) == 10


def test_a_ratio_is_that_of_the_blocks_that_have_both() -> None:
    drift = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    fast = drift + np.array([0.01, -0.01, 0.0, 0.01, math.nan])
    slow = drift + math.log(1.5)
    found = paired_ratio(slow, fast, 0.95)
    assert found is not None
    assert found.low < 1.5 < found.high < 1.04 * found.low
    # Without pairs the drift would be all that there is.
    alone = interval(slow, 0.95)
    assert alone is not None
    assert alone.high - alone.low > 3.0


def test_a_ratio_of_one_block_may_be_any_and_without_a_block_there_is_none() -> None:
    one, other = np.array([math.log(3.0), math.nan]), np.array([0.0, 1.0])
    found = paired_ratio(one, other, 0.95)
    assert found is not None
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.estimate == pytest.approx(3.0)
    assert paired_ratio(one[1:], other[1:], 0.95) is None
