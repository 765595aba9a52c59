"""The trials of a study in Optuna, one for each configuration: how they are made, and are read.

Optuna reads a trial with all that belongs to it, and its worlds are most of that. A study of
100,000 worlds would take minutes to open like that, so a database is asked for what is needed, in
one query each. Another storage, such as one in memory, is read by Optuna's own methods.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import column, table

from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, IntegerKnob, SecondsKnob
from tuner.plan.subject import Subject
from tuner.study.storage.retry import read_from

_T = TypeVar("_T")
RECORD_KEY = "rpc_tuner:record:"
_AT_ONCE = 1000

_TRIALS = table("trials", column("trial_id"), column("study_id"), column("number"), column("state"))
_USER = table("trial_user_attributes", column("trial_id"), column("key"), column("value_json"))
_SYSTEM = table("trial_system_attributes", column("trial_id"), column("key"), column("value_json"))
_VALUES = table(
    "trial_intermediate_values",
    column("trial_id"),
    column("step"),
    column("intermediate_value"),
)


class TrialFacts(NamedTuple):
    """A trial without its worlds."""

    number: int
    trial_id: int
    state: TrialState
    user_attrs: Mapping[str, Any]


class StoredRecord(NamedTuple):
    """One world as it is stored."""

    trial_number: int
    key: str
    document: Any
    """Its JSON text, or what that stands for."""


def distributions_of(
    candidates: Sequence[Config], subject: Subject
) -> dict[Dimension, BaseDistribution]:
    """One Optuna parameter per tuned dimension."""
    dimensions = dict.fromkeys(d for config in candidates for d in config.values)
    found: dict[Dimension, BaseDistribution] = {}
    for dimension in dimensions:
        values = [_parameter(dimension, config, subject) for config in candidates]
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
    parameters = {str(each): _parameter(each, config, subject) for each in distributions}
    return create_trial(
        state=TrialState.RUNNING,
        params=parameters,
        distributions={str(each): chosen for each, chosen in distributions.items()},
        user_attrs={"label": str(config), "config": config.to_json()},
    )


def _parameter(dimension: Dimension, config: Config, subject: Subject) -> Any:
    """The value of a dimension in a configuration: a number, or its words."""
    knob = KNOBS[dimension.knob]
    value = config.value_of(dimension, subject)
    return value if isinstance(knob, IntegerKnob | SecondsKnob) else knob.format(value)


def trials_of(storage: BaseStorage, study_id: int) -> list[TrialFacts]:
    """The trials of a study, by number."""
    return read_from(storage, lambda opened: _trials(opened, study_id))


def record_keys_of(storage: BaseStorage, study_id: int) -> list[str]:
    """The keys of all worlds of a study, in any order."""
    return read_from(storage, lambda opened: _keys(opened, study_id))


def records_of(storage: BaseStorage, study_id: int, make: Callable[[StoredRecord], _T]) -> list[_T]:
    """What `make` makes of each world of a study, in any order."""

    def read(opened: BaseStorage) -> list[_T]:
        # Where `make` fails, its traceback would keep the query open, and SQLite locked.
        with closing(_worlds(opened, study_id)) as worlds:
            return [make(each) for each in worlds]

    return read_from(storage, read)


def values_of(storage: BaseStorage, study_id: int) -> dict[int, dict[int, float]]:
    """The intermediate values of the trials of a study: by trial id, then by step."""
    return read_from(storage, lambda opened: _values(opened, study_id))


def _trials(storage: BaseStorage, study_id: int) -> list[TrialFacts]:
    if (engine := _engine_of(storage)) is None:
        return [
            TrialFacts(each.number, each._trial_id, each.state, each.user_attrs)
            for each in storage.get_all_trials(study_id, deepcopy=False)
        ]
    trials = sqlalchemy.select(_TRIALS.c.trial_id, _TRIALS.c.number, _TRIALS.c.state)
    attributes = sqlalchemy.select(_USER.c.trial_id, _USER.c.key, _USER.c.value_json)
    found: dict[int, TrialFacts] = {}
    with engine.connect() as connection:
        for trial_id, number, state in connection.execute(_of_study(trials, study_id)):
            if state not in TrialState.__members__:
                raise LookupError(f"trial {number} has the state {state}")
            found[trial_id] = TrialFacts(number, trial_id, TrialState[state], {})
        joined = attributes.join(_TRIALS, _TRIALS.c.trial_id == _USER.c.trial_id)
        known: dict[int, dict[str, Any]] = {}
        for trial_id, key, text in connection.execute(_of_study(joined, study_id)):
            known.setdefault(trial_id, {})[key] = json.loads(text)
    complete = [each._replace(user_attrs=known.get(each.trial_id, {})) for each in found.values()]
    return sorted(complete, key=lambda each: each.number)


def _keys(storage: BaseStorage, study_id: int) -> list[str]:
    if (engine := _engine_of(storage)) is None:
        return [each.key for each in _worlds(storage, study_id)]
    with engine.connect() as connection:
        return list(connection.scalars(_records(sqlalchemy.select(_SYSTEM.c.key), study_id)))


def _worlds(storage: BaseStorage, study_id: int) -> Generator[StoredRecord]:
    if (engine := _engine_of(storage)) is None:
        for trial in storage.get_all_trials(study_id, deepcopy=False):
            for key, document in trial.system_attrs.items():
                if key.startswith(RECORD_KEY):
                    yield StoredRecord(trial.number, key, document)
        return
    chosen = sqlalchemy.select(_TRIALS.c.number, _SYSTEM.c.key, _SYSTEM.c.value_json)
    with engine.connect() as connection:
        streaming = connection.execution_options(yield_per=_AT_ONCE)
        for row in streaming.execute(_records(chosen, study_id)):
            yield StoredRecord(*row)


def _values(storage: BaseStorage, study_id: int) -> dict[int, dict[int, float]]:
    if (engine := _engine_of(storage)) is None:
        return {
            each._trial_id: each.intermediate_values
            for each in storage.get_all_trials(study_id, deepcopy=False)
        }
    chosen = sqlalchemy.select(_VALUES.c.trial_id, _VALUES.c.step, _VALUES.c.intermediate_value)
    joined = chosen.join(_TRIALS, _TRIALS.c.trial_id == _VALUES.c.trial_id)
    found: dict[int, dict[int, float]] = {}
    with engine.connect() as connection:
        for trial_id, step, value in connection.execute(_of_study(joined, study_id)):
            # A database keeps what is not finite elsewhere; no objective is.
            found.setdefault(trial_id, {})[step] = float("nan") if value is None else value
    return found


def _records(chosen: sqlalchemy.Select[Any], study_id: int) -> sqlalchemy.Select[Any]:
    joined = chosen.join(_TRIALS, _TRIALS.c.trial_id == _SYSTEM.c.trial_id)
    is_record = _SYSTEM.c.key.startswith(RECORD_KEY, autoescape=True)
    return _of_study(joined, study_id).where(is_record)


def _of_study(chosen: sqlalchemy.Select[Any], study_id: int) -> sqlalchemy.Select[Any]:
    return chosen.where(_TRIALS.c.study_id == study_id)


def _engine_of(storage: BaseStorage) -> sqlalchemy.Engine | None:
    """The database behind an open storage: Optuna wraps it in a cache."""
    engine = getattr(getattr(storage, "_backend", None), "engine", None)
    return engine if isinstance(engine, sqlalchemy.Engine) else None
