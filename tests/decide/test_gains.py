import itertools

import numpy as np
import pytest
from scipy import stats

from testing.known import known
from tests.decide.observed import observed
from tuner.decide.gains import (
    LOW_SHARE,
    PRIOR_FREEDOM,
    AnalysedBlocks,
    BlockGains,
    Gains,
)  # fmt: skip
from tuner.decide.statistics import FloatArray, Interval, without_spikes

EPSILON = float(np.log1p(0.03))


def gain(
    matrix: FloatArray, *looks: tuple[int, float], rival: int = 1, rivals: int = 1
) -> Interval:
    return known(compared(matrix, *looks, rivals=rivals).gain(rival, 0))


def compared(matrix: FloatArray, *looks: tuple[int, float], rivals: int = 1) -> Gains:
    analysed = [AnalysedBlocks(matrix[:rows], alpha) for rows, alpha in looks]
    return Gains(matrix, 0.95, analysed, rivals)


def test_the_ends_of_one_look_are_students() -> None:
    matrix = observed([1.0, 0.9], 30, sigma=0.1)
    gains, sums = matrix[:, 0] - matrix[:, 1], matrix.sum(axis=1)
    own, both = gains.var(ddof=1), sums.var(ddof=1)
    # The variance of the sums counts for four more blocks, and for less where it is another.
    alike = min(own / both, both / own) ** 2 * PRIOR_FREEDOM
    error = np.sqrt((28 * own + alike * both) / (28 + alike) / 30)
    found, student = gain(matrix, (30, 0.05)), stats.t(28 + alike)
    assert found.estimate == pytest.approx(gains.mean())
    low = gains.mean() - student.isf(LOW_SHARE * 0.05) * error
    assert found.low == pytest.approx(low, rel=1e-4)
    high = gains.mean() + student.isf((1 - LOW_SHARE) * 0.05) * error
    assert found.high == pytest.approx(high, rel=1e-4)


def test_the_rivals_measured_by_a_look_share_its_lower_ends_and_no_upper_end() -> None:
    matrix = observed([1.0, 0.9, 0.9, 0.9], 60, sigma=0.1)
    matrix[:30, 2:] = np.nan  # the first rival is measured alone, then the others are
    matrix[30:, 1] = np.nan
    looks = (30, 0.02), (60, 0.02)
    alone, two, three = (
        [gain(matrix, *looks, rival=rival, rivals=most) for rival in (1, 2)] for most in (1, 2, 3)
    )
    assert (alone[0].low, two[0].low) == (two[0].low, three[0].low)
    # The data has chosen who is no more measured: it shares them, too.
    assert alone[1].low > two[1].low > three[1].low
    assert alone[1].high == two[1].high == three[1].high


def test_an_interval_says_of_how_many_comparisons_it_holds_at_once() -> None:
    found = compared(observed([1.0, 0.9, 0.8], 30, sigma=0.1), (30, 0.05), rivals=20)
    told = [found.gain(1, 0), found.gain(0, 1), found.gain(2, 1)]
    assert {known(each).exp().inverse().comparisons for each in told} == {20}
    assert known(found.compare(2, 0)).ratio.comparisons == 20
    assert known(found.alone(2, 0)).ratio.comparisons == 1
    assert known(found.difference((2, 0), (1, 0), 6)).comparisons == 6


def test_what_a_trial_gains_does_not_depend_on_where_it_stands() -> None:
    matrix = observed([1.0, 0.9, 0.8, 1.2], 30, sigma=0.1, drift=0.1)
    matrix[np.random.default_rng(0).random(matrix.shape) < 0.3] = np.nan
    looks = (6, 0.01), (14, 0.01), (30, 0.02)
    for order in itertools.permutations((1, 2, 3)):
        moved = compared(matrix[:, [0, *order]], *looks)
        for place, rival in enumerate(order, 1):
            found = known(compared(matrix, *looks).gain(rival, 0))
            here = known(moved.gain(place, 0))
            expected = (found.estimate, found.low, found.high)
            assert (here.estimate, here.low, here.high) == pytest.approx(expected)


def test_what_a_look_has_shown_stays_shown() -> None:
    matrix = observed([1.0, 1.1], 60, sigma=0.02)
    early = gain(matrix, (30, 0.02))
    # Later it is much better; as if the machine had changed.
    matrix[30:, 1] -= 0.2
    both = gain(matrix, (30, 0.02), (60, 0.02))
    assert max(early.high, both.high) <= EPSILON
    assert both.low <= both.estimate <= both.high
    # A look without more blocks spends its alpha on the upper end of these.
    matrix[30:, 1] = np.nan
    again = gain(matrix, (30, 0.02), (60, 0.02))
    assert again.low == gain(matrix, (30, 0.02)).low
    assert again.high == pytest.approx(gain(matrix, (30, 0.04)).high)


def test_few_blocks_or_no_alpha_give_no_interval() -> None:
    matrix = observed([1.0, 1.1], 60, sigma=0.02)
    for looks in ([], [(1, 0.05)], [(60, 0.0)]):
        assert compared(matrix, *looks).gain(1, 0) is None
    assert BlockGains.of(matrix[:1], 0).interval(1, 0.05, 0.05) is None


def test_the_spread_of_the_others_is_pooled() -> None:
    matrix = observed([1.0, 0.9, 0.8], 4, sigma=0.1)
    noise = observed([1.0], 4, sigma=0.1, seed=1)[:, 0]
    others = [matrix[:, 0] - matrix[:, 2], noise]
    variance, freedom = (
        other[1] for other in AnalysedBlocks(matrix, 0.05, noise).spread_of_others(0)
    )
    assert variance == pytest.approx(np.mean([other.var(ddof=1) for other in others]))
    assert freedom == 3
    # However many there are, they count for no more than so many blocks.
    many = observed([1.0] * 30, 4, sigma=0.1)
    assert AnalysedBlocks(many, 0.05).spread_of_others(0).freedom[1] == PRIOR_FREEDOM
    one = AnalysedBlocks(matrix[:1], 0.05).spread_of_others(0)
    assert not one.freedom.any()


def assert_covered(found: list[Interval], low: float, high: float) -> None:
    """No end misses 0 more often than by three standard errors of the runs above its level."""
    missed = sum(each.low > 0 for each in found), sum(each.high < 0 for each in found)
    for count, level in zip(missed, (low, high), strict=True):
        assert count <= len(found) * level + 3 * np.sqrt(len(found) * level)


@pytest.mark.parametrize("blocks", [2, 6])
def test_few_blocks_cover_rivals_that_vary_unlike_each_other(blocks: int) -> None:
    rng, found = np.random.default_rng(blocks), []
    for _ in range(2000):
        spreads = 0.07 * np.exp(0.4 * rng.standard_normal(6))
        matrix = spreads * rng.standard_normal((blocks, 6))
        found.append(gain(matrix, (blocks, 0.05), rivals=5))
    assert_covered(found, LOW_SHARE * 0.05 / 5, (1 - LOW_SHARE) * 0.05)


@pytest.mark.parametrize("blocks", [3, 4, 6, 12])
@pytest.mark.parametrize("of_blocks", [0.0, 0.1, 0.4])
def test_few_blocks_cover_an_only_rival_however_much_these_differ(
    blocks: int, of_blocks: float
) -> None:
    rng, found = np.random.default_rng(blocks), []
    for _ in range(4000):
        matrix = 0.1 * np.array([1.0, 1.5]) * rng.standard_normal((blocks, 2))
        matrix += of_blocks * rng.standard_normal((blocks, 1))
        found.append(gain(without_spikes(matrix), (blocks, 0.05)))
    assert_covered(found, LOW_SHARE * 0.05, (1 - LOW_SHARE) * 0.05)
    # Where blocks are alike, they say as much as blocks with other rivals would.
    gains, moderated = matrix[:, 0] - matrix[:, 1], AnalysedBlocks(matrix, 0.05).gains_over(0)
    assert moderated.others.freedom[1] < (0.1 if of_blocks > 0.3 else PRIOR_FREEDOM + 1e-9)
    assert gains.var(ddof=1) == pytest.approx(moderated.variance[1])


@pytest.mark.parametrize("blocks", [4, 20])
def test_a_rival_that_varies_five_times_as_much_has_an_interval_of_its_own(blocks: int) -> None:
    rng, found = np.random.default_rng(blocks), []
    for _ in range(1000):
        matrix = 0.03 * np.array([1.0] * 5 + [5.0]) * rng.standard_normal((blocks, 6))
        found.append(gain(without_spikes(matrix), (blocks, 0.05), rival=5, rivals=5))
    # Its lower end may use what the rivals share, since no other of them can be wrong by it.
    assert_covered(found, 1.5 * LOW_SHARE * 0.05, 1.5 * (1 - LOW_SHARE) * 0.05)


@pytest.mark.parametrize("times", [[1.0] * 4, [1.0, *[1 / 1.0301] * 3]])
def test_claims_are_seldom_wrong_whoever_is_chosen(times: list[float]) -> None:
    """The best of several rivals is claimed better, or all of them no better than by epsilon."""
    better = keep = uncovered = 0
    runs, looks = 300, [(8, 0.001), (14, 0.004), (25, 0.01), (40, 0.025)]
    truth = -np.log(times)
    for seed in range(runs):
        matrix = observed(times, 40, sigma=0.08, seed=seed)
        found = {rival: gain(matrix, *looks, rival=rival, rivals=3) for rival in (1, 2, 3)}
        best = max(found, key=lambda rival: found[rival].estimate)
        better += found[best].low > 0 and truth[best] <= 0
        keep += all(each.high <= EPSILON for each in found.values()) and max(truth) > EPSILON
        uncovered += not found[best].low <= truth[best] <= found[best].high
    # All looks spend 0.04; three standard errors of 300 runs.
    assert (better + keep) / runs <= 0.04 + 0.034
    assert uncovered / runs <= 0.04 + 0.034
