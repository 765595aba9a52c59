"""What the worlds of a study show about its trials: which are better, and which fail more often."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tuner.decide.additive import Points
from tuner.decide.ranking import best_measured, is_dominated, strongest
from tuner.decide.simultaneous import AnalysedBlocks, gain_over
from tuner.decide.statistics import FloatArray, Interval, differences, without_spikes
from tuner.decide.verdict import FAILING_SHARE, fails_more
from tuner.plan.config import Config, Dimension, varying
from tuner.plan.knobs import Value
from tuner.plan.program_spec import Subject
from tuner.study.log import BASELINE, StudyLog, merged
from tuner.study.records import AGAIN
from tuner.world.measurement import Failure
from tuner.world.postmortem import failure_signature

DOMINATED_RATIO = 2.5  # whose first world took so much longer than usual is not measured again
_ERRORS = 2.0
_AGREES = 1.25  # what is forecast far behind waits if its first world is so many times as long, too


def worlds_without_spikes(log: StudyLog) -> FloatArray:
    """`StudyLog.worlds` of the race without spikes."""

    def found() -> FloatArray:
        worlds = log.worlds("race")
        return _without_spikes(worlds.tobytes(), worlds.shape[1])

    return log.rows.once("without spikes", found)


@lru_cache(maxsize=64)
def _without_spikes(worlds: bytes, columns: int) -> FloatArray:
    return without_spikes(np.frombuffer(worlds).reshape(-1, columns))


def evidence(log: StudyLog) -> FloatArray:
    """log(objective) in the blocks of the race, blocks x trials, without spikes."""
    return log.rows.once("evidence", lambda: merged(worlds_without_spikes(log)))


def points_of(log: StudyLog) -> Points:
    """Each trial as the numbers of its values, of the knobs that differ between trials."""

    def found() -> Points:
        subject = log.plan.subject
        return points_among(varying(log.configs, subject), log.configs, subject)

    return log.rows.once("points", found)


def points_among(
    values: Mapping[Dimension, Sequence[Value]], configs: Sequence[Config], subject: Subject
) -> list[tuple[int, ...]]:
    """Each configuration as the numbers of its values."""
    places = {each: {value: n for n, value in enumerate(found)} for each, found in values.items()}
    return [
        tuple(place[config.value_of(each, subject)] for each, place in places.items())
        for config in configs
    ]


def leader(log: StudyLog) -> int | None:
    """The candidate with the best score so far; None if none was measured, or all may do less work
    than the baseline."""
    candidates = [trial for trial in log.candidates if trial not in log.lost]
    return best_measured(evidence(log), candidates, points_of(log))


def ahead_of(log: StudyLog) -> list[int]:
    """The leader, and the other candidates in the race that are not behind it by two standard
    errors of the blocks that measured both: no claim."""
    best = leader(log)
    if best is None:
        return []
    matrix, alike = evidence(log), [best]
    for trial in log.candidates:
        if trial != best and trial not in log.lost:
            behind = differences(matrix[:, trial], matrix[:, best])
            error = behind.std(ddof=1) / math.sqrt(len(behind)) if len(behind) > 1 else math.inf
            if len(behind) and behind.mean() < 2 * error:
                alike.append(trial)
    return alike


def mean_gain(log: StudyLog, trial: int, reference: int = BASELINE) -> float | None:
    """The mean of log(how many times as good a trial is as a reference) by block: no claim."""
    matrix = evidence(log)
    gains = differences(matrix[:, reference], matrix[:, trial])
    return float(gains.mean()) if len(gains) else None


def rivals_of(log: StudyLog) -> list[int]:
    """The trials that blocks compare with the baseline; who was out before the race is none."""
    raced = _raced(log)
    out = {BASELINE, *log.eliminated} - raced
    return [trial for trial in log.runnable if trial not in out]


def _raced(log: StudyLog) -> set[int]:
    """The trials without a failure that a block of the race has measured, but the baseline."""

    def found() -> set[int]:
        measured = {*np.flatnonzero((~np.isnan(log.matrix("race"))).any(axis=0)).tolist()}
        return measured.intersection(log.alive) - {BASELINE}

    return log.rows.once("raced", found)


def strongest_rival(log: StudyLog) -> int | None:
    """The rival that is most likely the best; none that breaks a limit or may do less work, or, if
    possible, is out."""
    rivals = [each for each in rivals_of(log) if not log.broken(each) and each not in log.lost]
    racing = [trial for trial in rivals if trial not in log.eliminated]
    matrix, cost, points = evidence(log), log.log_cost(), points_of(log)
    found = (strongest(matrix, t, cost, log.rules.log_epsilon, points) for t in (racing, rivals))
    return next((each for each in found if each is not None), None)


def gain_of(
    log: StudyLog, rival: int, reference: int = BASELINE, shared: int | None = None
) -> Interval | None:
    """log(how many times as good a rival is as a reference), as all looks have left it; `shared`
    is how many comparisons share the upper end's alpha, if not those of the verdict."""
    count = len(_raced(log))
    # Where the data has chosen the reference, every rival could have been it.
    by_data = 1 if reference == BASELINE else count
    family = by_data if shared is None else shared

    def found() -> Interval | None:
        tests = _tests(log)
        return gain_over(tests, reference, rival, rivals=count, high_shared_by=family)

    return log.rows.once(("gain", rival, reference, family, log.looks), found)


def _tests(log: StudyLog) -> list[AnalysedBlocks]:
    """The blocks of each look."""

    def found() -> list[AnalysedBlocks]:
        worlds = log.worlds("race")
        looked = [(worlds[: look.rows], look.alpha) for look in log.looks]
        return [_test_of(rows.tobytes(), rows.shape[1], alpha) for rows, alpha in looked]

    return log.rows.once(("tests", log.looks), found)


@lru_cache(maxsize=64)
def _test_of(worlds: bytes, columns: int, alpha: float) -> AnalysedBlocks:
    """Cached, as all rivals are tested on the same blocks."""
    known = _without_spikes(worlds, columns)
    return AnalysedBlocks(merged(known), alpha, known[:, BASELINE] - known[:, AGAIN])


def difference_of_gains(
    log: StudyLog, here: tuple[int, int], there: tuple[int, int], shared: int
) -> Interval | None:
    """The log of by how much the first of two trials is better than the second, here against there,
    by the blocks that have all four; `shared` is how many comparisons share alpha."""
    tests = []
    for test in _tests(log):
        pairs = [test.matrix[:, each] - test.matrix[:, over] for each, over in (here, there)]
        tests.append(AnalysedBlocks(np.column_stack(pairs), test.alpha))
    return gain_over(tests, 1, 0, rivals=shared, high_shared_by=shared)


def tested_gain(log: StudyLog, trial: int, reference: int) -> Interval | None:
    """`gain_of`; the baseline's over a rival is the rival's turned round, as in the verdict."""
    if trial != BASELINE:
        return gain_of(log, trial, reference)
    gain = gain_of(log, reference)
    return None if gain is None else -gain


def not_excluded(log: StudyLog, best: int) -> list[int]:
    """The trials, without the baseline, that may be more than epsilon better than `best`."""
    return may_gain(log, best, log.rules.log_epsilon)


def may_gain(log: StudyLog, best: int, more_than: float) -> list[int]:
    """The trials, without the baseline, that may be better than `best` by more than this log."""
    matrix = log.matrix("race")

    def is_excluded(trial: int) -> bool:
        if behind_in_first_world(log, trial, best) is not None:
            return True
        gain = gain_of(log, trial, best)
        is_less = gain is not None and gain.high <= more_than
        return is_less or is_dominated(matrix, trial, best)

    rivals = [trial for trial in log.compared if trial not in (best, BASELINE)]
    return [trial for trial in rivals if not is_excluded(trial)]


def behind_in_first_world(log: StudyLog, trial: int, reference: int) -> float | None:
    """How far the first world of a trial is behind that of a reference, as log(objective).

    None unless it is by a factor of 2.5 at least, the interval of the steps included, no block has
    measured the trial, others did not disturb its world, and one session and one group of CPUs or
    hosts ran both: a machine may be slower on another day.
    """
    first, other = log.calibration(trial), log.calibration(reference)
    if first is None or other is None or log.trials[trial].samples or log.plan.objective.traced:
        return None
    if first.is_disturbed or not _are_of_one_place(log, trial, reference):
        return None
    behind = log.first_cost(trial) - log.first_cost(reference)
    error = math.hypot(_error(first.step_s), _error(other.step_s))
    shown = math.isfinite(behind) and behind - _ERRORS * error > math.log(DOMINATED_RATIO)
    return behind if shown else None


class FarAhead(NamedTuple):
    """A rival that few worlds have far ahead of the baseline: what was seen, and no claim."""

    trial: int
    worlds: int  # of the rival
    value: float  # its objective, and the baseline's, in the objective's unit
    baseline_value: float


def far_ahead(log: StudyLog) -> FarAhead | None:
    """The candidate that is 2.5 times as good as the baseline or more, by the blocks that have both
    or else by their first worlds; the farthest one, None where there is none."""
    gains = dict[int, float]()
    for trial in {*log.candidates} - {BASELINE}:
        gain = mean_gain(log, trial)
        if gain is None:
            gain = behind_in_first_world(log, BASELINE, trial)
        if gain is not None and gain > math.log(DOMINATED_RATIO) and not log.breaks(trial):
            gains[trial] = gain
    if BASELINE in log.failures or not gains:
        return None
    best = max(gains, key=gains.__getitem__)
    value, other = log.value(best), log.value(BASELINE)
    worlds = len(log.trials[best].samples)
    if value is None or other is None:
        firsts = (log.calibration(best), log.calibration(BASELINE))
        value, other = (log.plan.objective.value(each) for each in firsts if each is not None)
    return FarAhead(best, max(1, worlds), value, other)


def _are_of_one_place(log: StudyLog, trial: int, other: int) -> bool:
    """Whether one session and one group ran the first worlds of both."""
    return log.trials[trial].first_place == log.trials[other].first_place


def _error(step_s: Sequence[float]) -> float:
    """The standard error of log(median step time); 0 where there is a single step, or none."""
    if len(step_s) < 2:
        return 0.0
    return math.sqrt(math.pi / 2 * float(np.log(step_s).var(ddof=1)) / len(step_s))


class Cause(NamedTuple):
    """What failures have in common that are alike, of configurations that have run as well."""

    failure: str  # the kind of the first one
    message: str  # its root cause
    worlds: Mapping[int, int]  # how many worlds of each configuration failed so


def causes_of(log: StudyLog) -> tuple[Cause, ...]:
    """Of what worlds failed of trials that have run; what is most frequent comes first."""
    found: dict[Hashable, tuple[Failure, Counter[int]]] = {}
    for trial, worlds in enumerate(log.trials):
        for each in worlds.failures if worlds.ran else ():
            kind = failure_signature(each.failure, each.message)
            found.setdefault(kind, (each, Counter()))[1][trial] += 1
    ordered = sorted(found.values(), key=lambda kind: -kind[1].total())
    return tuple(Cause(first.failure, first.message, counts) for first, counts in ordered)


def fails_more_often(log: StudyLog, trial: int) -> bool:
    """Whether a trial that has failed again is shown to fail more often than the others."""
    ran = {each: worlds.ran for each, worlds in enumerate(log.trials) if worlds.ran}
    others = ran.keys() - {trial, *log.unreliable, *log.wrong}
    failed = len(log.trials[trial].failures)
    if not (failed and trial in ran and others):
        return False
    others_failed = sum(len(log.trials[each].failures) for each in others)
    others_worlds = others_failed + sum(ran[each] for each in others)
    # Any of them may be shown to.
    alpha = FAILING_SHARE * log.rules.alpha / len(ran)
    return fails_more(failed, failed + ran[trial], others_failed, others_worlds, alpha)


def by_promise(log: StudyLog, trials: Sequence[int]) -> list[int]:
    """The baseline, then the trials that the forecast likes; what it has far behind, and then what
    it has in a deadlock, comes last."""

    def key(trial: int) -> tuple[bool, bool, bool, float]:
        found = log.forecast(log.configs[trial])
        if found is None:
            return trial != BASELINE, False, False, 1.0
        return trial != BASELINE, bool(found.deadlock), found.is_far, min(found.ratio or 1.0, 1.0)

    return sorted(trials, key=key)


def is_forecast_far(log: StudyLog, config: Config) -> bool:
    """Whether a forecast has a configuration far behind the baseline, or in a deadlock."""
    found = log.forecast(config)
    return found is not None and (found.is_far or bool(found.deadlock))


def waiting(log: StudyLog, trials: Iterable[int]) -> dict[int, float]:
    """Those of the trials that are measured last, with their forecast ratios: no block has measured
    them, a forecast has them far behind, and their first worlds agree. That is no evidence."""
    found = {}
    for trial in trials:
        forecast = log.forecast(log.configs[trial])
        if forecast is None or forecast.ratio is None or not forecast.is_far:
            continue
        behind = log.first_cost(trial) - log.first_cost(BASELINE)
        agrees = math.isfinite(behind) and behind > math.log(_AGREES)
        agrees = agrees and _are_of_one_place(log, trial, BASELINE)
        if agrees and not log.trials[trial].samples:
            found[trial] = forecast.ratio
    return found
