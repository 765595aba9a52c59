import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.known import known
from tests.decide.observed import observed
from tuner.decide.additive import Levels, Pooled, trial_levels, variance_shares
from tuner.decide.statistics import FloatArray

NAN = math.nan
THREADS, BINDINGS = 6, 2
GRID = [(binding, threads) for binding in range(BINDINGS) for threads in range(THREADS)]
seeds = st.integers(0, 10_000)
LOGS = [math.log(value) for value in (8.0, 8.0, 4.0, 4.0)]


def simulated(levels: FloatArray, sigma: float, seed: int, blocks: int = 10) -> FloatArray:
    return observed(np.exp(levels), blocks, sigma, 0.1, seed)


def added_up(seed: int) -> FloatArray:
    random = np.random.default_rng(seed)
    one, other = random.normal(0, 0.1, BINDINGS), random.normal(0, 0.1, THREADS)
    return np.array([one[binding] + other[threads] for binding, threads in GRID])


def pooled(matrix: FloatArray, points: list[tuple[int, int]]) -> Pooled | None:
    return Levels.of(matrix, points).together


def test_levels_are_those_planted_whatever_block_a_trial_was_in() -> None:
    random = np.random.default_rng(0)
    trials, blocks = random.normal(size=12), random.normal(size=20)
    matrix = blocks[:, None] + trials
    # The baseline is in every block, the others in a third.
    matrix[:, 1:][random.random((20, 11)) > 1 / 3] = NAN
    levels = trial_levels(matrix)
    assert levels - levels[0] == pytest.approx(trials - trials[0], abs=1e-6)


def test_pooled_levels_of_knobs_that_add_up_are_nearer_to_the_truth() -> None:
    errors = []
    for seed in range(60):
        truth = added_up(seed)
        matrix = simulated(truth, 0.1, seed)
        found = known(pooled(matrix, GRID))
        errors.append([np.var(levels - truth) for levels in (found.levels, trial_levels(matrix))])
    together, alone = np.mean(errors, axis=0)
    assert together < 0.75 * alone


@given(seeds, st.floats(0, 0.5))
def test_no_level_moves_further_than_one_standard_error(seed: int, interaction: float) -> None:
    random = np.random.default_rng(seed)
    truth = added_up(seed) + random.normal(0, interaction, len(GRID))
    matrix = simulated(truth, 0.1, seed)
    matrix[4:, random.choice(len(GRID), 3, replace=False)] = NAN
    found, alone = pooled(matrix, GRID), trial_levels(matrix)
    assert found is not None
    left = matrix - alone
    left -= np.nanmean(left, axis=1, keepdims=True)
    counts = (~np.isnan(matrix)).sum(axis=0)
    error = np.sqrt(np.nansum(left**2) / (counts.sum() - sum(matrix.shape) + 1) / counts)
    assert (np.abs(found.levels - alone) <= error + 1e-9).all()


def test_a_single_knob_and_too_little_data_are_not_pooled() -> None:
    matrix = simulated(np.zeros(THREADS), 0.1, 0)
    assert pooled(matrix, [(0, threads) for threads in range(THREADS)]) is None
    for rows in (0, 1):
        assert pooled(matrix[:rows], [(each // 3, each % 3) for each in range(THREADS)]) is None
    # Three of the four corners are any sum of two effects.
    assert pooled(matrix[:, :3], [(0, 0), (0, 1), (1, 0)]) is None


def test_the_gain_over_what_was_not_measured_is_unknown() -> None:
    matrix = simulated(np.zeros(len(GRID)), 0.1, 0)
    matrix[:, 5] = NAN
    found = known(pooled(matrix, GRID))
    assert found.gain(0, 5, 0.05) is None
    # The other way round a gain is the same, turned round.
    assert found.gain(2, 7, 0.05) == -known(found.gain(7, 2, 0.05))
    assert np.flatnonzero(np.isnan(found.levels)).tolist() == [5]


@pytest.mark.parametrize(
    ("factors", "logs", "shares"),
    [
        ({"other": ["a", "b", "a", "b"], "threads": [1, 1, 2, 2]}, LOGS,
         {"threads": 1.0, "other": 0.0}),
        ({"threads": [1, 2]}, [0.5, 0.5], {"threads": 0.0}),
        ({"threads": [1, 1, 1, 1]}, LOGS, {"threads": 0.0}),
        ({}, [], {}),
    ],
)  # fmt: skip
def test_a_factor_that_alone_matters_explains_everything(
    factors: dict[str, list[Any]], logs: list[float], shares: dict[str, float]
) -> None:
    found = variance_shares(factors, logs)
    assert found == pytest.approx(shares)
    assert list(found) == list(shares)
