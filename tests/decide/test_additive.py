import math

import numpy as np
import pytest

from tuner.decide.additive import trial_levels

NAN = math.nan


def test_a_slow_block_is_slow_for_all_of_its_trials() -> None:
    # The second block was slow by 1: trial 2 is really as fast as the baseline.
    levels = trial_levels(np.array([[0.0, 0.5, NAN], [1.0, NAN, 1.0]]))
    assert levels[1] - levels[0] == pytest.approx(0.5)
    assert levels[2] - levels[0] == pytest.approx(0.0)


def test_levels_are_those_planted_whatever_block_a_trial_was_in() -> None:
    random = np.random.default_rng(0)
    trials, blocks = random.normal(size=12), random.normal(size=20)
    matrix = blocks[:, None] + trials
    # The baseline is in every block, the others in a third.
    matrix[:, 1:][random.random((20, 11)) > 1 / 3] = NAN
    levels = trial_levels(matrix)
    assert levels - levels[0] == pytest.approx(trials - trials[0], abs=1e-6)


def test_what_was_never_measured_has_no_level() -> None:
    assert np.isnan(trial_levels(np.empty((0, 3)))).all()
    levels = trial_levels(np.array([[1.0, NAN], [2.0, NAN]]))
    assert np.isnan(levels).tolist() == [False, True]
