"""The rows of a study's table: what became of each trial, in the order of the table."""

import math

import numpy as np

from tuner.decide.statistics import interval
from tuner.study.conclusion import Conclusion
from tuner.study.evidence import gain_of
from tuner.study.log import BASELINE, StudyLog
from tuner.study.paired import PairedTrials
from tuner.study.trial_row import Paired, TrialRow
from tuner.text import MOST_TELLING
from tuner.world.measurement import Failure, Measurement


def rows_of(
    log: StudyLog, conclusion: Conclusion | None, trials: PairedTrials
) -> tuple[TrialRow, ...]:
    """The rows: the fastest first, as compared with the baseline within blocks.

    Args:
        log: What was measured.
        conclusion: What the log says; None for a study that has no conclusion.
        trials: How any two trials compare.
    """
    paired = _against_baseline(log, trials)
    tied = frozenset[int]() if conclusion is None else conclusion.tied
    rows = [_row(log, trial, paired[trial], trial in tied) for trial in range(len(log.configs))]
    cost = log.plan.objective.cost

    def rank(row: TrialRow) -> tuple[bool, bool, bool, float, int]:
        """The best first, then what breaks a limit; what failed or was not measured last."""
        behind = 0.0
        if row.against_baseline is not None:
            behind = -math.log(row.against_baseline.ratio.estimate)
        elif row.is_measured:
            behind = cost(row.value)
        alone = row.against_baseline is None
        return not row.is_measured, bool(row.broken), alone, behind, row.trial

    return tuple(sorted(rows, key=rank))


def _against_baseline(log: StudyLog, trials: PairedTrials) -> list[Paired | None]:
    """How each trial compares with the baseline: as it was tested, or else as far as measured."""
    if BASELINE in log.failures:
        return [None] * len(log.configs)
    found = [trials.compare(trial, BASELINE) for trial in range(len(log.configs))]
    return [_as_tested(log, trial, each) for trial, each in enumerate(found)]


def _as_tested(log: StudyLog, trial: int, found: Paired | None) -> Paired | None:
    if found is None or trial == BASELINE:
        return found
    tested = gain_of(log, trial)
    return found if tested is None else Paired(tested.exp(), found.blocks)


def _row(log: StudyLog, trial: int, paired: Paired | None, tied: bool) -> TrialRow:
    failure, broken = log.why_out(trial), tuple(log.broken(trial))
    values = log.values(trial)
    log_spread = interval(np.log(values), log.rules.confidence) if values else None
    spread = log_spread.exp() if log_spread else None
    if spread is not None and spread.spans_more_than(MOST_TELLING):
        spread = None  # two worlds that differ: it tells nothing
    return TrialRow(
        trial=trial,
        config=log.configs[trial],
        outcome=log.outcome(trial),
        failure=failure.message if failure else None,
        samples=len(values),
        worlds_run=log.ran(trial) + len(log.failed(trial)),
        worlds_failed=len(log.failed(trial)),
        unreliable=trial in log.unreliable,
        value=log.value(trial) or math.nan,
        ci_low=spread.low if spread else math.nan,
        ci_high=spread.high if spread else math.nan,
        against_baseline=paired,
        metrics=log.metrics(trial),
        diagnosis=_diagnosis(log.traced(trial)),
        enough_threads=_enough_threads(log.traced(trial)),
        tied_with_best=tied and failure is None and not broken,
        broken=broken,
        eliminated=None if failure else log.eliminated.get(trial),
    )


def _diagnosis(traced: Measurement | Failure | None) -> str | None:
    """What a trace showed, and what it lacks; or why there is no trace."""
    if isinstance(traced, Failure):
        return f"No trace: {traced.message}."
    if traced is None or traced.trace is None:
        return None
    return " ".join([traced.trace.diagnosis, *(f"Note: {loss}." for loss in traced.trace.losses)])


def _enough_threads(traced: Measurement | Failure | None) -> tuple[str, ...]:
    if isinstance(traced, Measurement) and traced.trace is not None:
        return traced.trace.enough_threads
    return ()
