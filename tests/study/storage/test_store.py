"""What a study in a database is asked for, and how often, is what Optuna finds in it."""

from pathlib import Path

import pytest
from optuna.storages import BaseStorage

from testing.fakes import FakeLauncher
from testing.known import known
from testing.made import changed, search
from tests.searching.tuning import failing
from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage import store as store_module
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.trials import RECORD_KEY, TrialFacts, records_of, trials_of, values_of


@pytest.fixture
def second(tmp_path: Path) -> StudyPlace:
    """The second one of two studies in a database."""
    url = f"sqlite:///{tmp_path}/all.db"
    for name in ("first", "second"):
        launcher = FakeLauncher(fails=failing("crashed", 8), sigma=0.1)
        space = {"num_worker_threads": [2, 4, 8]}
        search(tmp_path / name, launcher, name=name, storage=url, max_blocks=5, space=space)
    return StudyPlace.named("second", storage=url, out=tmp_path / "second")


def test_queries_find_what_optuna_finds(second: StudyPlace) -> None:
    storage = second.address.storage
    study_id = storage.get_study_id_from_name("second")
    trials = storage.get_all_trials(study_id)
    assert [tuple(each) for each in trials_of(storage, study_id)] == [
        (each.number, each._trial_id, each.state, each.user_attrs) for each in trials
    ]
    values = {each.number: each.intermediate_values for each in trials}
    found = values_of(storage, study_id)
    assert {key: found.get(key, {}) for key in values} == values
    records = {
        (trial.number, key): Record.model_validate(document)
        for trial in trials
        for key, document in trial.system_attrs.items()
        if key.startswith(RECORD_KEY)
    }
    assert len(records) > 20
    assert {
        (record.trial_number, record.key): Record.model_validate_json(record.document)
        for record in records_of(storage, study_id, lambda stored: stored)
    } == records


def test_a_damaged_world_is_named(second: StudyPlace) -> None:
    changed(
        known(second.address.sqlite_file),
        "insert into trial_system_attributes (trial_id, key, value_json) select trial_id, "
        f"'{RECORD_KEY}000900', '{{broken' from trials where study_id = 2 and number = 1",
    )
    with pytest.raises(UsageError, match=f"study second is damaged: trial 1, {RECORD_KEY}000900: "):
        load_study(second).records()


def test_trials_are_found_by_one_reading_of_the_study(
    second: StudyPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[int] = []

    def counted(storage: BaseStorage, study_id: int) -> list[TrialFacts]:
        trials = trials_of(storage, study_id)
        readings.append(len(trials))
        return trials

    store = load_study(second)
    store.reopen()
    monkeypatch.setattr(store_module, "trials_of", counted)
    for number in range(4):
        store.eliminate(number, f"trial {number}")
    # Each of the four has ended once, and goes on.
    assert readings == [8]
    assert store.eliminated() == {number: f"trial {number}" for number in range(4)}
