"""What differs between configurations: the dimensions that vary, and their values."""

from collections.abc import Sequence

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import Value
from tuner.plan.subject import Subject


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
