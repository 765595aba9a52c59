import numpy as np
import pytest

from tests.decide.observed import observed
from tuner.decide.spikes import without_spikes
from tuner.decide.statistics import FloatArray


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
    for seed in range(100):
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
