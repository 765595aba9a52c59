"""Which configurations need no world, after what became of it or of others."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tuner.plan.config import Config
from tuner.plan.dimensions import varying
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import MOST_REPEATS
from tuner.world.likeness import likeness

# What failed at first is tried again while failures took no more than this share of the budget.
AGAIN_SHARE = 0.15
# So many failures are enough of what another configuration has failed of every time.
LEAST_KNOWN = 2
# What PyTorch says of a transport or a channel that is not there.
_CERTAIN = re.compile(r"Unknown (transport|channel): |transport '\w*' not in use by this listener")
# So many configurations that fail alike, in so many worlds, and none that runs: their values are
# not the cause.
LEAST_ALIKE = 3
LEAST_WORLDS = 8
# A pool of several threads is exhausted by so many calls, which others may issue or not.
LEAST_DEADLOCKS = 2


def is_tried_again(log: StudyLog, trial: int, budget_s: float) -> bool:
    """Whether a configuration that has only failed so far is worth another world.

    A single failure is no proof that it cannot run. Nor is what takes too much of the budget tried
    again, but for a baseline that others wait for.
    """
    if trial not in log.failures or cannot_run(log, trial):
        return False
    is_needed = trial == BASELINE and bool(log.runnable)
    return is_needed or not _have_cost_much(log, budget_s)


def _have_cost_much(log: StudyLog, budget_s: float) -> bool:
    """Whether configurations that never ran have taken much of the budget."""
    lost_s = sum(each.world_s for trial in log.failures for each in log.failed(trial))
    return lost_s > AGAIN_SHARE * budget_s


def cannot_run(log: StudyLog, trial: int) -> bool:
    """Whether a configuration that has only failed so far would fail again, as far as is known."""
    if _has_failed_enough(log, trial):
        return True
    # What keeps another one from running, and has never stopped one that runs.
    never_run = [each for each in log.failures if _has_failed_enough(log, each)]
    known = _kinds(log, never_run) - _kinds(log, log.runnable)
    return len(log.failed(trial)) >= LEAST_KNOWN and not known.isdisjoint(_kinds(log, [trial]))


def _has_failed_enough(log: StudyLog, trial: int) -> bool:
    failed = log.failed(trial)
    return (
        log.wrong_answer(trial) is not None
        or len(failed) > MOST_REPEATS
        or any(each.failure == "deadlocked" or _CERTAIN.search(each.message) for each in failed)
    )


def _kinds(log: StudyLog, trials: Iterable[int]) -> set[Hashable]:
    return {likeness(each.failure, each.message) for trial in trials for each in log.failed(trial)}


def why_broken(log: StudyLog) -> str:
    """Why no other configuration can be expected to run, as a clause; empty if one can.

    All that were tried failed alike, and no knob has the same value in all of them. A deadlock is
    none of these: more threads may end it.
    """
    found = list(log.failures.values())
    if log.runnable or len(found) < min(LEAST_ALIKE, len(log.configs)):
        return ""
    worlds = sum(len(log.failed(trial)) for trial in log.failures)
    if worlds < LEAST_WORLDS and not _have_cost_much(log, log.plan.measuring.budget_s):
        return ""
    if len({likeness(each.failure, each.message) for each in found}) > 1:
        return ""
    if found[0].failure == "deadlocked" or _unvaried(log):
        return ""
    return f"{found[0].failure}, {found[0].message}"


def most_different_first(log: StudyLog, trials: Sequence[int]) -> list[int]:
    """These trials, those first that differ most from what has failed; else in their order."""
    values = _values(log, [*trials, *log.failures])

    def seen(trial: int) -> int:
        pairs = [zip(values[trial], values[other], strict=True) for other in log.failures]
        return max((sum(a == b for a, b in each) for each in pairs), default=0)

    return sorted(trials, key=seen)


class Deadlock(NamedTuple):
    """So few worker threads of a role that it deadlocks, whatever else is configured."""

    role: str
    threads: int

    def holds_for(self, config: Config, plan: StudyPlan) -> bool:
        """Whether a configuration has it."""
        return plan.threads_of(self.role, config) == self.threads

    def __str__(self) -> str:
        return f"{self.role}.{NUM_WORKER_THREADS.name}={self.threads} deadlocks"


def deadlocks(log: StudyLog) -> list[Deadlock]:
    """What the deadlocks so far imply.

    Where a rank has one thread, and serves a call that waits for an answer, nothing else matters.
    With more threads it takes two such configurations, and none that runs.
    """
    seen = list(_deadlocks_seen(log))
    runs = {
        (role, log.plan.threads_of(role, log.configs[trial]))
        for trial in log.runnable
        for role in log.plan.subject.roles
    }
    return [
        each
        for each in dict.fromkeys(seen)
        if each not in runs and (each.threads == 1 or seen.count(each) >= LEAST_DEADLOCKS)
    ]


def _deadlocks_seen(log: StudyLog) -> Iterator[Deadlock]:
    roles = {rank.name: rank.role for rank in log.plan.subject.ranks}
    for trial, failure in log.failures.items():
        if failure.failure == "deadlocked" and (role := roles.get(failure.rank)) is not None:
            yield Deadlock(role, log.plan.threads_of(role, log.configs[trial]))


def _unvaried(log: StudyLog) -> bool:
    """Whether some knob that varies has one value in all that failed."""
    columns = zip(*_values(log, [*log.failures]).values(), strict=True)
    return any(len(set(column)) == 1 for column in columns)


def _values(log: StudyLog, trials: Iterable[int]) -> dict[int, list[str]]:
    """What each of these trials has of each knob that varies."""
    subject = log.plan.subject
    dimensions = varying(log.plan.candidates(), subject)
    return {
        trial: [str(log.configs[trial].value_of(each, subject)) for each in dimensions]
        for trial in trials
    }
