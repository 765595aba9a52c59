"""How often configurations fail that have run, of what, and whether one fails more than others."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from tuner.decide.verdict import FAILING_SHARE, fails_more
from tuner.study.log import StudyLog
from tuner.world.failure_evidence import failure_signature
from tuner.world.measurement import Failure


class Cause(NamedTuple):
    """What failures have in common that are alike, of configurations that have run as well."""

    failure: str
    """The kind of the first one."""
    message: str
    """Its root cause."""
    worlds: Mapping[int, int]
    """How many worlds of each configuration failed so."""


def causes_of(log: StudyLog, trials: Iterable[int]) -> tuple[Cause, ...]:
    """Of what worlds of these trials failed that have run; what is most frequent comes first."""
    first: dict[Hashable, Failure] = {}
    counts: dict[Hashable, Counter[int]] = {}
    for trial in trials:
        for each in log.failed(trial) if log.ran(trial) else ():
            kind = failure_signature(each.failure, each.message)
            first.setdefault(kind, each)
            counts.setdefault(kind, Counter())[trial] += 1
    ordered = sorted(first, key=lambda kind: -counts[kind].total())
    return tuple(Cause(first[k].failure, first[k].message, counts[k]) for k in ordered)


def fails_more_often(log: StudyLog, trial: int) -> bool:
    """Whether a trial that has run is shown to fail more often than the others that have.

    It may be asked whenever the trial has failed again.
    """
    every = [each for each in range(len(log.configs)) if log.ran(each)]
    out = {trial, *log.unreliable, *log.wrong}
    others = [each for each in every if each not in out]
    failed, ran = len(log.failed(trial)), log.ran(trial)
    if not (failed and ran and others):
        return False
    others_failed = sum(len(log.failed(each)) for each in others)
    others_worlds = others_failed + sum(map(log.ran, others))
    # Any of them may be shown to.
    alpha = FAILING_SHARE * log.rules.alpha / len(every)
    return fails_more(failed, failed + ran, others_failed, others_worlds, alpha)
