"""The confirmation: the strongest rival against the baseline, on worlds that chose neither."""

import math
from collections.abc import Sequence

from tuner.decide.alpha_spending import due_look, left_of, taking
from tuner.decide.ranking import cheapest, strongest
from tuner.decide.statistics import typical
from tuner.searching.excluding import Exclusion
from tuner.searching.measurer import Measurer
from tuner.searching.racing import shown_near_optimal
from tuner.study.conclusion import (
    LEAST_WORLDS,
    best_without_baseline,
    comparison_at,
    seconds_to_decide,
)
from tuner.study.confirmation import Confirmation
from tuner.study.log import BASELINE, StudyLog

# Fewer pairs do not tell whether the challenger gains anything.
LEAST_PAIRS_TO_GUESS = 8


def confirm(measurer: Measurer) -> None:
    """Measure pairs of the challenger and the baseline, until a look is clear or all is spent.

    A challenger that fails is replaced by the next one. If the baseline fails, there is nothing to
    compare with: then the best of the others is measured until a recommendation can rest on it.
    """
    log = measurer.log
    measurer.begin("confirmation")
    if log.confirmation is not None:
        measurer.finish_open_block([BASELINE, log.confirmation.challenger])
        _use_larger_budget(measurer, log.confirmation)
    exclusion = Exclusion(measurer)
    while BASELINE not in log.failures:
        confirmation = log.confirmation
        if confirmation is None or confirmation.challenger not in log.alive:
            confirmation = _begin(measurer, confirmation)
        if confirmation is None:
            return
        if _is_over(measurer, confirmation):
            exclusion.finish()
            return
        measurer.measure_block(
            [BASELINE, confirmation.challenger, *_companions(measurer, exclusion)]
        )
    _measure_without_baseline(measurer)


def pick_challenger(log: StudyLog, near_optimal: Sequence[int]) -> int | None:
    """The trial to compare with the baseline on fresh worlds.

    It is the cheapest near-optimal one; without any, the strongest of those still in the race.
    Where that is the baseline itself, it is the strongest of the others, so that "keep the
    baseline" is measured as carefully as "better".

    Args:
        log: What was measured.
        near_optimal: The trials that the race has shown to be near-optimal.

    Returns:
        A trial that can run; None if there is none but the baseline.
    """
    matrix, cost = log.matrix("race"), log.log_cost()
    if near_optimal and (chosen := cheapest(near_optimal, cost, log.threads())) != BASELINE:
        return chosen
    runnable = [trial for trial in log.runnable if trial != BASELINE]
    racing = [trial for trial in runnable if trial not in log.eliminated]
    found = strongest(matrix, racing, cost, log.rules.log_epsilon)
    return strongest(matrix, runnable, cost, log.rules.log_epsilon) if found is None else found


def next_challenger(measurer: Measurer) -> int | None:
    """The trial that meets the baseline next; None if none can."""
    return pick_challenger(measurer.log, shown_near_optimal(measurer))


def _companions(measurer: Measurer, exclusion: Exclusion) -> list[int]:
    """The rivals to measure along with the pair: those to be excluded, if there is time for that.

    They share the baseline's world, which would otherwise be run for them alone. Where the
    challenger gains something, or where the time is too short to exclude them all, they would only
    make its interval wider.
    """
    log = measurer.log
    assert log.confirmation is not None
    pairs = log.pairs(log.confirmation.challenger)
    if len(pairs) < LEAST_PAIRS_TO_GUESS:
        return []
    if typical(pairs[:, 0] - pairs[:, 1]) >= log.rules.log_epsilon:
        return []
    rest = exclusion.open
    needed_s = seconds_to_decide(log, rest)
    return rest if needed_s is not None and needed_s <= measurer.budget.remaining_s else []


def _is_over(measurer: Measurer, confirmation: Confirmation) -> bool:
    """Take the look that is due, and say whether no further pair is to be measured."""
    log, challenger = measurer.log, confirmation.challenger
    pairs = len(log.pairs(challenger))
    over = pairs >= confirmation.cap or measurer.blocks_left([BASELINE, challenger]) < 1
    look = due_look(pairs, confirmation.cap, confirmation.looks, confirmation.allowed, over=over)
    if look is not None:
        confirmation = confirmation.model_copy(update={"looks": taking(confirmation.looks, look)})
        measurer.keep(confirmation)
    spent = [each.alpha for each in confirmation.looks]
    if over or not left_of(confirmation.allowed, spent):
        return True
    looks = confirmation.looks
    if not looks or looks[-1].pairs != pairs or pairs <= confirmation.begun_pairs:
        return False
    return comparison_at(log, challenger, looks[-1]).is_clear


def _begin(measurer: Measurer, failed: Confirmation | None) -> Confirmation | None:
    """The confirmation of the next challenger; None if there is none.

    It spends what is left of alpha by the one whose challenger has failed.
    """
    log = measurer.log
    challenger = next_challenger(measurer)
    if challenger is None:
        return None
    confirmation = Confirmation(
        challenger=challenger,
        cap=math.floor(measurer.blocks_left([BASELINE, challenger])),
        budget_s=measurer.budget.total_s,
        alpha=log.rules.alpha if failed is None else failed.alpha_left,
    )
    measurer.readmit(challenger)
    measurer.keep(confirmation)
    measurer.observer.on_event(
        f"confirming {log.configs[challenger]} against the baseline "
        f"{log.configs[BASELINE]} on fresh worlds"
    )
    return confirmation


def _use_larger_budget(measurer: Measurer, confirmation: Confirmation) -> None:
    """Raise the cap of a resumed confirmation, if the budget has grown since it was fixed."""
    challenger, total_s = confirmation.challenger, measurer.budget.total_s
    if total_s > confirmation.budget_s:
        pairs = len(measurer.log.pairs(challenger))
        cap = pairs + math.floor(measurer.blocks_left([BASELINE, challenger]))
        changes = {
            "cap": max(confirmation.cap, cap), "budget_s": total_s, "begun_pairs": pairs,
        }  # fmt: skip
        measurer.keep(confirmation.model_copy(update=changes))


def _measure_without_baseline(measurer: Measurer) -> None:
    """Measure the candidates until a recommendation can rest on the best one's worlds."""
    log = measurer.log
    measurer.begin("race")
    while True:
        best = best_without_baseline(log)
        if best is not None and len(log.samples(best)) >= LEAST_WORLDS:
            return
        trials = log.racing or log.runnable
        if not trials or measurer.blocks_left(trials) < 1:
            return
        measurer.measure_block(trials)
