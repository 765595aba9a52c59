"""Configurations as Optuna's parameters: a number if the knob is one, else its words."""

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, IntegerKnob, SecondsKnob
from tuner.plan.subject import Subject


def distributions_of(
    candidates: Sequence[Config], subject: Subject
) -> dict[Dimension, BaseDistribution]:
    """One Optuna parameter per tuned dimension."""
    dimensions = dict.fromkeys(d for config in candidates for d in config.values)
    found: dict[Dimension, BaseDistribution] = {}
    for dimension in dimensions:
        values = [parameter_of(dimension, config, subject) for config in candidates]
        knob = KNOBS[dimension.knob]
        if isinstance(knob, IntegerKnob):
            found[dimension] = IntDistribution(min(values), max(values))
        elif isinstance(knob, SecondsKnob):
            found[dimension] = FloatDistribution(min(values), max(values))
        else:
            found[dimension] = CategoricalDistribution(tuple(dict.fromkeys(values)))
    return found


def running_trial(
    config: Config, distributions: Mapping[Dimension, BaseDistribution], subject: Subject
) -> FrozenTrial:
    """The Optuna trial of a configuration that is to be measured."""
    parameters = {str(each): parameter_of(each, config, subject) for each in distributions}
    return create_trial(
        state=TrialState.RUNNING,
        params=parameters,
        distributions={str(each): chosen for each, chosen in distributions.items()},
        user_attrs={"label": str(config), "config": config.to_json()},
    )


def parameter_of(dimension: Dimension, config: Config, subject: Subject) -> Any:
    """The value of a dimension in a configuration: a number, or its words."""
    knob = KNOBS[dimension.knob]
    value = config.value_of(dimension, subject)
    return value if isinstance(knob, IntegerKnob | SecondsKnob) else knob.format(value)
