"""From the log to the conclusion: pure, so that an interrupted study can be concluded too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.decide.race import SAME_COST, cheapest, epsilon_achieved
from tuner.decide.statistics import differences, typical
from tuner.decide.verdict import Comparison, compare
from tuner.decide.verdict_kind import VerdictKind
from tuner.study.log import BASELINE, StudyLog


@dataclass(frozen=True)
class Conclusion:
    """What the log says, by trial number."""

    kind: VerdictKind
    best: int
    """The settings to use: the baseline unless others are shown to be at least as good."""
    comparison: Comparison | None
    """The challenger against the baseline; None when there was nothing to compare."""
    challenger: int | None
    tied: frozenset[int]
    """Trials within epsilon of the best, as far as measured; the best is among them."""
    epsilon_achieved: float | None
    """The best is shown to be at most this fraction slower than any other; None: not shown."""


def pick_challenger(log: StudyLog, near_optimal: Sequence[int]) -> int | None:
    """The settings to put against the baseline on fresh worlds, or None if there is no other.

    The cheapest certified one; without any, the one with the best score, or of those within
    epsilon of it the one that costs clearly less CPU. Where that is the baseline itself, the same
    among the rest, so that "keep the baseline" is measured as carefully as "better".
    """
    cost = log.log_cost()
    if near_optimal and (chosen := cheapest(near_optimal, cost, log.threads())) != BASELINE:
        return chosen
    for trials in (log.candidates, log.alive):
        rivals = [trial for trial in trials if trial != BASELINE]
        if (best := log.best_of(rivals)) is not None:
            # Without certainty fewer threads are no argument: the score is the better guess.
            cheaper = [t for t in log.near_best(rivals) if cost[t] < cost[best] - SAME_COST]
            return min(cheaper, key=lambda trial: cost[trial], default=best)
    return None


def conclude(log: StudyLog) -> Conclusion | None:
    """The conclusion, or None if no settings at all could run."""
    if not log.alive:
        return None
    challenger = log.confirmation.challenger if log.confirmation else None
    if challenger in log.failures:
        challenger = None
    comparison = None
    kind: VerdictKind
    if BASELINE not in log.alive:
        found = log.best_of(log.candidates)
        best, kind, challenger = log.alive[0] if found is None else found, "better", None
    elif challenger is None:
        best, kind = BASELINE, "keep-baseline" if log.alive == [BASELINE] else "undecided"
    else:
        comparison = compare_pairs(log, over=True)
        kind = comparison.kind
        best = challenger if kind in ("better", "tie") else BASELINE
    return Conclusion(
        kind=kind,
        best=best,
        comparison=comparison,
        challenger=challenger,
        tied=_tied(log, best),
        epsilon_achieved=_epsilon_achieved(log, best),
    )


def compare_pairs(log: StudyLog, *, over: bool) -> Comparison:
    """Challenger against baseline, from the confirmation's worlds alone.

    `over` says that no more pairs will come.
    """
    assert log.confirmation is not None
    challenger, cap = log.confirmation
    pairs = log.matrix("confirmation")[:, [BASELINE, challenger]]
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    cheaper = cheapest([BASELINE, challenger], log.log_cost(), log.threads())
    return compare(
        pairs[:, 0],
        pairs[:, 1],
        cap=cap,
        over=over,
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
    others = [trial for trial in log.alive if trial != best]
    if not others:
        return None
    return epsilon_achieved(log.matrix("race", "confirmation"), best, others, log.rules)
