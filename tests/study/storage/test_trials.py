"""Trials and worlds read by queries are those that Optuna reads."""

from pathlib import Path

import pytest
import sqlalchemy

import tuner
from tests.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from tests.fakes import FakeLauncher
from tests.searching.tuning import failing
from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.trials import (
    RECORD_KEY,
    records_of,
    trials_of,
    values_of,
)


@pytest.fixture
def studied(tmp_path: Path) -> tuple[StudyAddress, int]:
    """Two studies in one database, the address of the second one, and its number there."""
    url = f"sqlite:///{tmp_path}/all.db"
    for name in ("first", "second"):
        launcher = FakeLauncher(fails=failing("crashed", 8), sigma=0.1)
        tuner.tune(
            "udf", launcher=launcher, clock=launcher.clock, out=tmp_path / name, name=name,
            storage=url, max_blocks=5, space={"num_worker_threads": [2, 4, 8]},
        )  # fmt: skip
    address = StudyAddress(url, "second", in_own_folder=False)
    return address, address.storage.get_study_id_from_name("second")


def test_queries_find_what_optuna_finds(studied: tuple[StudyAddress, int]) -> None:
    address, study_id = studied
    trials = address.storage.get_all_trials(study_id)
    assert [tuple(each) for each in trials_of(address.storage, study_id)] == [
        (each.number, each._trial_id, each.state, each.user_attrs) for each in trials
    ]
    values = {each._trial_id: each.intermediate_values for each in trials}
    found = values_of(address.storage, study_id)
    assert {key: found.get(key, {}) for key in values} == values
    records = {
        (trial.number, key): Record.model_validate(document)
        for trial in trials
        for key, document in trial.system_attrs.items()
        if key.startswith(RECORD_KEY)
    }
    assert len(records) > 20
    assert {
        (each.trial_number, each.key): Record.model_validate_json(each.document)
        for each in records_of(address.storage, study_id, lambda stored: stored)
    } == records


def test_a_damaged_world_is_named(studied: tuple[StudyAddress, int], tmp_path: Path) -> None:
    address, study_id = studied
    trial = trials_of(address.storage, study_id)[1]
    key = f"{RECORD_KEY}000900"
    engine = sqlalchemy.create_engine(address.url)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "insert into trial_system_attributes (trial_id, key, value_json) "
                "values (:trial, :key, '{broken')"
            ),
            {"trial": trial.trial_id, "key": key},
        )
    engine.dispose()
    store = load_study(StudyPlace.named("second", storage=address.url, out=tmp_path / "second"))
    with pytest.raises(UsageError, match=f"study second is damaged: trial 1, {key}: "):
        store.records()
