"""The race: blocks of all candidates, until it is known which rival is to meet the baseline."""

import math

from tuner.decide.precision import pairs_needed, variance_between
from tuner.decide.race import Decision, decide, near_optimal_of_race
from tuner.decide.statistics import differences, typical
from tuner.searching.measurer import Measurer
from tuner.study.log import BASELINE

# Bounds of the race's part of the budget: it finds what to claim, the confirmation carries it.
LEAST_SHARE = 0.2
MOST_SHARE = 0.5
# Where no budget like this tells the gain.
HOPELESS_SHARE = 0.4
# The leader of a race looks better than it is.
MARGIN = 1.5


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
    """The race's part of the budget: what the confirmation does not need, within bounds.

    It needs as many pairs as tell the gain of the leader, as it looks now. Where no budget like
    this tells that, a better choice of the leader is worth more than a narrower interval.
    """
    log = measurer.log
    matrix, leader = log.matrix("race"), log.leader()
    between = variance_between(matrix)
    if between is None or leader is None or BASELINE in log.failures:
        return MOST_SHARE
    if leader == BASELINE:
        leader = next(trial for trial in log.candidates if trial != BASELINE)
    gain = typical(differences(matrix[:, BASELINE], matrix[:, leader]))
    return race_share(
        between,
        max(gain, log.rules.log_epsilon),
        pair_s=measurer.block_s([BASELINE, leader]),
        left_s=measurer.budget.total_s - start_s,
    )


def race_share(between: float, log_gain: float, *, pair_s: float, left_s: float) -> float:
    """The race's part of what is left of a budget, where its leader gains so much.

    Args:
        between: The variance of log(objective) between worlds.
        log_gain: The logarithm of the gain that the confirmation is to tell.
        pair_s: Seconds that a pair of worlds takes.
        left_s: Seconds that are left when the race begins.
    """
    free = 1 - MARGIN * pairs_needed(between, log_gain) * pair_s / max(1e-9, left_s)
    return HOPELESS_SHARE if free < LEAST_SHARE else min(MOST_SHARE, free)


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
    if log.sampling is not None and log.sampling.went_on is not None:
        return len(log.sampling.went_on)
    return sum(log.calibration(trial) is not None for trial in range(len(log.configs)))
