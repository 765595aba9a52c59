"""How much of the differences between settings each knob explains."""

import math
from collections.abc import Sequence

import numpy as np

from tuner.plan.knobs import Value
from tuner.plan.settings import ALL_ROLES, Dimension, Settings
from tuner.plan.workload_spec import WorkloadSpec


def values_of(
    settings: Sequence[Settings], dimension: Dimension, workload: WorkloadSpec
) -> tuple[Value, ...]:
    """The values of a dimension, each once: numbers in their order, others as they appear."""
    values = tuple(dict.fromkeys(one.value_of(dimension, workload) for one in settings))
    if all(isinstance(value, int | float) for value in values):
        return tuple(sorted(values, key=lambda value: float(str(value))))
    return values


def varying(
    settings: Sequence[Settings], workload: WorkloadSpec
) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between settings, each with its values.

    What is named for all roles is left out where each role has its own.
    """
    found: dict[Dimension, tuple[Value, ...]] = {}
    named = {each for one in settings for each, _ in one.items}
    for dimension in sorted(named):
        own = {Dimension(role, dimension.knob) for role in workload.roles}
        if dimension.role == ALL_ROLES and own <= named:
            continue
        values = values_of(settings, dimension, workload)
        if len(values) > 1:
            found[dimension] = values
    return found


def main_effects(
    measured: Sequence[tuple[Settings, float]], workload: WorkloadSpec
) -> dict[str, float]:
    """The share of the variance of log(value) that each dimension alone explains, largest first.

    This is eta squared: the variance between the means of a dimension's values, weighted by how
    many settings have each, over the variance between all settings. Settings without a value
    (NaN) are left out, and so is a dimension with one value only. Settings that failed can have
    a value, from before; it is for the caller to leave them out.

    Its limits: what the shares leave is interactions and noise, which it does not tell apart. On
    a grid with holes the dimensions overlap, and the shares can add up to more than 1. A
    dimension with nearly as many values as there are settings explains much by chance.
    """
    known = [(one, math.log(value)) for one, value in measured if value > 0]
    logs = np.array([value for _, value in known])
    settings = [one for one, _ in known]
    total = float(np.square(logs - logs.mean()).sum()) if known else 0.0
    shares: dict[str, float] = {}
    for dimension in varying(settings, workload):
        groups: dict[Value, list[float]] = {}
        for one, value in known:
            groups.setdefault(one.value_of(dimension, workload), []).append(value)
        between = sum(
            len(group) * (float(np.mean(group)) - float(logs.mean())) ** 2
            for group in groups.values()
        )
        # Rounding alone is no variance.
        shares[str(dimension)] = min(1.0, between / total) if total > 1e-18 else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
