"""The first world of each configuration, and what is traced when."""

import math
from collections.abc import Sequence

from tuner.decide.simultaneous import LEAST_BLOCKS
from tuner.searching.giving_up import (
    deadlocks,
    is_tried_again,
    most_different_first,
    why_broken,
)
from tuner.searching.measurer import Measurer
from tuner.searching.runner import TRACED_TIME_S
from tuner.study.evidence import behind_in_first_world, strongest_rival
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import AGAIN
from tuner.text import distance, first_of

# Of the budget, for all traces.
MOST_TRACED = 0.15
# Of the budget, what blocks leave for the traces of the others.
KEPT_FOR_TRACES = 0.05
# An event names no more than these.
_NAMED = 5


def calibrate(measurer: Measurer) -> None:
    """Run each configuration once, the baseline first, as far as the budget goes.

    What fails is tried again after the others, and out if it never runs. What there is no time for
    is eliminated: the fewest blocks that compare those that ran before must remain possible.
    """
    log = measurer.log
    measurer.begin("calibration")
    for trial in log.alive:
        # A larger budget may have time for what an earlier session had none for.
        if log.calibration(trial) is None and trial in log.eliminated:
            measurer.readmit(trial)
    again = [trial for trial in log.failures if _is_tried_again(measurer, trial)]
    untried = [trial for trial in log.candidates if log.calibration(trial) is None]
    calibrate_each(measurer, [*untried, *again])
    _drop_dominated(measurer)


def calibrate_each(measurer: Measurer, trials: Sequence[int]) -> None:
    """Run the first world of each of these trials that may run, as far as the budget goes.

    What is left out is eliminated, and told in one line for each reason.
    """
    log, left, skipped = measurer.log, list(trials), dict[str, list[int]]()
    while left:
        if not log.runnable:
            left = most_different_first(log, left)
        trial = left.pop(0)
        reason = _why_not(measurer, trial)
        if not reason and not measurer.calibrate(trial):
            reason = "the budget was spent before its first world was done"
        if reason and trial not in log.failures:
            skipped.setdefault(reason, []).append(trial)
        elif not reason and _is_tried_again(measurer, trial):
            left.append(trial)
    for reason, those in skipped.items():
        measurer.eliminate_silently(dict.fromkeys(those, reason))
        some = first_of([str(log.configs[trial]) for trial in those], _NAMED)
        measurer.observer.on_event(f"not measured, {reason}: {some}")


def _is_tried_again(measurer: Measurer, trial: int) -> bool:
    return is_tried_again(measurer.log, trial, measurer.budget.total_s)


def _why_not(measurer: Measurer, trial: int) -> str:
    """Why a trial is not worth a first world, as a clause; empty if it is."""
    log = measurer.log
    if log.failures and why_broken(log):
        return "all that were tried failed alike"
    for deadlock in deadlocks(log):
        if deadlock.holds_for(log.configs[trial], log.plan):
            return str(deadlock)
    # Only what runs: what failed or hung must not use up the time that the others need.
    runnable = log.runnable
    least_s = LEAST_BLOCKS * log.block_s([AGAIN, *runnable]) if runnable else 0.0
    spent = measurer.budget.remaining_s < least_s or measurer.budget.is_spent
    return "the budget was spent before its turn" if spent and trial != BASELINE else ""


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
                trial, f"{distance(behind)} behind {log.configs[usual]} in one world"
            )


def traces_s(log: StudyLog, budget_s: float) -> float:
    """Seconds that blocks leave for traces: of two contenders, and for a while of the others."""
    untraced = sorted(_trace_s(log, trial) for trial in log.runnable if log.traced(trial) is None)
    contenders_s = sum(untraced[-2:])
    return min(
        MOST_TRACED * budget_s - log.traced_s,
        contenders_s + min(KEPT_FOR_TRACES * budget_s, sum(untraced[:-2])),
    )


def trace(measurer: Measurer) -> None:
    """Trace the baseline and its strongest rival with their operators, then the others' calls.

    The best come first, as far as the time goes.
    """
    log = measurer.log
    measurer.reserved_s = 0.0
    rival = strongest_rival(log)
    contenders = [t for t in (BASELINE, rival) if t is not None and t in log.runnable]
    total_s = measurer.budget.total_s
    _trace(measurer, contenders, MOST_TRACED * total_s, operators=True)
    if measurer.measuring.until_clear:
        # Of a limit that was not needed, nothing is a share.
        total_s = measurer.budget.spent_s
    ranked = sorted(log.runnable, key=lambda trial: _cost(log, trial))
    # Who had no time as a contender has none now.
    untraced = _trace(measurer, ranked, MOST_TRACED * total_s, operators=False)
    if untraced:
        some = first_of([str(log.configs[trial]) for trial in untraced], _NAMED, separator="; ")
        measurer.observer.on_event(f"not traced, for lack of time: {some}")


def _trace(
    measurer: Measurer, trials: Sequence[int], most_s: float, *, operators: bool
) -> list[int]:
    """Trace these, while all traces take no more than `most_s`; returns those without the time."""
    log, budget = measurer.log, measurer.budget
    measurer.begin("trace")
    untraced = []
    for trial in trials:
        if log.traced(trial) is not None:
            continue
        trace_s = _trace_s(log, trial)
        left_s = min(most_s - log.traced_s, budget.remaining_s)
        if left_s < trace_s:
            untraced.append(trial)
        else:
            measurer.trace(trial, operators=operators)
    return untraced


def _cost(log: StudyLog, trial: int) -> float:
    """What is less for the better of two; infinite where nothing counts."""
    value = log.value(trial)
    return math.inf if value is None else log.plan.objective.cost(value)


def _trace_s(log: StudyLog, trial: int) -> float:
    return log.world_s(trial) + TRACED_TIME_S
