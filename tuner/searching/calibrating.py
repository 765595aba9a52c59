"""The first world of each configuration, which of them need none, and what is traced when."""

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from tuner.decide.gains import LEAST_BLOCKS
from tuner.plan.config import varying
from tuner.searching.measurer import Measurer
from tuner.searching.runner import TRACED_TIME_S
from tuner.study.deadlocks import by_threads, too_few_threads
from tuner.study.evidence import behind_in_first_world, by_promise, strongest_rival
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import AGAIN, MOST_REPEATS
from tuner.text import distance, first_of
from tuner.world.measurement import Measurement
from tuner.world.postmortem import failure_signature

MOST_TRACED = 0.15  # of the budget, for all traces
LATE_SHARE = 0.05  # of the budget: how late one of the first blocks may end
KEPT_FOR_TRACES = 0.05  # of the budget, what blocks leave for the traces of the others
TRACED_FACTOR = 1.5  # a program's run may take so many times as long where it is traced
MOST_NAMED = 5  # an event names no more than these
AGAIN_SHARE = 0.15  # of the budget: so long failures are tried again
LEAST_KNOWN = 2  # failures are enough of what another configuration has failed of every time
# What PyTorch says of a transport or a channel that is not there.
_CERTAIN = re.compile(r"Unknown (transport|channel): |transport '\w*' not in use by this listener")
# So many configurations fail alike, in so many worlds, and none runs: their values are no cause.
LEAST_ALIKE, LEAST_WORLDS = 3, 8


def calibrate(measurer: Measurer) -> None:
    """Run each configuration once, the baseline first, then as a forecast has it, and again at the
    end if it failed; what there is no time for beside the fewest blocks that compare the others is
    eliminated. A program's only challenger has its first world in the first block."""
    log = measurer.log
    if is_new(log) and not has_time_for(measurer, 1):
        return  # Setting up, or a program's run as it is, took it all.
    if (only := _only_challenger(measurer)) is not None:
        measurer.begin("race")
        measurer.measure_block([BASELINE, only])
    measurer.begin("calibration")
    for trial in log.alive:
        # A larger budget may have time for what an earlier session had none for.
        if log.calibration(trial) is None:
            measurer.readmit(trial)
    budget_s = measurer.budget.total_s
    again = [trial for trial in log.failures if is_tried_again(log, trial, budget_s)]
    untried = [trial for trial in log.candidates if log.calibration(trial) is None]
    calibrate_each(measurer, [*by_promise(log, untried), *again])
    _drop_dominated(measurer)


def is_new(log: StudyLog) -> bool:
    """Whether the baseline has had no world yet."""
    return log.calibration(BASELINE) is None and not log.states[BASELINE].never_ran()


def has_time_for(measurer: Measurer, worlds: int) -> bool:
    """Whether there is time for so many worlds like the baseline's first one, which may have been
    traced; where it had none, like a program's run as it is."""
    log, subject, left_s = measurer.log, measurer.plan.subject, measurer.budget.remaining_s
    first, trace = log.calibration(BASELINE), log.trials[BASELINE].trace
    world_s = subject.usual_s
    if first is not None:
        was_traced = isinstance(trace, Measurement) and not trace.world_s
        world_s = first.world_s / (TRACED_FACTOR if was_traced else 1.0)
    return left_s > 0 and worlds * world_s <= left_s + late_s(measurer, world_s)


def late_s(measurer: Measurer, world_s: float) -> float:
    """How late one of the first blocks may end, whose last world takes so long: that has to begin
    in time."""
    return min(LATE_SHARE * measurer.budget.total_s, world_s / 2)


def _only_challenger(measurer: Measurer) -> int | None:
    """What alone is to be compared with a program's baseline, whose first world was run."""
    log = measurer.log
    untried = [trial for trial in log.candidates if log.calibration(trial) is None]
    is_block = (BASELINE, *untried) == log.candidates and len(untried) == 1
    # One that was begun before is finished later.
    if not is_block or log.plan.subject.has_steps or log.blocks("race"):
        return None
    is_possible = has_time_for(measurer, 2) and not _why_not(measurer, untried[0])
    return untried[0] if is_possible else None


def calibrate_each(measurer: Measurer, trials: Sequence[int], *, until_spent: bool = False) -> None:
    """Run the first world of each of these trials that may run; the others are eliminated, and
    reported in one line for each reason. There is to be time for blocks of all, or `until_spent`
    just any."""
    log, left, skipped = measurer.log, list(trials), dict[str, list[int]]()
    while left:
        if log.states[BASELINE].has_deadlocked():
            left = by_threads(log, left)
        elif not log.runnable:
            left = _most_different_first(log, left)
            first = log.states[BASELINE]
            if first.never_ran() and first.failure and first.failure.failure == "timed-out":
                # Its threads may wait for each other, without a call that proves it.
                left.sort(key=lambda trial: log.threads()[trial] <= log.threads()[BASELINE])
        trial = left.pop(0)
        reason = _why_not(measurer, trial, until_spent=until_spent)
        if not reason and not measurer.calibrate(trial):
            reason = "the budget was spent before its first world was done"
        if reason and not log.states[trial].never_ran():
            skipped.setdefault(reason, []).append(trial)
        elif not reason and is_tried_again(log, trial, measurer.budget.total_s):
            left.append(trial)
    for reason, those in skipped.items():
        measurer.eliminate(dict.fromkeys(those, reason), silently=True)
        some = first_of([str(log.configs[trial]) for trial in those], MOST_NAMED)
        measurer.observer.on_event(f"not measured, {reason}: {some}")


def _why_not(measurer: Measurer, trial: int, *, until_spent: bool = False) -> str:
    """Why a trial is not worth a first world, as a clause; empty if it is."""
    log = measurer.log
    if log.failures and why_broken(log):
        return "all that were tried failed alike"
    if trial != BASELINE and (too_few := too_few_threads(log, log.configs[trial])):
        return too_few
    # Only what runs: what failed or hung must not use up the time that the others need.
    runnable = log.runnable
    if until_spent:
        is_time = not measurer.budget.is_spent
    elif runnable[1:]:
        least_s = LEAST_BLOCKS * log.block_s([AGAIN, *runnable])
        is_time = measurer.budget.remaining_s >= least_s and not measurer.budget.is_spent
    else:
        is_time = has_time_for(measurer, 1) or measurer.times.has_grace
    return "" if is_time or trial == BASELINE else "the budget was spent before its turn"


def _drop_dominated(measurer: Measurer) -> None:
    """Take out what one world has shown to be far behind; never the fastest of the rivals."""
    log, places = measurer.log, defaultdict[Hashable, list[int]](list)
    for trial in log.runnable:
        places[log.trials[trial].first_place].append(trial)
    for trials in places.values():
        _drop_dominated_of(measurer, trials)


def _drop_dominated_of(measurer: Measurer, trials: Sequence[int]) -> None:
    """The same of trials whose first worlds ran in one session, by one group."""
    log = measurer.log
    cost = {trial: log.first_cost(trial) for trial in trials}
    ordered = sorted(cost, key=cost.__getitem__)
    rivals = [trial for trial in ordered if trial != BASELINE]
    if len(rivals) < 2:
        return
    # One lucky world must not drop the others: what is usual is the median, or the baseline.
    usual = ordered[len(ordered) // 2]
    if BASELINE in cost and cost[BASELINE] < cost[usual]:
        usual = BASELINE
    found = {trial: behind_in_first_world(log, trial, usual) for trial in rivals[1:]}
    measurer.eliminate(
        {
            trial: f"{distance(behind)} behind {log.configs[usual]} in one world"
            for trial, behind in found.items()
            if behind is not None and not log.states[trial].is_eliminated()
        }
    )


def traces_s(log: StudyLog, budget_s: float) -> float:
    """Seconds that blocks leave for traces: of two contenders, and for a while of the others."""
    untraced = [trial for trial in log.runnable if log.trials[trial].trace is None]
    each_s = sorted(_trace_s(log, trial) for trial in untraced)
    others_s = min(KEPT_FOR_TRACES * budget_s, sum(each_s[:-2]))
    return min(MOST_TRACED * budget_s - log.traced_s, sum(each_s[-2:]) + others_s)


def trace(measurer: Measurer) -> None:
    """Trace the baseline and its strongest rival with their operators, then the others' calls, the
    best first, as far as the time goes."""
    log = measurer.log
    measurer.reserved_s = 0.0
    rival, total_s = strongest_rival(log), measurer.budget.total_s
    trace_contenders(measurer, [each for each in log.runnable if each in (BASELINE, rival)])
    if measurer.measuring.until_clear:
        # Of a limit that was not needed, nothing is a share.
        total_s = measurer.budget.spent_s
    values = {trial: log.value(trial) for trial in log.runnable}
    costs = {t: math.inf if v is None else log.plan.objective.cost(v) for t, v in values.items()}
    ranked = sorted(costs, key=costs.__getitem__)
    # Who had no time as a contender has none now.
    if untraced := _trace(measurer, ranked, MOST_TRACED * total_s, operators=False):
        some = first_of([str(log.configs[trial]) for trial in untraced], MOST_NAMED, separator="; ")
        measurer.observer.on_event(f"not traced, for lack of time: {some}")


def trace_contenders(measurer: Measurer, trials: Sequence[int]) -> None:
    """Trace these with their operators, as far as the time for traces goes."""
    _trace(measurer, trials, MOST_TRACED * measurer.budget.total_s, operators=True)


def _trace(
    measurer: Measurer, trials: Sequence[int], most_s: float, *, operators: bool
) -> list[int]:
    """Trace these, while all traces take no more than `most_s`; returns those without the time."""
    log, untraced = measurer.log, []
    measurer.begin("trace")
    for trial in trials:
        if log.trials[trial].trace is not None:
            continue
        left_s = min(most_s - log.traced_s, measurer.budget.remaining_s)
        if left_s < _trace_s(log, trial):
            untraced.append(trial)
        else:
            measurer.trace(trial, operators=operators)
    return untraced


def _trace_s(log: StudyLog, trial: int) -> float:
    world_s = log.world_s(trial)
    has_steps = log.plan.subject.has_steps
    return world_s + TRACED_TIME_S if has_steps else TRACED_FACTOR * world_s


def is_tried_again(log: StudyLog, trial: int, budget_s: float) -> bool:
    """Whether a configuration that has only failed so far is worth another world: not if failures
    take too much of the budget, but for a baseline that others wait for."""
    if not log.states[trial].never_ran() or cannot_run(log, trial):
        return False
    is_needed = trial == BASELINE and bool(log.runnable)
    return is_needed or not _have_cost_much(log, budget_s)


def _have_cost_much(log: StudyLog, budget_s: float) -> bool:
    """Whether configurations that never ran have taken much of the budget."""
    lost_s = sum(each.world_s for trial in log.failures for each in log.trials[trial].failures)
    return lost_s > AGAIN_SHARE * budget_s


def cannot_run(log: StudyLog, trial: int) -> bool:
    """Whether a configuration that has only failed so far would fail again, as far as is known."""
    if _has_failed_enough(log, trial):
        return True
    # What keeps another one from running, and has never stopped one that runs.
    never_run = [each for each in log.failures if _has_failed_enough(log, each)]
    known = _kinds(log, never_run) - _kinds(log, log.runnable)
    is_known = not known.isdisjoint(_kinds(log, [trial]))
    return is_known and len(log.trials[trial].failures) >= LEAST_KNOWN


def _has_failed_enough(log: StudyLog, trial: int) -> bool:
    failed = log.trials[trial].failures
    return (
        log.states[trial].wrong_answer is not None
        or len(failed) > MOST_REPEATS
        or any(each.failure == "deadlocked" or _CERTAIN.search(each.message) for each in failed)
    )


def _kinds(log: StudyLog, trials: Iterable[int]) -> set[Hashable]:
    return {
        failure_signature(each.failure, each.message)
        for trial in trials
        for each in log.trials[trial].failures
    }


def why_broken(log: StudyLog) -> str:
    """Why no other configuration can be expected to run, as a clause; empty if one can: all failed
    alike, without a value in common, and not by a deadlock, which more threads may end."""
    found = [log.trials[trial].failures[0] for trial in log.failures]
    are_all = len(found) == len(log.configs) and log.reaches_all
    if log.runnable or (len(found) < LEAST_ALIKE and not are_all):
        return ""
    worlds = sum(len(log.trials[trial].failures) for trial in log.failures)
    if worlds < LEAST_WORLDS and not _have_cost_much(log, log.plan.measuring.budget_s):
        return ""
    if len({failure_signature(each.failure, each.message) for each in found}) > 1:
        return ""
    values = zip(*_values(log, [*log.failures]).values(), strict=True)
    if found[0].failure == "deadlocked" or any(len(set(column)) == 1 for column in values):
        return ""
    return f"{found[0].failure}, {found[0].message}"


def _most_different_first(log: StudyLog, trials: Sequence[int]) -> list[int]:
    """These trials, those first that differ most from what has failed; else in their order."""
    values = _values(log, [*trials, *log.failures])

    def seen(trial: int) -> int:
        pairs = [zip(values[trial], values[other], strict=True) for other in log.failures]
        return max((sum(a == b for a, b in each) for each in pairs), default=0)

    return sorted(trials, key=seen)


def _values(log: StudyLog, trials: Iterable[int]) -> dict[int, list[str]]:
    """What each of these trials has of each knob that varies."""
    subject = log.plan.subject
    dimensions = varying(log.plan.candidates(), subject)
    return {
        trial: [str(log.configs[trial].value_of(each, subject)) for each in dimensions]
        for trial in trials
    }
