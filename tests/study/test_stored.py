"""A study is read back from its storage as it was answered."""

from dataclasses import fields
from pathlib import Path

import optuna
import pytest

from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from testing.made import search
from tests.searching.tuning import Listening
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.study.answer import StudyAnswer
from tuner.study.stored import find_study

pytestmark = pytest.mark.slow

SPACE = {"num_worker_threads": [1, 2, 4]}


def stored(folder: Path) -> StudyAnswer:
    return find_study(str(folder))


def written_out(answer: StudyAnswer) -> str:
    """Every field but the folder, which may be named otherwise; NaN reads the same as itself."""
    names = [field.name for field in fields(StudyAnswer) if field.repr]
    return repr([getattr(answer, name) for name in names if name != "files"])


@pytest.mark.parametrize("name", ["we?ird #1", "50%20"])
def test_a_finished_study_answers_again_as_it_did_whatever_its_folder_is_called(
    tmp_path: Path, name: str
) -> None:
    launcher = FakeLauncher(
        step_ms=lambda s: 8.0 / threads_of(s),
        sigma=0.05,
        fails=lambda s, world: "crashed" if threads_of(s) == 2 else None,
        others_cpus=lambda number: 0.5 * (number % 2),
    )
    answer = search(tmp_path / name, launcher, space=SPACE, budget="30s", max_blocks=8)
    again = stored(tmp_path / name)
    assert known(again.machine).is_busy
    assert written_out(again) == written_out(answer)
    assert again.to_json() == answer.to_json()
    assert not again.interrupted
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("key", ["plan", "environment", "measured_at", "looks"])
def test_a_damaged_study_is_refused_with_what_is_damaged(study: Path, key: str) -> None:
    found = optuna.load_study(study_name="udf", storage=f"sqlite:///{study}/study.db")
    found.set_user_attr(key, {"soup": 1})
    with pytest.raises(UsageError, match=f"the study udf is damaged: {key}: "):
        stored(study)


def test_a_finished_study_keeps_the_budget_that_it_had(study: Path) -> None:
    before = stored(study).plan.measuring.budget_s
    search(study, budget="3h", max_blocks=1, resume=True)
    assert stored(study).plan.measuring.budget_s == before


def test_an_answer_is_not_lost_for_want_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, error = Listening(), RuntimeError("no ink")

    def fail(answer: StudyAnswer) -> None:
        raise error

    monkeypatch.setattr("tuner.api.write_study_report", fail)
    assert search(tmp_path / "one", observer=heard).best is not None
    assert heard.told[-1] == (
        "the report could not be written: RuntimeError: no ink; rpc-tuner report "
        f"{tmp_path / 'one'} tries again"
    )
    error = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(SearchInterrupted) as caught:
        search(tmp_path / "two")
    assert caught.value.result.verdict is not None
    assert all((tmp_path / each / "recommended.json").exists() for each in ("one", "two"))


def test_a_slow_baseline_is_measured_on_and_never_called_eliminated(tmp_path: Path) -> None:
    launcher, heard = FakeLauncher(step_ms=lambda s: 16.0 / threads_of(s), sigma=0.01), Listening()
    answer = search(
        tmp_path, launcher, budget="60s", max_blocks=None, observer=heard,
        space={"num_worker_threads": [4, 8, 16]}, baseline={"num_worker_threads": 1},
    )  # fmt: skip
    assert not [each for each in heard.told if each.startswith("num_worker_threads=1: ")]
    assert answer.by_trial[0].outcome == "completed"
