"""What earlier studies on this machine found: the order in which a new study measures."""

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from optuna.trial import TrialState

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.reading import TrialFacts
from tuner.world.environment import Environment

MOST_STUDIES = 10
"""More tell no more."""
MOST_READ_S = 1.0
"""Nor is it worth longer to look for them: they decide an order alone."""


def prior_costs(
    places: Iterable[StudyPlace], plan: StudyPlan, environment: Environment
) -> dict[Config, float]:
    """How the configurations of a plan did in earlier studies of the same thing, on this machine.

    Args:
        places: Where the studies are, the latest first.
        plan: The plan of the new study: theirs must have its workload or program, whatever the
            options, and its objective.
        environment: The machine and the software of today, which must be theirs.

    Returns:
        log(value) relative to the mean of its study, less is better, infinite for a failure; by
        configuration, and only of those that a study measured.
    """
    known: dict[Config, list[float]] = {}
    read, until_s = 0, time.monotonic() + MOST_READ_S
    for place in places:
        if read == MOST_STUDIES or time.monotonic() > until_s:
            break
        try:
            store = load_study(place)
            if not _is_alike(store.plan(), plan) or store.environment.differences(environment):
                continue
            trials = zip(store.configs(), store.trials(), store.values(), strict=True)
            costs = _costs(trials, plan)
        except UsageError:
            continue  # an older version's, or a damaged one
        read += 1
        for config, cost in costs.items():
            known.setdefault(config, []).append(cost)
    return {config: statistics.fmean(costs) for config, costs in known.items()}


def in_prior_order(candidates: Sequence[Config], prior: Mapping[Config, float]) -> list[Config]:
    """The baseline, which is first, then what did well, what nobody measured, what did badly."""
    baseline, *others = candidates
    return [baseline, *sorted(others, key=lambda config: prior.get(config, 0.0))]


def _is_alike(theirs: StudyPlan, ours: StudyPlan) -> bool:
    return (
        theirs.subject.kind == ours.subject.kind
        and theirs.subject.reference == ours.subject.reference
        and theirs.measuring.objective_name == ours.measuring.objective_name
    )


def _costs(
    trials: Iterable[tuple[Config, TrialFacts, Sequence[float]]], plan: StudyPlan
) -> dict[Config, float]:
    measured: dict[Config, float] = {}
    failed = []
    for config, trial, values in trials:
        if trial.state == TrialState.FAIL:
            failed.append(config)
        elif values:
            measured[config] = statistics.fmean(map(plan.objective.cost, values))
    middle = statistics.fmean(measured.values()) if measured else 0.0
    found = {config: cost - middle for config, cost in measured.items()}
    return {**found, **dict.fromkeys(failed, math.inf)}
