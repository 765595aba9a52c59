"""What the worlds of a study show about its rivals: which of them cannot be much better."""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.exclusion import excluded
from tuner.decide.statistics import FloatArray
from tuner.study.log import BASELINE, StudyLog

# The upper end of the challenger's interval spends the other half.
_SHARE = 0.5
DOMINATED_RATIO = 2.5
"""A configuration whose first world took so many times as long as is usual is not measured again.
"""
_ERRORS = 2.0


def exclusion_alpha(log: StudyLog) -> float:
    """What all looks at the rivals may spend together."""
    return _SHARE * log.rules.alpha


def not_excluded(log: StudyLog, best: int) -> list[int]:
    """The trials that may be more than epsilon better than `best`, as far as measured.

    Compared with the baseline, the challenger is not among them: the confirmation tells of it.
    Compared with a challenger that is better, the baseline is not.
    """
    confirmation = log.confirmation
    challenger = confirmation.challenger if confirmation else None
    rivals = [trial for trial in log.compared if trial not in (best, BASELINE, challenger)]
    found = excluded(
        log.matrix("race", "confirmation"),
        best,
        rivals,
        log.exclusion_looks,
        log.rules.log_epsilon,
        shared_by=1 if best == BASELINE else max(1, len(log.configs) - 1),
    )
    found |= {trial for trial in rivals if behind_in_first_world(log, trial, best) is not None}
    return [trial for trial in rivals if trial not in found]


def behind_in_first_world(log: StudyLog, trial: int, reference: int) -> float | None:
    """How many times as long as that of a reference the first world's steps of a trial took.

    None unless it is 2.5 times at least, the interval of the steps included, and no block has
    measured the trial.
    """
    first, other = log.calibration(trial), log.calibration(reference)
    if first is None or other is None or log.samples(trial):
        return None
    objective = log.plan.objective
    values = [objective.read(each) for each in (first, other)]
    if objective.traced or None in values:
        return None
    behind = objective.cost(objective.value(first)) - objective.cost(objective.value(other))
    error = math.hypot(_error(first.step_s), _error(other.step_s))
    if behind - _ERRORS * error <= math.log(DOMINATED_RATIO):
        return None
    return math.exp(behind)


def paired(log: StudyLog, trials: Sequence[int]) -> FloatArray:
    """log(objective) in the blocks that have all of these trials, blocks x trials."""
    chosen = log.matrix("race", "confirmation")[:, list(trials)]
    whole: FloatArray = chosen[~np.isnan(chosen).any(axis=1)]
    return whole


def _error(step_s: Sequence[float]) -> float:
    """The standard error of log(median step time); 0 where there is a single step, or none."""
    if len(step_s) < 2:
        return 0.0
    return math.sqrt(math.pi / 2 * float(np.log(step_s).var(ddof=1)) / len(step_s))
