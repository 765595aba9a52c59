"""The race: blocks of all candidates, until it is known which rival is to meet the baseline."""

import math

from tuner.decide.precision import pairs_needed, variance_between
from tuner.decide.race import Decision, decide, near_optimal_of_race
from tuner.searching.measurer import Measurer
from tuner.study.log import BASELINE

# The confirmation carries the claim, so it gets the larger part of the budget, but it needs no more
# than tells epsilon.
LEAST_SHARE = 0.2
MOST_SHARE = 0.4


def race(measurer: Measurer) -> None:
    """Measure blocks and drop candidates, until one rival is left or the race's share is spent."""
    log, budget = measurer.log, measurer.budget
    measurer.begin("race")
    measurer.finish_open_block(log.racing)
    # Noted once, so that a resumed race goes on with the share and the cap it began with.
    start_s = measurer.noted_once("race_started_s", budget.spent_s)
    race_s = max(1e-9, (budget.total_s - start_s) * MOST_SHARE)
    cap = int(measurer.noted_once("race_cap", _affordable_blocks(measurer, race_s)))
    while len([trial for trial in log.candidates if trial != BASELINE]) > 1:
        blocks, spent_s = log.blocks("race"), budget.spent_s - start_s
        race_s = max(1e-9, (budget.total_s - start_s) * _share(measurer, start_s))
        if budget.remaining_s < measurer.block_s(log.racing):
            return
        if blocks:
            spent = blocks / cap if measurer.measuring.max_blocks is not None else 0.0
            decision = _decision(measurer, cap, max(spent, spent_s / race_s))
            for trial, reason in decision.dropped.items():
                measurer.eliminate(trial, reason)
            # A block that would outlive the race's share is not begun.
            if decision.finished or spent_s + measurer.block_s(log.racing) > race_s:
                return
        measurer.measure_block(log.racing)


def shown_near_optimal(measurer: Measurer) -> list[int]:
    """The candidates that the race has shown to be at most epsilon slower than each other one."""
    log, cap = measurer.log, measurer.store.noted("race_cap")
    return near_optimal_of_race(
        log.matrix("race"),
        log.candidates,
        initial=_calibrated(measurer),
        cap=int(cap),
        rules=log.rules,
    )


def _share(measurer: Measurer, start_s: float) -> float:
    """The race's part of the budget: what the confirmation does not need, within bounds."""
    log = measurer.log
    between = variance_between(log.matrix("race"))
    if between is None:
        return MOST_SHARE
    rival = next(trial for trial in log.candidates if trial != BASELINE)
    needed_s = pairs_needed(between, log.rules.log_epsilon) * measurer.block_s([BASELINE, rival])
    free = 1 - needed_s / max(1e-9, measurer.budget.total_s - start_s)
    return min(MOST_SHARE, max(LEAST_SHARE, free))


def _affordable_blocks(measurer: Measurer, race_s: float) -> int:
    blocks = race_s / max(1e-9, measurer.block_s(measurer.log.racing))
    if (max_blocks := measurer.measuring.max_blocks) is not None:
        blocks = min(blocks, max_blocks * MOST_SHARE)
    return max(1, math.floor(blocks))


def _decision(measurer: Measurer, cap: int, fraction: float) -> Decision:
    log = measurer.log
    return decide(
        log.matrix("race"),
        log.candidates,
        log.log_cost(),
        initial=_calibrated(measurer),
        cap=cap,
        fraction=fraction,
        rules=log.rules,
    )


def _calibrated(measurer: Measurer) -> int:
    """The number of configurations that ran at all: those that the race began with."""
    log = measurer.log
    return sum(log.calibration(trial) is not None for trial in range(len(log.configs)))
