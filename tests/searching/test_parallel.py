"""Blocks that several groups measure at the same time: each wholly by one, and none twice."""

import threading
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fakes import threads_of
from tests.searching.grouping import GroupFake, grouped, stored, tuning_groups_in
from tests.searching.tuning import Listening, Tune, scaling
from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.study.records import AGAIN
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_log
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    return tuning_groups_in(tmp_path / "study")


@pytest.mark.usefixtures("nobody_is_beaten")
def test_every_block_is_measured_wholly_by_one_group(tune: Tune, tmp_path: Path) -> None:
    answer = tune(grouped(3, sigma=0.4), max_blocks=14)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 14
    assert all(len(set(block.values())) == 1 for block in blocks.values())
    assert {group for block in blocks.values() for group in block.values()} == {1, 2, 3}
    assert all(block.keys() == {AGAIN, 0, 1, 2} for block in blocks.values())


def test_groups_measure_at_the_same_time(tune: Tune) -> None:
    launcher, meeting = grouped(3, sigma=0.4), threading.Barrier(3, timeout=60)
    met: list[int] = []

    def meet(order: WorldOrder) -> None:
        if order.steps is not None and order.trace is None and len(met) < 3:
            met.append(meeting.wait())

    for member in launcher.members:
        assert isinstance(member, GroupFake)
        member.before = meet
    tune(launcher, max_blocks=6)
    assert sorted(met)[:3] == [0, 1, 2]


def test_one_controller_writes(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    writers: set[str] = set()
    add = StudyStore.add

    def noted(store: StudyStore, *given: Any) -> None:
        writers.add(threading.current_thread().name)
        add(store, *given)

    monkeypatch.setattr(StudyStore, "add", noted)
    tune(grouped(3, sigma=0.4), max_blocks=6)
    assert writers == {threading.current_thread().name}


def test_what_runs_when_the_answer_is_clear_does_not_count(tune: Tune, tmp_path: Path) -> None:
    """And what was tested is what is said, by a study that is read again too."""
    answer = tune(grouped(4, step_ms=scaling, sigma=0.05))
    again = tuner.load_study(tmp_path / "study")
    assert again.observations == answer.observations
    assert again.speedup == answer.speedup
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    log = stored_log(store, store.plan())
    assert log.looks[-1].rows == len(log.worlds("race")) == answer.blocks


def test_a_group_that_is_lost_leaves_its_block_and_the_others_go_on(
    tune: Tune, tmp_path: Path
) -> None:
    launcher, listening = grouped(3, sigma=0.4), Listening()
    member = launcher.members[1]
    assert isinstance(member, GroupFake)
    member.lost_after = 6
    answer = tune(launcher, max_blocks=12, observer=listening)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 12
    assert all(len(block) == 4 for block in blocks.values())
    assert sum(2 in block.values() for block in blocks.values()) == 1
    (told,) = [each for each in listening.told if "lost" in each]
    assert told.startswith("group 2 is lost: its host gives no answer; its block does not count")
    assert [state.is_lost for state in listening.snapshots[-1].groups] == [False, True, False]


def test_the_first_group_may_be_lost_before_the_first_block(tune: Tune) -> None:
    launcher = grouped(2, sigma=0.4)
    member = launcher.members[0]
    assert isinstance(member, GroupFake)
    member.lost_after = 2
    answer = tune(launcher, max_blocks=6)
    assert answer.blocks == 6
    assert answer.verdict is not None


@pytest.mark.parametrize(
    ("groups", "told"),
    [(1, "^its host gives no answer; every"), (2, "^the last of 2 groups is lost: its .* answer;")],
)
def test_the_last_group_ends_the_search_which_can_be_resumed(
    tune: Tune, tmp_path: Path, groups: int, told: str
) -> None:
    launcher = grouped(groups, sigma=0.4)
    for member in launcher.members:
        assert isinstance(member, GroupFake)
        member.lost_after = 10
    with pytest.raises(LauncherError, match=rf"{told}.* --resume continues it$"):
        tune(launcher, max_blocks=12)
    kept = stored(tmp_path)
    assert kept
    answer = tune(grouped(groups, sigma=0.4), max_blocks=12, resume=True)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 12
    assert all(len(set(block.values())) == 1 for block in blocks.values())


def test_threads_end_with_the_search(tune: Tune) -> None:
    before = threading.active_count()
    tune(grouped(3, sigma=0.4), max_blocks=6)
    assert threading.active_count() == before


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_world_that_fails_is_run_again_by_the_group_of_its_block(
    tune: Tune, tmp_path: Path
) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if world in (2, 4) else None

    answer = tune(grouped(3, sigma=0.4, fails=fails), max_blocks=9)
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    race = [each for each in store.records() if each.phase == "race"]
    failed = [each for each in race if isinstance(each.outcome, Failure)]
    assert len(failed) == sum(row.worlds_failed for row in answer.rows) >= 9
    assert not any(row.unreliable for row in answer.rows)
    ran = [(each.block, each.column) for each in race if isinstance(each.outcome, Measurement)]
    assert len(ran) == len(set(ran)) == 9 * 4
    groups = {(each.block, each.group) for each in race}
    assert len(groups) == 9


def test_a_trial_that_fails_more_often_is_run_by_no_group_from_then_on(tune: Tune) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 4 and world >= 2 else None

    answer = tune(grouped(3, sigma=0.4, fails=fails), max_blocks=9)
    (row,) = (row for row in answer.rows if row.failure)
    assert (row.outcome, row.unreliable) == ("crashed", True)
    # In nine blocks it would have failed in thirty and more.
    assert row.worlds_failed < 30
    assert answer.blocks == 9


def test_what_nobody_expected_in_a_thread_ends_the_search(tune: Tune) -> None:
    launcher = grouped(2, sigma=0.4)

    def breaks(order: WorldOrder) -> None:
        if order.steps is not None:
            raise RuntimeError("a defect")

    member = launcher.members[1]
    assert isinstance(member, GroupFake)
    member.before = breaks
    with pytest.raises(RuntimeError, match="a defect"):
        tune(launcher, max_blocks=6)


def test_a_front_is_measured_by_all_groups(tune: Tune, tmp_path: Path) -> None:
    answer = tune(
        grouped(2, sigma=0.2, cpu_cores=lambda config: float(threads_of(config))),
        objective="step_ms,cpu_ms_per_step", max_blocks=20,
    )  # fmt: skip
    assert answer.front is not None
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    front = [each for each in store.records() if each.phase == "exploration"]
    assert {each.group for each in front} == {1, 2}
