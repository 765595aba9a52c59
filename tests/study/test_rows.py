"""What Optuna's own tools compare trials by."""

from dataclasses import replace

import pytest

from testing.results import failed, measured
from testing.specs import threads
from tuner.decide.gains import Paired
from tuner.decide.statistics import Interval
from tuner.plan.objectives import METRIC, OBJECTIVES
from tuner.study.rows import TrialRow, comparable_values


def paired(row: TrialRow, ratio: float) -> TrialRow:
    return replace(row, against_baseline=Paired(Interval(ratio, ratio, ratio), 4))


def test_trials_are_compared_by_what_they_would_take_in_the_baselines_blocks() -> None:
    baseline, step_ms = paired(measured(0, threads(16), 3.0), 1.0), OBJECTIVES["step_ms"]
    # What was measured in good moments alone is not the best.
    lucky = paired(measured(1, threads(8), 1.0, outcome="eliminated"), 0.5)
    steady = paired(measured(2, threads(4), 2.0), 1.5)
    values = comparable_values([steady, baseline, lucky], step_ms)
    assert values == {0: 3.0, 1: pytest.approx(6.0), 2: pytest.approx(2.0)}
    more = replace(METRIC, maximize=True)
    assert comparable_values([baseline, paired(measured(1, threads(8), 9.0), 2.0)], more)[1] == 6.0
    # What no block has beside the baseline has its own value.
    alone = measured(1, threads(8), 1.0)
    assert comparable_values([baseline, alone], step_ms)[1] == 1.0
    assert comparable_values([failed(0, threads(16)), alone], step_ms) == {1: 1.0}
