"""A study is read back from its storage as it was answered."""

import shutil
from dataclasses import fields
from pathlib import Path

import optuna
import pytest

from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Listening
from tuner.api import SearchInterrupted, tune
from tuner.errors import UsageError
from tuner.study.answer import StudyAnswer
from tuner.study.finding import find_study
from tuner.study.folder import StudyFolder
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.stored import stored_answer

pytestmark = pytest.mark.slow


def searched(folder: Path, launcher: FakeLauncher) -> StudyAnswer:
    return tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(folder), budget="30s", max_blocks=8,
        space={"num_worker_threads": [1, 2, 4]},
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study, to be read."""
    folder = tmp_path_factory.mktemp("made")
    with cheaply():
        searched(folder, FakeLauncher())
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "copied"))


def stored(folder: Path, name: str = "udf") -> StudyAnswer:
    address = StudyAddress(f"sqlite:///{folder}/study.db", name, in_own_folder=True)
    return stored_answer(StudyPlace(address, StudyFolder(folder)))


def written_out(answer: StudyAnswer) -> str:
    """Every field; NaN equals nothing, but reads the same."""
    return repr([getattr(answer, field.name) for field in fields(StudyAnswer)])


def test_a_finished_study_answers_again_as_it_did(tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=lambda s: 8.0 / threads_of(s),
        sigma=0.05,
        fails=lambda s, world: "crashed" if threads_of(s) == 2 else None,
    )
    answer = searched(tmp_path, launcher)
    again = stored(tmp_path)
    assert written_out(again) == written_out(answer)
    assert again.to_json() == answer.to_json()
    assert not again.interrupted


def test_an_interrupted_study_has_no_verdict_yet(tmp_path: Path) -> None:
    with pytest.raises(SearchInterrupted) as caught:
        searched(tmp_path, FakeLauncher(interrupt_after=9))
    again = stored(tmp_path)
    assert again.interrupted
    assert again.best is None
    assert again.verdict is None
    assert written_out(again) == written_out(caught.value.result)


@pytest.mark.parametrize("name", ["we?ird #1", "50%20"])
def test_a_folder_may_be_called_anything(tmp_path: Path, name: str) -> None:
    answer = searched(tmp_path / name, FakeLauncher())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "study.db").is_file()
    assert find_study(str(tmp_path / name)).to_json() == answer.to_json()


@pytest.mark.parametrize("key", ["plan", "environment", "measured_at", "looks"])
def test_a_damaged_study_is_refused_with_what_is_damaged(copied: Path, key: str) -> None:
    storage = optuna.storages.get_storage(f"sqlite:///{copied}/study.db")
    storage.set_study_user_attr(storage.get_study_id_from_name("udf"), key, {"soup": 1})
    with pytest.raises(UsageError, match=f"the study udf is damaged: {key}: "):
        stored(copied)


def test_a_finished_study_keeps_the_budget_that_it_had(copied: Path) -> None:
    launcher = FakeLauncher()
    tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(copied), budget="30m", max_blocks=4,
        space={"num_worker_threads": [1, 2, 4]}, resume=True,
    )  # fmt: skip
    assert stored(copied).plan.measuring.budget_s == 30


def test_an_answer_is_not_lost_for_want_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(answer: StudyAnswer) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("tuner.api.write_study_report", fail)
    launcher, heard = FakeLauncher(), Listening()
    answer = tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(tmp_path), max_blocks=4,
        space={"num_worker_threads": [1, 2]}, observer=heard,
    )  # fmt: skip
    assert answer.best is not None
    assert (tmp_path / "recommended.json").exists()
    assert heard.told[-1] == (
        f"the report could not be written: RuntimeError: no ink; python -m tuner.report {tmp_path} "
        "tries again"
    )


def test_a_ctrl_c_while_the_report_is_written_keeps_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(answer: StudyAnswer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tuner.api.write_study_report", interrupt)
    with pytest.raises(SearchInterrupted) as caught:
        searched(tmp_path, FakeLauncher())
    assert caught.value.result.verdict is not None
    assert (tmp_path / "recommended.json").exists()


def test_a_slow_baseline_is_measured_on_and_never_called_eliminated(tmp_path: Path) -> None:
    launcher, heard = FakeLauncher(step_ms=lambda s: 16.0 / threads_of(s), sigma=0.01), Listening()
    answer = tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(tmp_path), budget="60s",
        space={"num_worker_threads": [4, 8, 16]}, baseline={"num_worker_threads": 1},
        observer=heard,
    )  # fmt: skip
    assert not [each for each in heard.told if each.startswith("num_worker_threads=1: ")]
    assert answer.by_trial[0].outcome == "completed"
