"""One number per trial that compares it with the others: what Optuna's own tools are given."""

import math
from collections.abc import Sequence

from tuner.plan.objectives import Objective
from tuner.study.log import BASELINE
from tuner.study.trial_row import TrialRow


def comparable_values(rows: Sequence[TrialRow], objective: Objective) -> dict[int, float]:
    """The objective of each measured trial by number, in its unit, paired with the baseline's.

    It is what the trial would have taken in the baseline's blocks. A trial that left the search
    early was measured in few of them, and its mean may be of good moments alone. Where no block
    has both it is the trial's own value.

    Args:
        rows: The rows of a study.
        objective: The one that is compared.
    """
    measured = {row.trial: row for row in rows if not math.isnan(row.value)}
    baseline = measured.get(BASELINE)
    return {
        trial: row.value
        if baseline is None or row.against_baseline is None
        else _times_as_good(objective, baseline.value, row.against_baseline.ratio.estimate)
        for trial, row in measured.items()
    }


def _times_as_good(objective: Objective, value: float, ratio: float) -> float:
    return value * ratio if objective.maximize else value / ratio
