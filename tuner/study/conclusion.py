"""From the log to the conclusion: pure, so that an interrupted study can be concluded too."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.decide.alpha_spending import Look
from tuner.decide.precision import pairs_needed, variance_between
from tuner.decide.race import epsilon_achieved
from tuner.decide.ranking import best_measured, cheapest
from tuner.decide.statistics import differences, typical
from tuner.decide.verdict import UNCOMPARED, Comparison, compare
from tuner.decide.verdict_kind import VerdictKind
from tuner.study.confirmation import Confirmation
from tuner.study.evidence import not_excluded, paired
from tuner.study.log import BASELINE, StudyLog

# The worlds that a recommendation rests on at least where there is no baseline to compare with.
LEAST_WORLDS = 4


@dataclass(frozen=True)
class Conclusion:
    """What the log says, by trial number."""

    kind: VerdictKind
    best: int | None
    """The trial to use: the baseline unless another is shown to be at least as good. None if the
    baseline failed or breaks a limit, and nothing else was measured that keeps them."""
    comparison: Comparison | None
    """The challenger against the baseline; None when there was nothing to compare."""
    challenger: int | None
    tied: frozenset[int]
    """Trials within epsilon of the best, as far as measured; the best is among them."""
    epsilon_achieved: float | None
    """The best is shown to be at most this fraction slower than any other; None: not shown."""
    not_excluded: tuple[int, ...] = ()
    """Trials that may be more than epsilon better than the best, as far as measured."""
    leader: int | None = None
    """The trial that is most likely the best, as far as measured: what to bet on, not what is
    shown."""
    more_s: float | None = None
    """About how many more seconds would decide; None if it is decided, or nobody can tell."""


def conclude(log: StudyLog) -> Conclusion | None:
    """The conclusion, or None if no configuration at all could run."""
    if not log.alive:
        return None
    challenger = log.confirmation.challenger if log.confirmation else None
    if challenger not in log.alive or log.broken(challenger):
        challenger = None
    comparison = None
    best: int | None
    kind: VerdictKind
    if BASELINE in log.failures:
        best, challenger = best_without_baseline(log), None
        rests = best is not None and len(log.samples(best)) >= LEAST_WORLDS
        kind = "better" if rests else "undecided"
    elif log.broken(BASELINE):
        # It cannot be kept, however fast it is; what it loses or gains is said all the same.
        best, kind = challenger, "undecided" if challenger is None else "better"
        comparison = None if challenger is None else comparison_of(log)
    elif challenger is None:
        best, kind = BASELINE, "keep-baseline" if log.alive == [BASELINE] else "undecided"
    else:
        comparison = comparison_of(log)
        kind = comparison.kind
        # "No rival is more than epsilon better" takes evidence about every one of them.
        if kind in ("keep-baseline", "tie") and not_excluded(log, BASELINE):
            kind = "undecided"
        best = challenger if kind in ("better", "tie") else BASELINE
    return Conclusion(
        kind=kind,
        best=best,
        comparison=comparison,
        challenger=challenger,
        tied=frozenset() if best is None else _tied(log, best),
        epsilon_achieved=None if best is None else _epsilon_achieved(log, best),
        not_excluded=() if best is None else tuple(not_excluded(log, best)),
        leader=_leader(log, best, challenger) if kind == "undecided" else best,
        more_s=seconds_to_decide(log) if kind == "undecided" else None,
    )


def best_without_baseline(log: StudyLog) -> int | None:
    """The best of what was measured where the baseline cannot run; None if no block measured any.

    Who was eliminated counts only if no candidate was measured.
    """
    matrix = log.matrix("race", "confirmation")
    found = best_measured(matrix, log.candidates)
    return best_measured(matrix, log.alive) if found is None else found


def comparison_of(log: StudyLog) -> Comparison:
    """Challenger against baseline at the last look that was taken: what is said is what was tested.

    Without a look there is nothing to say.
    """
    confirmation = log.confirmation
    if confirmation is None or not confirmation.looks:
        return UNCOMPARED
    return comparison_at(log, confirmation.challenger, confirmation.looks[-1])


def comparison_at(log: StudyLog, challenger: int, look: Look) -> Comparison:
    """Challenger against baseline at one look, from the confirmation's worlds alone."""
    pairs = log.pairs(challenger)[: look.pairs]
    cheaper = cheapest([BASELINE, challenger], log.log_cost(), log.threads())
    return compare(
        pairs[:, 0],
        pairs[:, 1],
        alpha=look.alpha,
        rules=log.rules,
        challenger_cheaper=cheaper == challenger,
    )


def _leader(log: StudyLog, best: int | None, challenger: int | None) -> int | None:
    """The challenger if all blocks together have it ahead of the baseline."""
    if challenger is None or best is None:
        return best
    both = paired(log, [BASELINE, challenger])
    gain = differences(both[:, 0], both[:, 1])
    return challenger if len(gain) and typical(gain) > 0 else BASELINE


def is_clear(log: StudyLog) -> bool:
    """Whether the answer is clear: a verdict, and a speed-up that is known well enough."""
    conclusion = conclude(log)
    if conclusion is None or conclusion.comparison is None:
        return conclusion is None or conclusion.kind != "undecided"
    return conclusion.kind != "undecided" and conclusion.comparison.is_clear


def seconds_to_decide(log: StudyLog, rest: Sequence[int] | None = None) -> float | None:
    """About how many more seconds of worlds would decide; None if too little is known to tell.

    The challenger needs as many pairs as tell its gain, as it looks now, from the nearer of 0 and
    epsilon; the others as many blocks as tell epsilon from no gain.

    Args:
        log: What was measured.
        rest: The other rivals that are not excluded, if that is known.
    """
    confirmation = log.confirmation
    if confirmation is None or BASELINE in log.failures:
        return None
    pair = [BASELINE, confirmation.challenger]
    between = variance_between(paired(log, pair))
    if between is None:
        return None
    epsilon, pair_s = log.rules.log_epsilon, log.block_s(pair)
    seconds = 0.0
    comparison = comparison_of(log)
    if comparison.kind == "undecided":
        seconds = pair_s * _more_pairs(log, confirmation, comparison, between)
    if rest is None:
        rest = not_excluded(log, BASELINE)
    if rest:
        if not all(log.samples(trial) for trial in rest):
            return None
        least = min(len(log.samples(trial)) for trial in rest)
        blocks = max(1.0, pairs_needed(between, epsilon) - least)
        seconds += blocks * log.block_s([BASELINE, *rest])
    return seconds


def _more_pairs(
    log: StudyLog, confirmation: Confirmation, comparison: Comparison, between: float
) -> float:
    epsilon, found = log.rules.log_epsilon, comparison.log_speedup
    gain = 0.0 if found is None else found.estimate
    # A gain of about epsilon is told by no number of pairs: half of epsilon is what is aimed at.
    distance = max(gain if gain >= epsilon else epsilon - gain, epsilon / 2)
    return max(1.0, pairs_needed(between, distance) - len(log.pairs(confirmation.challenger)))


def _tied(log: StudyLog, best: int) -> frozenset[int]:
    matrix = log.matrix("race", "confirmation")
    tied = {best}
    for other in log.alive:
        behind = differences(matrix[:, other], matrix[:, best])
        if len(behind) and abs(typical(behind)) <= log.rules.log_epsilon:
            tied.add(other)
    return frozenset(tied)


def _epsilon_achieved(log: StudyLog, best: int) -> float | None:
    others = [trial for trial in log.compared if trial != best]
    if not others:
        return None
    return epsilon_achieved(log.matrix("race", "confirmation"), best, others, log.rules)
