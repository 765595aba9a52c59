"""What the worlds of a study show about its trials: which are better, and which fail more often."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from tuner.decide.additive import Levels, Points
from tuner.decide.gains import AnalysedBlocks, Gains
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.decide.ranking import best_measured, dominated, strongest
from tuner.decide.statistics import FloatArray, without_spikes
from tuner.decide.verdict import FAILING_SHARE, fails_more
from tuner.plan.config import Config, Dimension, varying
from tuner.plan.knobs import Value
from tuner.plan.program_spec import Subject
from tuner.study.log import BASELINE, StudyLog, merged, of_blocks, of_configs, of_log
from tuner.study.records import AGAIN
from tuner.world.measurement import Failure
from tuner.world.postmortem import failure_signature

DOMINATED_RATIO = 2.5  # whose first world took so much longer than usual is not measured again
_ERRORS = 2.0
_AGREES = 1.25  # what is forecast far behind waits if its first world is so many times as long, too


def worlds_without_spikes(log: StudyLog, blocks: int | None = None) -> FloatArray:
    """`StudyLog.worlds` of the race, or of its first `blocks`, without spikes."""
    worlds, version = _first_blocks(log, blocks)
    key = "without spikes", len(worlds)
    return log.derived.once(key, version, lambda: without_spikes(worlds))


def _first_blocks(log: StudyLog, blocks: int | None) -> tuple[FloatArray, Hashable]:
    """The first blocks of the race, and their version: a world of another one changes nothing."""
    worlds = log.worlds("race")[:blocks]
    return worlds, (worlds.shape, np.count_nonzero(~np.isnan(worlds)), log.rows.edits)


@of_blocks
def evidence(log: StudyLog) -> FloatArray:
    """log(objective) in the blocks of the race, blocks x trials, without spikes."""
    return merged(worlds_without_spikes(log))


@of_configs
def points_of(log: StudyLog) -> Points:
    """Each trial as the numbers of its values, of the knobs that differ between trials."""
    subject = log.plan.subject
    return points_among(varying(log.configs, subject), log.configs, subject)


@of_blocks
def levels_of(log: StudyLog) -> Levels:
    """The level of each trial in the blocks of the race."""
    return Levels.of(evidence(log), points_of(log))


def gains_of(log: StudyLog) -> Gains:
    """All trials compared, by the blocks of the race and what the looks at them have shown."""
    rivals = max(1, len(raced(log)))
    return log.derived.once(
        "gains",
        (log.rows.version, log.looks, rivals),
        lambda: Gains(
            evidence(log), log.rules.confidence, [_look(log, look) for look in log.looks], rivals
        ),
    )


def _look(log: StudyLog, look: InterimAnalysis) -> AnalysedBlocks:
    def made() -> AnalysedBlocks:
        known = worlds_without_spikes(log, look.rows)
        return AnalysedBlocks(merged(known), look.alpha, known[:, BASELINE] - known[:, AGAIN])

    key = "look", look.rows, look.alpha
    return log.derived.once(key, _first_blocks(log, look.rows)[1], made)


def points_among(
    values: Mapping[Dimension, Sequence[Value]], configs: Sequence[Config], subject: Subject
) -> list[tuple[int, ...]]:
    """Each configuration as the numbers of its values."""
    places = {each: {value: n for n, value in enumerate(found)} for each, found in values.items()}
    return [
        tuple(place[config.value_of(dimension, subject)] for dimension, place in places.items())
        for config in configs
    ]


def leader(log: StudyLog) -> int | None:
    """The candidate with the best score so far; None if none was measured, or all may do less work
    than the baseline."""
    candidates = [trial for trial in log.candidates if not log.states[trial].lost]
    return best_measured(levels_of(log).best, candidates)


@of_log
def ahead_of(log: StudyLog) -> list[int]:
    """The leader, and the other candidates in the race that are not behind it by two standard
    errors of the blocks that measured both: no claim."""
    best = leader(log)
    if best is None:
        return []
    found = gains_of(log).so_far(best)
    is_near = (-found.mean < 2 * found.error).tolist()
    others = [trial for trial in log.candidates if trial != best and is_near[trial]]
    return [best, *(trial for trial in others if not log.states[trial].lost)]


@of_log
def rivals_of(log: StudyLog) -> Sequence[int]:
    """The trials that blocks compare with the baseline; who was out before the race is none."""
    known = raced(log)
    return [
        trial
        for trial in log.runnable
        if trial != BASELINE and (trial in known or not log.states[trial].is_eliminated())
    ]


@of_log
def raced(log: StudyLog) -> Set[int]:
    """The alive trials that a block of the race has measured, but the baseline."""
    measured = np.flatnonzero((~np.isnan(log.matrix("race"))).any(axis=0))
    return {*measured.tolist()}.intersection(log.alive) - {BASELINE}


@of_log
def strongest_rival(log: StudyLog) -> int | None:
    """The rival that is most likely the best, of those that are shown to be better if any is; none
    that breaks a limit or may do less work, or, if possible, is out."""
    states = log.states
    rivals = [rival for rival in rivals_of(log) if not (states[rival].broken or states[rival].lost)]
    racing = [trial for trial in rivals if not states[trial].is_eliminated()]
    levels, cost, epsilon = levels_of(log), log.log_cost(), log.rules.log_epsilon
    found = (strongest(levels, trials, cost, epsilon) for trials in (racing, rivals))
    best = next((each for each in found if each is not None), None)
    over = gains_of(log).over(BASELINE)
    is_shown = ((over.low > 0) & (over.estimate >= epsilon)).tolist()
    shown = strongest(levels, [each for each in rivals if is_shown[each]], cost, epsilon)
    return best if best is None or shown is None or is_shown[best] else shown


def not_excluded(log: StudyLog, best: int) -> Sequence[int]:
    """The trials, without the baseline, that may be more than epsilon better than `best`."""
    return may_gain(log, best, log.rules.log_epsilon)


@of_log
def may_gain(log: StudyLog, best: int, more_than: float) -> Sequence[int]:
    """The trials, without the baseline, that may be better than `best` by more than this log."""
    most, is_dominated = gains_of(log).over(best).high, dominated(log.matrix("race"), best)
    is_less = (most <= more_than).tolist()
    return [
        trial
        for trial in log.compared
        if trial not in (best, BASELINE)
        and not (is_less[trial] or is_dominated[trial])
        and behind_in_first_world(log, trial, best) is None
    ]


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
        gain = gains_of(log).mean(trial, BASELINE)
        if gain is None:
            gain = behind_in_first_world(log, BASELINE, trial)
        if gain is not None and gain > math.log(DOMINATED_RATIO) and not log.states[trial].breaks:
            gains[trial] = gain
    if log.states[BASELINE].never_ran() or not gains:
        return None
    best = max(gains, key=gains.__getitem__)
    value, other = log.value(best), log.value(BASELINE)
    worlds = len(log.trials[best].samples)
    if value is None or other is None:
        firsts = (log.calibration(best), log.calibration(BASELINE))
        value, other = (log.plan.objective.value(first) for first in firsts if first is not None)
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
        for failure in worlds.failures if worlds.ran else ():
            kind = failure_signature(failure.failure, failure.message)
            found.setdefault(kind, (failure, Counter()))[1][trial] += 1
    ordered = sorted(found.values(), key=lambda kind: -kind[1].total())
    return tuple(Cause(first.failure, first.message, counts) for first, counts in ordered)


def fails_more_often(log: StudyLog, trial: int) -> bool:
    """Whether a trial that has failed again is shown to fail more often than the others."""
    ran = {each: worlds.ran for each, worlds in enumerate(log.trials) if worlds.ran}
    out = {each for each in ran if log.states[each].unreliable or log.states[each].wrong_answer}
    others = ran.keys() - {trial, *out}
    failed = len(log.trials[trial].failures)
    if not (failed and trial in ran and others):
        return False
    others_failed = sum(len(log.trials[other].failures) for other in others)
    others_worlds = others_failed + sum(ran[other] for other in others)
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
