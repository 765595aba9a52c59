"""The trials of a study in Optuna, one for each configuration: how they are made, and are read.

Optuna reads a trial with all its worlds, which takes minutes for 100,000. So a database is asked
for what is needed, in one query each; a storage in memory is read by Optuna's methods.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
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

from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, IntegerKnob, SecondsKnob
from tuner.plan.program_spec import Subject
from tuner.study.storage.retry import read_from

_T = TypeVar("_T")
RECORD_KEY = "rpc_tuner:record:"
_AT_ONCE = 1000

_TRIALS = "SELECT trial_id, number, state FROM trials WHERE study_id = :study ORDER BY number"
_ATTRIBUTES = (
    "SELECT trial_id, key, value_json FROM trial_user_attributes JOIN trials USING (trial_id) "
    "WHERE study_id = :study"
)
_WORLDS = (
    "SELECT number, key, value_json FROM trial_system_attributes JOIN trials USING (trial_id) "
    f"WHERE study_id = :study AND substr(key, 1, {len(RECORD_KEY)}) = '{RECORD_KEY}'"
)
_VALUES = (
    "SELECT number, step, intermediate_value FROM trial_intermediate_values "
    "JOIN trials USING (trial_id) WHERE study_id = :study"
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
    document: Any  # its JSON text, or what that stands for


def distributions_of(
    candidates: Sequence[Config], subject: Subject
) -> dict[Dimension, BaseDistribution]:
    """One Optuna parameter per tuned dimension."""
    found: dict[Dimension, BaseDistribution] = {}
    for dimension in dict.fromkeys(each for config in candidates for each in config.values):
        values = [_parameter(dimension, config, subject) for config in candidates]
        match KNOBS[dimension.knob]:
            case IntegerKnob():
                found[dimension] = IntDistribution(min(values), max(values))
            case SecondsKnob():
                found[dimension] = FloatDistribution(min(values), max(values))
            case _:
                found[dimension] = CategoricalDistribution([*dict.fromkeys(values)])
    return found


def running_trial(
    config: Config, distributions: Mapping[Dimension, BaseDistribution], subject: Subject
) -> FrozenTrial:
    """The Optuna trial of a configuration that is to be measured."""
    return create_trial(
        state=TrialState.RUNNING,
        params={str(each): _parameter(each, config, subject) for each in distributions},
        distributions={str(dimension): known for dimension, known in distributions.items()},
        user_attrs={"label": str(config), "config": config.to_json()},
    )


def _parameter(dimension: Dimension, config: Config, subject: Subject) -> Any:
    knob = KNOBS[dimension.knob]
    value = config.value_of(dimension, subject)
    return value if isinstance(knob, IntegerKnob | SecondsKnob) else knob.format(value)


def trials_of(storage: BaseStorage, study_id: int) -> list[TrialFacts]:
    """The trials of a study, by number."""

    def read(opened: BaseStorage, engine: sqlalchemy.Engine | None) -> list[TrialFacts]:
        if engine is None:
            trials = opened.get_all_trials(study_id, deepcopy=False)
            id_of = partial(opened.get_trial_id_from_study_id_trial_number, study_id)
            return [
                TrialFacts(trial.number, id_of(trial.number), trial.state, trial.user_attrs)
                for trial in trials
            ]
        attributes: dict[int, dict[str, Any]] = defaultdict(dict)
        found = []
        for trial_id, number, state in [*_rows(engine, _TRIALS, study_id)]:
            if state not in TrialState.__members__:
                raise LookupError(f"trial {number} has the state {state}")
            found.append(TrialFacts(number, trial_id, TrialState[state], attributes[trial_id]))
        for trial_id, key, text in [*_rows(engine, _ATTRIBUTES, study_id)]:
            attributes[trial_id][key] = json.loads(text)
        return found

    return read_from(storage, read)


def records_of(storage: BaseStorage, study_id: int, make: Callable[[StoredRecord], _T]) -> list[_T]:
    """What `make` makes of each world of a study, in any order."""

    def read(opened: BaseStorage, engine: sqlalchemy.Engine | None) -> list[_T]:
        # Where `make` fails, its traceback would keep the query open, and SQLite locked.
        with closing(_worlds(opened, engine, study_id)) as worlds:
            return [make(world) for world in worlds]

    return read_from(storage, read)


def _worlds(
    storage: BaseStorage, engine: sqlalchemy.Engine | None, study_id: int
) -> Generator[StoredRecord]:
    if engine is not None:
        yield from map(StoredRecord._make, _rows(engine, _WORLDS, study_id))
        return
    for trial in storage.get_all_trials(study_id, deepcopy=False):
        for key, document in trial.system_attrs.items():
            if key.startswith(RECORD_KEY):
                yield StoredRecord(trial.number, key, document)


def values_of(storage: BaseStorage, study_id: int) -> dict[int, dict[int, float]]:
    """The intermediate values of the trials of a study: by trial number, then by step."""

    def read(opened: BaseStorage, engine: sqlalchemy.Engine | None) -> dict[int, dict[int, float]]:
        if engine is None:
            trials = opened.get_all_trials(study_id, deepcopy=False)
            return {trial.number: trial.intermediate_values for trial in trials}
        found: dict[int, dict[int, float]] = defaultdict(dict)
        for number, step, value in [*_rows(engine, _VALUES, study_id)]:
            # A database keeps what is not finite elsewhere; no objective is.
            found[number][step] = float("nan") if value is None else value
        return found

    return read_from(storage, read)


def _rows(engine: sqlalchemy.Engine, query: str, study_id: int) -> Iterator[Any]:
    """What a query finds; the database is in use until it has been read to its end."""
    with engine.connect() as connection:
        streaming = connection.execution_options(yield_per=_AT_ONCE)
        yield from streaming.execute(sqlalchemy.text(query), {"study": study_id})
