"""What proved deadlocks tell of other numbers of worker threads."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tuner.plan.config import ALL_ROLES, Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.study.log import BASELINE, StudyLog
from tuner.study.trial_state import TrialState


@dataclass(frozen=True, kw_only=True)
class NeedsThreads:
    """That the baseline deadlocks, and how many worker threads have been enough."""

    role: str
    """Whose threads all waited; empty where that is not known."""
    own: int
    """So many does the baseline have."""
    threads: int
    """The most with which it deadlocked."""
    enough: int | None
    """The fewest of those that ran; None where none did."""
    has_more: bool
    """Whether the space has more of them at all."""

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        return asdict(self)


def too_few_threads(log: StudyLog, config: Config) -> str:
    """That a configuration has no more threads than one that deadlocks, as a clause; empty if not.

    Fewer threads of a role are no help unless others, who call it, have fewer still.
    """
    if not log.those(TrialState.has_deadlocked):
        return ""
    plan, own = log.plan, log.plan.threads_by_role(config)
    for starved, role in dict.fromkeys(_starved(log)):
        if role is None:
            mine, its, whose = max(own), max(starved), ""
            is_less = all(here <= there for here, there in zip(own, starved, strict=True))
        else:
            place = plan.subject.roles.index(role)
            mine, its, whose = own[place], starved[place], f"{role}."
            pairs = zip(own, starved, strict=True)
            is_less = mine <= its and all(here >= min(there, mine) for here, there in pairs)
        if is_less:
            fewer = ", so fewer do, too" if mine < its else ""
            whose = "" if _is_of_all(log) else whose
            return f"{whose}{NUM_WORKER_THREADS.name}={its} deadlocks{fewer}"
    return ""


def by_threads(log: StudyLog, trials: list[int]) -> list[int]:
    """These trials, those first that differ from the baseline in the fewest other knobs, and then
    in the fewest more threads."""

    def key(trial: int) -> tuple[int, int]:
        config = log.configs[trial]
        others = log.plan.changed_by(config) - {NUM_WORKER_THREADS.name}
        return len(others), sum(log.plan.threads_by_role(config))

    return sorted(trials, key=key)


def needs_threads(log: StudyLog) -> NeedsThreads | None:
    """What the baseline's deadlock, if it is proved, and the other configurations show."""
    if not log.states[BASELINE].has_deadlocked():
        return None
    role = _role_of(log, BASELINE)

    def count(config: Config) -> int:
        by_role = log.plan.threads_by_role(config)
        return max(by_role) if role is None else log.plan.threads_of(role, config)

    deadlocked = log.those(TrialState.has_deadlocked)
    alike = [trial for trial in deadlocked if _role_of(log, trial) == role]
    most = max(count(log.configs[trial]) for trial in alike)
    ran = [count(log.configs[trial]) for trial in log.runnable if trial not in deadlocked]
    return NeedsThreads(
        role=role or "",
        own=count(log.configs[BASELINE]),
        threads=most,
        enough=min((threads for threads in ran if threads > most), default=None),
        has_more=any(count(config) > most for config in log.plan.candidates()),
    )


def _starved(log: StudyLog) -> Iterator[tuple[tuple[int, ...], str | None]]:
    """The threads of each role with which a world deadlocked, and whose threads all waited."""
    for trial in log.those(TrialState.has_deadlocked):
        yield log.plan.threads_by_role(log.configs[trial]), _role_of(log, trial)


def _role_of(log: StudyLog, trial: int) -> str | None:
    deadlock = log.states[trial].deadlock
    name = deadlock and deadlock.rank
    return next((rank.role for rank in log.plan.subject.ranks if rank.name == name), None)


def _is_of_all(log: StudyLog) -> bool:
    """Whether all roles have the same threads in each configuration of the space."""
    named = [each for each in log.plan.space.dimensions if each.knob == NUM_WORKER_THREADS.name]
    return all(dimension.role == ALL_ROLES for dimension in named)
