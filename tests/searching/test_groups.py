"""Blocks that several groups measure at the same time: each wholly by one, and none twice."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fakes import FakeClock, FakeLauncher, threads_of
from tests.searching.tuning import Listening, failing, scaling
from tuner.errors import LauncherError, UsageError
from tuner.plan.config import Config
from tuner.searching.progress import Snapshot
from tuner.study.answer import StudyAnswer
from tuner.study.records import AGAIN
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_log
from tuner.world.groups import GroupedLauncher
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

SPACE = {"num_worker_threads": [1, 2, 4]}
BASE = {"num_worker_threads": 2}


class GroupFake(FakeLauncher):
    """A group's launcher, whose worlds take real time; it notes what it has run."""

    lost_after: int | None = None
    """LauncherError from this world on."""
    before: Callable[[WorldOrder], None] = staticmethod(lambda order: None)
    world_s: float = 0.002

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if self.lost_after is not None and len(self.orders) >= self.lost_after:
            raise LauncherError("its host gives no answer")
        self.before(order)
        time.sleep(self.world_s)
        return super().run(order)


def grouped(count: int, **given: Any) -> GroupedLauncher:
    fakes = [GroupFake(clock=FakeClock(), seed=seed, **given) for seed in range(count)]
    return GroupedLauncher(fakes)


@pytest.fixture
def tune(tmp_path: Path) -> Callable[..., StudyAnswer]:
    def run(launcher: GroupedLauncher, **changes: Any) -> StudyAnswer:
        keys = {
            "space": SPACE, "baseline": BASE, "groups": len(launcher.members), "budget": "60s",
            "out": str(tmp_path / "study"), **changes,
        }  # fmt: skip
        return tuner.tune("udf", launcher=launcher, **keys).answer

    return run


def stored(tmp_path: Path) -> dict[int, dict[int, int | None]]:
    """The group of each world of the race that counts, by block and column."""
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    found: dict[int, dict[int, int | None]] = {}
    for record in stored_log(store, store.plan()).records:
        if record.phase == "race":
            block = found.setdefault(record.block, {})
            assert record.column not in block
            block[record.column] = record.group
    return found


def test_every_block_is_measured_wholly_by_one_group(
    tune: Callable[..., StudyAnswer], tmp_path: Path
) -> None:
    answer = tune(grouped(3, sigma=0.4), max_blocks=14)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 14
    assert all(len(set(block.values())) == 1 for block in blocks.values())
    assert {group for block in blocks.values() for group in block.values()} == {1, 2, 3}
    assert all(block.keys() == {AGAIN, 0, 1, 2} for block in blocks.values())


def test_groups_measure_at_the_same_time(tune: Callable[..., StudyAnswer]) -> None:
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


def test_one_controller_writes(
    tune: Callable[..., StudyAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: set[str] = set()
    add = StudyStore.add

    def noted(store: StudyStore, *given: Any) -> None:
        writers.add(threading.current_thread().name)
        add(store, *given)

    monkeypatch.setattr(StudyStore, "add", noted)
    tune(grouped(3, sigma=0.4), max_blocks=6)
    assert writers == {threading.current_thread().name}


def test_the_answer_is_that_of_one_group(tune: Callable[..., StudyAnswer]) -> None:
    answer = tune(grouped(4, step_ms=scaling, sigma=0.05))
    assert answer.verdict == "better"
    assert answer.best is not None
    assert threads_of(answer.best) == 4
    assert answer.speedup is not None
    assert answer.speedup.low < 2 < answer.speedup.high


def test_what_runs_when_the_answer_is_clear_does_not_count(
    tune: Callable[..., StudyAnswer], tmp_path: Path
) -> None:
    """And what was tested is what is said, by a study that is read again too."""
    answer = tune(grouped(4, step_ms=scaling, sigma=0.05))
    again = tuner.load_study(tmp_path / "study").answer
    assert again.observations == answer.observations
    assert again.speedup == answer.speedup
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    log = stored_log(store, store.plan())
    assert log.looks[-1].rows == len(log.worlds("race")) == answer.blocks


def test_a_group_that_is_lost_leaves_its_block_and_the_others_go_on(
    tune: Callable[..., StudyAnswer], tmp_path: Path
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


def test_the_first_group_may_be_lost_before_the_first_block(
    tune: Callable[..., StudyAnswer],
) -> None:
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
    tune: Callable[..., StudyAnswer], tmp_path: Path, groups: int, told: str
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


@pytest.mark.parametrize("worlds", [1, 5, 14, 23])
def test_what_is_interrupted_is_finished_by_the_same_groups(
    tune: Callable[..., StudyAnswer], tmp_path: Path, worlds: int
) -> None:
    stopping = Listening(lambda each: each.phase == "race" and each.worlds >= 3 + worlds)
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(grouped(3, sigma=0.4), max_blocks=10, observer=stopping)
    before = {
        (block, column): group
        for block, columns in stored(tmp_path).items()
        for column, group in columns.items()
    }
    assert len(before) >= worlds
    launcher = grouped(3, sigma=0.4)
    answer = tune(launcher, max_blocks=10, resume=True)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 10
    assert all(block.keys() == {AGAIN, 0, 1, 2} for block in blocks.values())
    assert all(len(set(block.values())) == 1 for block in blocks.values())
    assert all(blocks[block][column] == group for (block, column), group in before.items())


def test_a_block_of_a_slow_group_is_finished_however_many_began_since(
    tune: Callable[..., StudyAnswer], tmp_path: Path
) -> None:
    launcher, interrupted = grouped(2, sigma=0.4), threading.Event()
    seen: list[WorldOrder] = []

    def hangs(order: WorldOrder) -> None:
        if order.steps is not None and order.trace is None:
            seen.append(order)
            if len(seen) > 1:
                interrupted.wait(timeout=60)

    def stop(each: Snapshot) -> bool:
        done = sum(state.block is None for state in each.groups) < 2 and each.block >= 5
        if done and each.phase == "race":
            interrupted.set()
            return True
        return False

    slow = launcher.members[0]
    assert isinstance(slow, GroupFake)
    slow.before = hangs
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(launcher, max_blocks=10, observer=Listening(stop))
    assert [len(block) for block in stored(tmp_path).values()].count(1) >= 1
    answer = tune(grouped(2, sigma=0.4), max_blocks=10, resume=True)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 10
    assert all(block.keys() == {AGAIN, 0, 1, 2} for block in blocks.values())
    assert all(len(set(block.values())) == 1 for block in blocks.values())


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_larger_budget_goes_on_with_all_groups(
    tune: Callable[..., StudyAnswer], tmp_path: Path, interrupted: bool
) -> None:
    """As `--groups 2 --resume --budget 90s` does, of a study that is finished and of one that is
    not."""
    clock = FakeClock()

    def groups() -> GroupedLauncher:
        launcher = grouped(2, sigma=0.4)
        for member in launcher.members:
            assert isinstance(member, GroupFake)
            member.clock = clock
        return launcher

    if interrupted:
        stopping = Listening(lambda each: each.phase == "race" and each.worlds >= 25)
        with pytest.raises(tuner.api.SearchInterrupted):
            tune(groups(), budget="30s", clock=clock, observer=stopping)
    else:
        assert tune(groups(), budget="30s", clock=clock).verdict == "undecided"
    before = stored(tmp_path)
    looks = load_study(StudyPlace.named("udf", out=tmp_path / "study")).noted("looks")
    answer = tune(groups(), budget="90s", clock=clock, resume=True)
    blocks = stored(tmp_path)
    assert 60 < answer.elapsed_s < 95
    assert len(blocks) == answer.blocks > len(before)
    assert all(block.items() <= blocks[number].items() for number, block in before.items())
    assert all(len(set(block.values())) == 1 for block in blocks.values())
    new = [block for number, block in blocks.items() if number not in before]
    assert {group for block in new for group in block.values()} == {1, 2}
    now = load_study(StudyPlace.named("udf", out=tmp_path / "study")).noted("looks")
    assert now[: len(looks or ())] == (looks or now[:0])


def test_threads_end_with_the_search(tune: Callable[..., StudyAnswer]) -> None:
    before = threading.active_count()
    tune(grouped(3, sigma=0.4), max_blocks=6)
    assert threading.active_count() == before


def test_another_number_of_groups_cannot_go_on(tune: Callable[..., StudyAnswer]) -> None:
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(grouped(2), observer=Listening(lambda each: each.block > 1))
    with pytest.raises(UsageError, match="groups: 2 in the study, 3 now"):
        tune(grouped(3), resume=True)


def test_a_trial_that_fails_in_one_group_is_run_by_none_from_then_on(
    tune: Callable[..., StudyAnswer],
) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 4 and world >= 2 else None

    answer = tune(grouped(3, sigma=0.4, fails=fails), max_blocks=9)
    assert [row.outcome for row in answer.rows if row.failure] == ["crashed"]
    assert answer.blocks == 9


def test_where_the_baseline_fails_the_best_of_the_others_is_found(
    tune: Callable[..., StudyAnswer],
) -> None:
    answer = tune(grouped(2, fails=failing("crashed", 2), step_ms=scaling), max_blocks=8)
    assert answer.baseline_failed
    assert answer.best is not None
    assert threads_of(answer.best) == 4


def test_what_nobody_expected_in_a_thread_ends_the_search(
    tune: Callable[..., StudyAnswer],
) -> None:
    launcher = grouped(2, sigma=0.4)

    def breaks(order: WorldOrder) -> None:
        if order.steps is not None:
            raise RuntimeError("a defect")

    member = launcher.members[1]
    assert isinstance(member, GroupFake)
    member.before = breaks
    with pytest.raises(RuntimeError, match="a defect"):
        tune(launcher, max_blocks=6)


def test_a_front_is_measured_by_all_groups(
    tune: Callable[..., StudyAnswer], tmp_path: Path
) -> None:
    answer = tune(
        grouped(2, sigma=0.2, cpu_cores=lambda config: float(threads_of(config))),
        objective="step_ms,cpu_ms_per_step", max_blocks=20,
    )  # fmt: skip
    assert answer.front is not None
    store = load_study(StudyPlace.named("udf", out=tmp_path / "study"))
    front = [each for each in store.records() if each.phase == "exploration"]
    assert {each.group for each in front} == {1, 2}
