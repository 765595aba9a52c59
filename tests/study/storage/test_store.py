"""How a study finds its trials in the storage."""

from pathlib import Path

import pytest
from optuna.storages import BaseStorage

import tuner
from tests.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from tests.fakes import FakeLauncher
from tuner.study.folder import StudyFolder
from tuner.study.storage import store as store_module
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.trials import TrialFacts, trials_of


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many trials each reading of all of them has found."""
    found: list[int] = []

    def counted(storage: BaseStorage, study_id: int) -> list[TrialFacts]:
        trials = trials_of(storage, study_id)
        found.append(len(trials))
        return trials

    monkeypatch.setattr(store_module, "trials_of", counted)
    return found


def test_trials_are_found_by_one_reading_of_the_study(tmp_path: Path, readings: list[int]) -> None:
    launcher = FakeLauncher()
    tuner.tune(
        "udf", launcher=launcher, clock=launcher.clock, out=tmp_path, max_blocks=2,
        space={"num_worker_threads": [2, 4, 8]},
    )  # fmt: skip
    address = StudyAddress(f"sqlite:///{tmp_path}/study.db", "udf", in_own_folder=True)
    store = load_study(StudyPlace(address, StudyFolder(tmp_path)))
    store.reopen()
    readings.clear()
    for number in range(4):
        store.eliminate(number, f"trial {number}")
    # Each of the four has ended once, and goes on.
    assert readings == [8]
    assert store.eliminated() == {number: f"trial {number}" for number in range(4)}
