"""What Optuna's own tools compare trials by."""

from dataclasses import replace

import pytest

from tests.plan.specs import threads
from tests.present.results import failed, measured
from tuner.decide.statistics import Interval
from tuner.plan.objectives import METRIC, OBJECTIVES
from tuner.study.rows import Paired, TrialRow, comparable_values

STEP_MS = OBJECTIVES["step_ms"]


def paired(row: TrialRow, ratio: float) -> TrialRow:
    return replace(row, against_baseline=Paired(Interval(ratio, ratio, ratio), 4))


BASELINE = paired(measured(0, threads(16), 3.0), 1.0)


def test_what_was_measured_in_good_moments_alone_is_not_the_best() -> None:
    lucky = paired(measured(1, threads(8), 1.0, outcome="eliminated"), 0.5)
    steady = paired(measured(2, threads(4), 2.0), 1.5)
    values = comparable_values([steady, BASELINE, lucky], STEP_MS)
    assert values == {0: 3.0, 1: pytest.approx(6.0), 2: pytest.approx(2.0)}
    assert min(values, key=values.__getitem__) == 2


def test_more_is_better_where_the_objective_says_so() -> None:
    more = replace(METRIC, maximize=True)
    assert comparable_values([BASELINE, paired(measured(1, threads(8), 9.0), 2.0)], more)[1] == 6.0


def test_what_no_block_has_beside_the_baseline_has_its_own_value() -> None:
    alone = measured(1, threads(8), 1.0)
    assert comparable_values([BASELINE, alone], STEP_MS)[1] == 1.0
    assert comparable_values([failed(0, threads(16)), alone], STEP_MS) == {1: 1.0}
