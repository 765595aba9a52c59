"""The first world of each configuration, and what is traced when."""

import math
from collections.abc import Sequence

from tuner.searching.confirming import next_challenger
from tuner.searching.measurer import Measurer
from tuner.searching.runner import LEAST_PAIRS, TRACED_TIME_S
from tuner.study.evidence import behind_in_first_world
from tuner.study.log import BASELINE, StudyLog
from tuner.text import three_digits

# Of the budget, for all traces.
MOST_TRACED = 0.15
# Of the budget, what the confirmation leaves for the traces of the others.
KEPT_FOR_TRACES = 0.05
# An event names no more than these.
_NAMED = 5


def calibrate(measurer: Measurer) -> None:
    """Run each configuration once, the baseline first, as far as the budget goes.

    What fails is out. What there is no time for is eliminated: one block and two pairs of those
    that ran before must remain possible.
    """
    log = measurer.log
    measurer.begin("calibration")
    for trial in log.alive:
        # A larger budget may have time for what an earlier session had none for.
        if log.calibration(trial) is None and trial in log.eliminated:
            measurer.readmit(trial)
    for trial in log.candidates:
        if log.calibration(trial) is not None:
            continue
        # Only what runs: what failed or hung must not use up the time that the others need.
        runnable = log.runnable
        least_s = measurer.block_s(runnable) + LEAST_PAIRS * measurer.block_s(runnable[:2])
        if runnable and measurer.budget.remaining_s < least_s:
            measurer.eliminate(trial, "not measured: the budget was spent before its turn")
        else:
            measurer.calibrate(trial)
    _drop_dominated(measurer)


def _drop_dominated(measurer: Measurer) -> None:
    """Take out what one world has shown to be far behind; never the fastest of the rivals."""
    log = measurer.log
    cost = {trial: log.first_cost(trial) for trial in log.runnable}
    rivals = sorted((trial for trial in cost if trial != BASELINE), key=cost.__getitem__)
    ordered = sorted(cost, key=cost.__getitem__)
    if len(rivals) < 2:
        return
    # One lucky world must not drop the others: what is usual is the median, or the baseline.
    usual = ordered[len(ordered) // 2]
    if BASELINE in cost and cost[BASELINE] < cost[usual]:
        usual = BASELINE
    for trial in rivals[1:]:
        behind = behind_in_first_world(log, trial, usual)
        if behind is not None and trial not in log.eliminated:
            measurer.eliminate(
                trial, f"{three_digits(behind)} times as slow as {log.configs[usual]} in one world"
            )


def trace_contenders(measurer: Measurer) -> None:
    """Trace the baseline and its strongest rival with their operators, before they are compared."""
    log = measurer.log
    challenger = log.confirmation.challenger if log.confirmation else None
    if challenger is None or challenger in log.failures:
        challenger = next_challenger(measurer)
    contenders = [trial for trial in (BASELINE, challenger) if trial in log.runnable]
    pairs_s = LEAST_PAIRS * log.block_s(contenders)
    _trace(measurer, [trial for trial in contenders if trial is not None], pairs_s, operators=True)
    rest = [trial for trial in log.runnable if log.traced(trial) is None]
    measurer.reserved_s = min(
        KEPT_FOR_TRACES * measurer.budget.total_s, sum(_trace_s(log, trial) for trial in rest)
    )


def trace_rest(measurer: Measurer) -> None:
    """Trace the others in the time that is left: their calls alone, the fastest first."""
    log = measurer.log
    measurer.reserved_s = 0.0
    ranked = sorted(log.runnable, key=lambda trial: log.value(trial) or math.inf)
    _trace(measurer, ranked, 0.0, operators=False)


def _trace(measurer: Measurer, trials: Sequence[int], kept_s: float, *, operators: bool) -> None:
    """Trace these, while that takes no more than its share of the budget and leaves `kept_s`."""
    log, budget = measurer.log, measurer.budget
    measurer.begin("trace")
    untraced = []
    for trial in trials:
        if log.traced(trial) is not None:
            continue
        trace_s = _trace_s(log, trial)
        left_s = min(MOST_TRACED * budget.total_s - log.traced_s, budget.remaining_s - kept_s)
        if left_s < trace_s:
            untraced.append(str(log.configs[trial]))
        else:
            measurer.trace(trial, operators=operators)
    if untraced:
        measurer.observer.on_event(
            f"not traced, for lack of time: {'; '.join(untraced[:_NAMED])}"
            + (f" and {len(untraced) - _NAMED} more" if len(untraced) > _NAMED else "")
        )


def _trace_s(log: StudyLog, trial: int) -> float:
    return log.world_s(trial) + TRACED_TIME_S
