"""From the log to the conclusion: pure, so that an interrupted study can be concluded too."""

from dataclasses import dataclass

from tuner.decide.alpha_spending import Look
from tuner.decide.race import epsilon_achieved
from tuner.decide.ranking import best_measured, cheapest
from tuner.decide.statistics import differences, typical
from tuner.decide.verdict import UNCOMPARED, Comparison, compare
from tuner.decide.verdict_kind import VerdictKind
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
        best = challenger if kind in ("better", "tie") else BASELINE
    return Conclusion(
        kind=kind,
        best=best,
        comparison=comparison,
        challenger=challenger,
        tied=frozenset() if best is None else _tied(log, best),
        epsilon_achieved=None if best is None else _epsilon_achieved(log, best),
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
