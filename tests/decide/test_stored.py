"""A study is read back from its storage as it was answered."""

from pathlib import Path

import pytest

from tests.fakes import FakeLauncher, threads_of
from tuner.api import SearchInterrupted, tune
from tuner.decide.result import StudyAnswer
from tuner.decide.stored import stored_answer
from tuner.decide.study.address import StudyAddress
from tuner.errors import UsageError
from tuner.study_result import StudyResult


def searched(folder: Path, launcher: FakeLauncher) -> StudyAnswer:
    return tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(folder), budget="30s",
        space={"num_worker_threads": [1, 2, 4]},
    )  # fmt: skip


def stored(folder: Path, name: str = "udf") -> StudyAnswer:
    address = StudyAddress(f"sqlite:///{folder}/study.db", name, in_own_folder=True)
    return stored_answer(address, out=folder, storage=None)


def test_a_finished_study_answers_again_as_it_did(tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=lambda s: 8.0 / threads_of(s),
        sigma=0.05,
        fails=lambda s, world: "crashed" if threads_of(s) == 2 else None,
    )
    answer = searched(tmp_path, launcher)
    again = stored(tmp_path)
    assert repr(StudyResult.of(again)) == repr(answer)  # NaN equals nothing, but reads the same
    assert again.to_json() == answer.to_json()
    assert not again.interrupted


def test_every_world_that_counts_is_an_observation(tmp_path: Path) -> None:
    answer = searched(tmp_path, FakeLauncher(step_ms=lambda s: 8.0 / threads_of(s), sigma=0.05))
    for row in answer.rows:
        found = [each for each in answer.observations if each.trial == row.trial]
        assert len(found) == row.samples
        assert min(each.value for each in found) <= row.value <= max(each.value for each in found)
        spread = answer.details[row.trial].step_ms
        assert spread is not None
        assert spread.p5 <= spread.p50 <= spread.p99
    blocks = {(each.block, each.phase) for each in answer.observations}
    assert len(blocks) == answer.blocks


def test_an_interrupted_study_has_no_verdict_yet(tmp_path: Path) -> None:
    with pytest.raises(SearchInterrupted) as caught:
        searched(tmp_path, FakeLauncher(interrupt_after=9))
    again = stored(tmp_path)
    assert again.interrupted
    assert again.best is None
    assert again.verdict is None
    assert repr(StudyResult.of(again)) == repr(caught.value.result)


def test_a_study_that_is_not_there_is_refused(tmp_path: Path) -> None:
    searched(tmp_path, FakeLauncher())
    with pytest.raises(UsageError, match="there is no study udff in sqlite:///"):
        stored(tmp_path, "udff")
