"""Which configurations need no world, after what became of others: all fail, or all deadlock."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tuner.plan.config import Config
from tuner.plan.dimensions import varying
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import StudyLog
from tuner.world.likeness import likeness

# So many configurations that fail alike, and none that runs: it is not for their values.
LEAST_ALIKE = 3
# A pool of several threads is exhausted by so many calls, which others may issue or not.
LEAST_DEADLOCKS = 2


def why_broken(log: StudyLog) -> str:
    """Why no other configuration can be expected to run, as a clause; empty if one can.

    All that were tried failed alike, and no knob has the same value in all of them. A deadlock is
    none of these: more threads may end it.
    """
    found = list(log.failures.values())
    if log.runnable or len(found) < min(LEAST_ALIKE, len(log.configs)):
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
        return _threads(config, self.role, plan) == self.threads

    def __str__(self) -> str:
        return f"{self.role}.{NUM_WORKER_THREADS.name}={self.threads} deadlocks"


def deadlocks(log: StudyLog) -> list[Deadlock]:
    """What the deadlocks so far imply.

    Where a rank has one thread, and serves a call that waits for an answer, nothing else matters.
    With more threads it takes two such configurations, and none that runs.
    """
    seen = list(_deadlocks_seen(log))
    runs = {
        (role, _threads(log.configs[trial], role, log.plan))
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
            yield Deadlock(role, _threads(log.configs[trial], role, log.plan))


def _threads(config: Config, role: str, plan: StudyPlan) -> int:
    own = plan.subject.default_of(role, NUM_WORKER_THREADS.name)
    threads = config.for_role(role).get(NUM_WORKER_THREADS.name, own)
    assert isinstance(threads, int)
    return threads


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
