"""Searches with groups that are interrupted and go on: each block with its group, none twice."""

import threading
from pathlib import Path

import pytest

import tuner
from tests.fakes import FakeClock
from tests.searching.grouping import GroupFake, grouped, stored, tuning_groups_in
from tests.searching.tuning import Listening, Tune
from tuner.errors import UsageError
from tuner.searching.progress_reports import Snapshot
from tuner.study.blocks import BlockRows
from tuner.study.records import AGAIN
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.world.launcher import GroupedLauncher, WorldOrder
from tuner.world.measurement import Failure, Measurement


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    return tuning_groups_in(tmp_path / "study")


@pytest.mark.usefixtures("nobody_is_beaten")
@pytest.mark.parametrize("worlds", [1, 14])
def test_what_is_interrupted_is_finished_by_the_same_groups(
    tune: Tune, tmp_path: Path, worlds: int
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


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_block_of_a_slow_group_is_finished_however_many_began_since(
    tune: Tune, tmp_path: Path
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


class Held(GroupFake):
    """A group that measures one world of a block, and holds the next one until it is stopped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if any(each.steps is not None for each in self.orders):
            assert self._stopped.wait(timeout=60)
        return super().run(order)


class Killed(BaseException):
    """As SIGKILL: nothing is noted any more."""


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_session_that_is_killed_while_it_goes_on_forgets_no_block(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reopens one block after the other, and is killed after the first."""
    launcher = GroupedLauncher([Held(clock=FakeClock(), sigma=0.4, seed=n) for n in range(3)])
    stopping = Listening(lambda each: each.phase == "race" and each.worlds >= 6)
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(launcher, max_blocks=10, observer=stopping)
    before = stored(tmp_path)
    assert [len(block) for block in before.values()] == [1, 1, 1]

    def killed(*given: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(BlockRows, "open", killed)
        with pytest.raises(Killed):
            tune(grouped(3, sigma=0.4), max_blocks=10, resume=True)
    answer = tune(grouped(3, sigma=0.4), max_blocks=10, resume=True)
    blocks = stored(tmp_path)
    assert answer.blocks == len(blocks) == 10
    assert all(block.keys() == {AGAIN, 0, 1, 2} for block in blocks.values())
    assert all(before[number].items() <= blocks[number].items() for number in before)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_larger_budget_goes_on_with_all_groups(
    tune: Tune, tmp_path: Path, interrupted: bool
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


def test_another_number_of_groups_cannot_go_on(tune: Tune) -> None:
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(grouped(2), observer=Listening(lambda each: each.block > 1))
    with pytest.raises(UsageError, match="groups: 2 in the study, 3 now"):
        tune(grouped(3), resume=True)
