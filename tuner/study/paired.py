"""How a trial compares with another one: within the blocks that measured both, and only there."""

import math
import statistics
from collections.abc import Iterable, Iterator

import numpy as np

from tuner.decide.statistics import Interval, paired_ratio
from tuner.plan.objectives import Objective
from tuner.study.log import BLOCK_PHASES, StudyLog
from tuner.study.trial_row import Observation, Paired
from tuner.world.measurement import Measurement

LEAST_BLOCKS = 3
"""Fewer tell no interval: two that happen to agree would look like certainty."""


class PairedTrials:
    """The worlds of a study by block, from which any two trials are compared.

    Args:
        objective: What the worlds are compared by.
        confidence: That of the intervals.
        observations: The worlds that count.
    """

    def __init__(
        self, objective: Objective, confidence: float, observations: Iterable[Observation]
    ) -> None:
        self._confidence = confidence
        worlds: dict[int, dict[int, list[float]]] = {}
        for seen in observations:
            costs = worlds.setdefault(seen.trial, {}).setdefault(seen.block, [])
            costs.append(objective.cost(seen.value))
        # A block may measure the baseline twice.
        self._costs = {
            trial: {block: statistics.fmean(costs) for block, costs in blocks.items()}
            for trial, blocks in worlds.items()
        }

    def compare(self, trial: int, reference: int) -> Paired | None:
        """How many times as fast, or as good, a trial is as a reference; None without a block."""
        own, its = self._costs.get(trial, {}), self._costs.get(reference, {})
        blocks = sorted(own.keys() & its.keys())
        if trial == reference and blocks:
            return Paired(Interval(1.0, 1.0, 1.0), len(blocks))
        ratio = paired_ratio(
            np.array([its[block] for block in blocks]),
            np.array([own[block] for block in blocks]),
            self._confidence,
        )
        if ratio is None:
            return None
        if len(blocks) < LEAST_BLOCKS:
            ratio = Interval(ratio.estimate, 0.0, math.inf)
        return Paired(ratio, len(blocks))


def observations_of(log: StudyLog) -> Iterator[Observation]:
    """The worlds of a log that count, in the order in which they were measured."""
    objective = log.plan.objective
    for record in log.records:
        if record.phase in BLOCK_PHASES and isinstance(record.outcome, Measurement):
            value = objective.value(record.outcome)
            yield Observation(record.trial, record.block, record.phase, value)


def paired_trials_of(log: StudyLog) -> PairedTrials:
    """The trials of a log, to be compared."""
    return PairedTrials(log.plan.objective, log.rules.confidence, observations_of(log))
