"""The Pareto front of a study with two objectives, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.decide.statistics import FloatArray, Interval, differences, interval, typical
from tuner.decide.verdict import LEAST_FRONT_BLOCKS, pareto_front
from tuner.plan.config import Config
from tuner.plan.objectives import Objective
from tuner.study.log import BASELINE, BLOCK_PHASES, StudyLog
from tuner.text import MOST_RATIO, MOST_TELLING


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a trial has of one of the two objectives."""

    value: float  # in the objective's unit
    spread: Interval | None  # the value with its interval
    ratio: Interval | None  # to the baseline's within blocks, with all others; None: too few tell

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        return {
            "value": self.value,
            "ci": _ends(self.spread, MOST_TELLING),
            "to_baseline": _ends(self.ratio, MOST_RATIO),
        }


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """One configuration, with both of its objectives."""

    trial: int
    config: Config
    first: Goal
    second: Goal
    in_front: bool  # whether no other configuration is shown to beat it


@dataclass(frozen=True, kw_only=True)
class Front:
    """All configurations that were measured well enough to compare, the best by the first first."""

    first: Objective
    second: Objective
    points: Sequence[FrontPoint]
    uncompared: int  # how many ran, but share too few blocks with the others

    @property
    def trials(self) -> list[int]:
        """The trials of the front."""
        return [point.trial for point in self.points if point.in_front]

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        return {
            "objectives": [self.first.name, self.second.name],
            "configs": [
                {
                    "config": point.config.to_json(),
                    self.first.name: point.first.to_json(),
                    self.second.name: point.second.to_json(),
                }
                for point in self.points
                if point.in_front
            ],
            "beaten": len(self.points) - len(self.trials),
            "not_compared": self.uncompared,
        }


def front_of(log: StudyLog) -> Front | None:
    """The front of a log; None where there is one objective, or nothing to compare."""
    first, second = log.plan.objective, log.plan.second_objective
    if second is None:
        return None
    out = [state.unreliable or state.lost or state.broken for state in log.states]
    ran = [trial for trial in log.runnable if not out[trial]]
    known = [trial for trial in ran if len(log.trials[trial].samples) >= LEAST_FRONT_BLOCKS]
    if not known:
        return None
    matrices = log.matrix(*BLOCK_PHASES), log.matrix(*BLOCK_PHASES, objective=1)
    in_front = {*pareto_front(*matrices, known, log.rules)}
    ratios = 2 * max(1, len({*known} - {BASELINE}))
    points = [
        FrontPoint(
            trial=trial,
            config=log.configs[trial],
            first=_goal(log, first, matrices[0], trial, ratios),
            second=_goal(log, second, matrices[1], trial, ratios),
            in_front=trial in in_front,
        )
        for trial in known
    ]
    points.sort(key=lambda point: first.cost(point.first.value))
    return Front(first=first, second=second, points=points, uncompared=len(ran) - len(known))


def _goal(log: StudyLog, objective: Objective, matrix: FloatArray, trial: int, ratios: int) -> Goal:
    # From costs to values: where more is better, a cost is the negative logarithm.
    values = -matrix if objective.maximize else matrix
    own = values[~np.isnan(values[:, trial]), trial]
    paired = differences(values[:, trial], values[:, BASELINE])
    if trial == BASELINE or len(paired) < LEAST_FRONT_BLOCKS:
        paired = paired[:0]
    spread = interval(own, log.rules.confidence)
    # All ratios hold at once.
    ratio = interval(paired, log.rules.confidence, ratios)
    return Goal(
        value=math.exp(typical(own)), spread=spread and spread.exp(), ratio=ratio and ratio.exp()
    )


def _ends(found: Interval | None, most: float) -> dict[str, float] | None:
    """None, too, where the interval spans more than this factor, and tells nothing."""
    if found is None or found.spans_more_than(most):
        return None
    return {"estimate": found.estimate, "low": found.low, "high": found.high}
