"""From the log to the conclusion: pure, so that an interrupted study can be concluded too."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tuner.decide.gains import LEAST_BLOCKS, BlockGains
from tuner.decide.ranking import best_measured, cheapest
from tuner.decide.statistics import Interval, blocks_needed, interval, variance_between
from tuner.decide.verdict import Comparison, VerdictKind, compare, enough_reach
from tuner.study.evidence import (
    gains_of,
    leader,
    levels_of,
    may_gain,
    not_excluded,
    rivals_of,
    strongest_rival,
    worlds_without_spikes,
)
from tuner.study.log import BASELINE, StudyLog, of_log
from tuner.study.records import AGAIN
from tuner.text import MOST_RATIO

LEAST_WORLDS = 4  # that a recommendation rests on where there is no baseline to compare with
_LESS_ALPHA = 1.8  # a continued study has less of alpha: it takes so many times as many blocks
_SAME = Interval(1.0, 1.0, 1.0)

# What a gain is told from: 0 or epsilon, or epsilon alone; or how well it is to be known.
_Sides = Literal["either", "epsilon", "width"]


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What the log says, by trial number. By default that is nothing, as of an unfinished study."""

    verdict: VerdictKind | None = None
    """`better`, `tie`, `keep-baseline` or `undecided`; None if the study was interrupted or nothing
    could run."""
    best_trial: int | None = None
    """The trial to use: the baseline unless another is shown to be at least as good. None without a
    verdict, or if the baseline failed or breaks a limit and nothing else keeps them."""
    speedup: Interval | None = None
    """Baseline / best, paired within blocks; None when too few were measured to tell."""
    challenger_trial: int | None = None
    """The strongest rival of the baseline."""
    challenger_speedup: Interval | None = None
    """Baseline / challenger; None as for `speedup`."""
    tied_trials: frozenset[int] = frozenset()
    """Trials within epsilon of the best, as far as measured; the best is among them."""
    epsilon_achieved: float | None = None
    """The best is shown to be at most this fraction slower than any other; None: not shown."""
    not_excluded: tuple[int, ...] = ()
    """Trials that may be more than epsilon better than the best, as far as measured."""
    not_told_apart: tuple[int, ...] = ()
    """Trials that are not shown to be worse than the best; those not excluded are among them."""
    leader_trial: int | None = None
    """The trial that is most likely the best: what to bet on, not what is shown."""
    more_s: float | None = None
    """About how many more seconds would decide; None if it is decided, or cannot be told."""
    noise_floor: Interval | None = None
    """Baseline / baseline, from its two worlds in each block: what no difference looks like."""
    least_gain: float | None = None
    """The smallest gain over the baseline that these blocks could have shown, a fraction."""


def conclude(log: StudyLog) -> Conclusion:
    """The conclusion; it has no verdict if no configuration at all could run."""
    if not log.alive or (log.failures and not log.runnable):
        return Conclusion()
    baseline = log.states[BASELINE]
    challenger = None if baseline.never_ran() else strongest_rival(log)
    comparison = None if challenger is None else comparison_of(log)
    best: int | None
    kind: VerdictKind
    if baseline.never_ran():
        best = leader(log)
        if best is None:  # else one of the eliminated
            best = best_measured(levels_of(log).best, log.alive)
        if best is None:
            best = _best_in_first_world(log)
        rests = best is not None and len(log.trials[best].samples) >= LEAST_WORLDS
        kind = "better" if rests else "undecided"
    elif baseline.broken or baseline.unreliable:
        # It cannot be kept, however fast it is; what it loses or gains is said all the same.
        best, kind = challenger, "undecided" if challenger is None else "better"
        if best is None and baseline.unreliable:
            best = _best_in_first_world(log)
    elif comparison is None:
        is_alone = log.alive == (BASELINE,) and log.reaches_all and baseline.has_run
        best, kind = BASELINE, "keep-baseline" if is_alone else "undecided"
    else:
        kind = comparison.kind
        best = challenger if kind in ("better", "tie") else BASELINE
    worlds, alpha = worlds_without_spikes(log), log.rules.alpha / 2
    noise = BlockGains.of(worlds, BASELINE).interval(AGAIN, alpha, alpha)
    speedup = None if comparison is None else comparison.speedup
    gain = None if comparison is None else comparison.log_speedup
    found = Conclusion(
        verdict=kind,
        best_trial=best,
        speedup=speedup if best == challenger else _SAME if best == BASELINE else None,
        challenger_trial=challenger,
        challenger_speedup=speedup,
        leader_trial=_leader(log, best, challenger) if kind == "undecided" else best,
        more_s=seconds_to_clear(log, by_intervals=True) if kind == "undecided" else None,
        noise_floor=noise and noise.exp(),
        # A gain as large as the lower end is from the estimate would have been told from none.
        least_gain=None if gain is None else math.expm1(gain.estimate - gain.low),
    )
    if best is None:
        return found
    is_near = np.abs(gains_of(log).so_far(best).mean) <= log.rules.log_epsilon
    near = [trial for trial in log.alive if is_near[trial]]
    return replace(
        found,
        tied_trials=frozenset({best, *near}),
        epsilon_achieved=_epsilon_achieved(log, best),
        not_excluded=tuple(not_excluded(log, best)),
        not_told_apart=tuple(may_gain(log, best, 0.0)),
    )


def _best_in_first_world(log: StudyLog) -> int | None:
    """The trial that did best in its first world: beside a baseline that fails, one that has run is
    what to bet on."""
    rivals = [trial for trial in log.runnable if trial != BASELINE and not log.states[trial].breaks]
    return min(rivals, key=log.first_cost, default=None)


@of_log
def comparison_of(log: StudyLog, without: frozenset[int] = frozenset()) -> Comparison:
    """The strongest rival against the baseline at the last look, and all others excluded or not;
    `without` some of these."""
    rival = strongest_rival(log)
    if rival is None:
        return Comparison(None, "undecided")
    cheaper = _is_cheaper(log, rival)
    others = {*not_excluded(log, BASELINE)}.difference((rival, *without))
    gain = gains_of(log).gain(rival, BASELINE)
    return compare(gain, log.rules, rival_cheaper=cheaper, others_excluded=not others)


def _is_cheaper(log: StudyLog, rival: int) -> bool:
    """Whether a rival has fewer threads than the baseline for as much CPU, or is shown to cost
    less CPU: that varies as time does."""
    if cheapest([BASELINE, rival], log.log_cost(), log.threads()) != rival:
        return False
    if log.threads()[rival] < log.threads()[BASELINE]:
        return True
    own, its = (dict(zip(trial.blocks, trial.cpu_costs, strict=True))
                for trial in (log.trials[BASELINE], log.trials[rival]))  # fmt: skip
    saved = np.array([own[block] - its[block] for block in own.keys() & its.keys()])
    shown = interval(saved, 1 - log.rules.alpha, comparisons=len(rivals_of(log)))
    return shown is not None and shown.low > 0


def _leader(log: StudyLog, best: int | None, challenger: int | None) -> int | None:
    """The challenger if all blocks together have it ahead of the baseline."""
    if challenger is None or best is None:
        return best
    gain = gains_of(log).mean(challenger, BASELINE)
    return BASELINE if gain is None or gain <= 0 else challenger


def seconds_to_clear(
    log: StudyLog, errors: float = 0.0, *, by_intervals: bool = False
) -> float | None:
    """About how many more seconds of worlds would make the answer clear; None if unknown.

    With luck: where gains are so many standard `errors` farther from what they must be told from
    than they look. Or `by_intervals`, too, which reach farther after an early look.
    """
    between = variance_between(worlds_without_spikes(log))
    if strongest_rival(log) is None or between is None or log.states[BASELINE].never_ran():
        return None
    gains = gains_of(log)
    seconds = log.block_s([BASELINE, AGAIN])
    longest = 0.0
    for trial, reference, sides in _to_tell(log):
        gain, blocks = gains.mean(trial, reference), int(gains.so_far(reference).counts[trial])
        if gain is None:
            return None
        error = math.sqrt(1.5 * between / blocks)
        distance = _distance(gain, log.rules.log_epsilon, sides)
        if sides != "width":
            distance += errors * error
        needed = blocks_needed(between, distance)
        if by_intervals and (found := gains.gain(trial, reference)) is not None:
            is_low = sides == "either" and found.estimate >= log.rules.log_epsilon
            reach = found.estimate - found.low if is_low else found.high - found.estimate
            if reach > math.log(MOST_RATIO):
                return None  # too wide to say
            needed = max(needed, _LESS_ALPHA * blocks * (reach / distance) ** 2)
        more = max(1.0, needed - blocks)
        seconds += more * log.world_s(trial)
        longest = max(longest, more)
    return seconds + longest * log.block_s([BASELINE, AGAIN])


def resume_budget_s(log: StudyLog, elapsed_s: float, more_s: float | None = None) -> int:
    """The least budget to resume a study with, in tens of seconds: `elapsed_s` was spent for it,
    and `more_s` would decide from here on, if that is known."""
    measuring = log.plan.measuring
    # A finished study is only gone on with by more than it had; what is a limit can be spent.
    had_s = 0.0 if measuring.until_clear else measuring.budget_s
    least_s = elapsed_s + max(math.ceil(more_s or 0.0), _least_more_s(log))
    return 10 * max(math.ceil(least_s / 10), math.floor(had_s / 10) + 1)


def _least_more_s(log: StudyLog) -> float:
    """About how long first worlds take of those that had none, and blocks that give an interval."""
    runnable = log.runnable
    new = {*log.compared}.difference(runnable)
    new_s = len(new) * max((log.world_s(trial) for trial in runnable), default=0.0)
    return new_s + LEAST_BLOCKS * (log.block_s([AGAIN, *runnable]) + new_s)


def _to_tell(log: StudyLog) -> list[tuple[int, int, _Sides]]:
    """Which trial's gain over which other one is to be told yet, and from what.

    While it is undecided: the strongest rival's where it looks like a gain, else all of them. Then
    the rival's is known too roughly, or others may be better.
    """
    rival, comparison = strongest_rival(log), comparison_of(log)
    assert rival is not None
    if comparison.kind == "undecided":
        gain = gains_of(log).mean(rival, BASELINE)
        if gain is not None and gain >= log.rules.log_epsilon:
            return [(rival, BASELINE, "either")]
        others = [trial for trial in not_excluded(log, BASELINE) if trial != rival]
        return [(rival, BASELINE, "either"), *((trial, BASELINE, "epsilon") for trial in others)]
    others = []
    if comparison.kind == "better":
        racing = {*rivals_of(log)}.difference(log.eliminated)
        others = [trial for trial in not_excluded(log, rival) if trial in racing]
    return [(rival, BASELINE, "width"), *((trial, rival, "epsilon") for trial in others)]


def _distance(gain: float, epsilon: float, sides: _Sides) -> float:
    """How far a gain is from what it must be told from."""
    if sides == "width":
        return enough_reach(gain)
    # A gain of about epsilon is told by no number of blocks: half of it is what is aimed at.
    return max(gain if sides == "either" and gain >= epsilon else epsilon - gain, epsilon / 2)


def _epsilon_achieved(log: StudyLog, best: int) -> float | None:
    """How much better another one may be, from the same intervals as the verdict."""
    gains = [gains_of(log).gain(trial, best) for trial in log.compared if trial != best]
    known = [gain.high for gain in gains if gain is not None]
    return max(0.0, math.expm1(max(known))) if known and len(known) == len(gains) else None
