"""The dimensions of configurations: which of them vary, and which one a mistyped name means."""

import difflib
from collections.abc import Iterable, Sequence

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, Value
from tuner.plan.subject import Subject

_NEAR = 0.75
"""How alike a name and a knob are, from 0 to 1, for the one to mean the other."""


def values_of(
    configs: Sequence[Config], dimension: Dimension, subject: Subject
) -> tuple[Value, ...]:
    """The values of a dimension, each once: numbers in their order, others as they appear."""
    values = tuple(dict.fromkeys(one.value_of(dimension, subject) for one in configs))
    if all(isinstance(value, int | float) for value in values):
        return tuple(sorted(values, key=lambda value: float(str(value))))
    return values


def varying(configs: Sequence[Config], subject: Subject) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between configurations, each with its values.

    What is named for all roles is left out where each role has its own.
    """
    found: dict[Dimension, tuple[Value, ...]] = {}
    named = {each for one in configs for each, _ in one.items}
    for dimension in sorted(named):
        own = {Dimension(role, dimension.knob) for role in subject.roles}
        if dimension.role == ALL_ROLES and own <= named:
            continue
        values = values_of(configs, dimension, subject)
        if len(values) > 1:
            found[dimension] = values
    return found


def knobs_meant(
    problems: Sequence[str], options: Iterable[str], roles: Sequence[str] = ()
) -> list[str]:
    """Add to what is said of unknown options of a workload which knobs are meant by them.

    Args:
        problems: What a workload says of its options, a sentence each.
        options: The names that were given.
        roles: Those of the workload, as far as known.
    """
    found = list(problems)
    for name in options:
        role, dot, knob = name.rpartition(".")
        if near := difflib.get_close_matches(knob, KNOBS, n=1, cutoff=_NEAR):
            role = next(iter(difflib.get_close_matches(role, roles, n=1, cutoff=0.5)), role)
            meant = f" {role}{dot}{near[0]} is a knob: --space tunes it, --baseline sets it"
            start = f"unknown option {name!r}"
            found = [
                f"{each.rstrip('.')}.{meant}" if each.startswith(start) else each for each in found
            ]
    return found
