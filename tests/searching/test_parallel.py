"""Blocks that several groups measure at the same time: each wholly by one, and none twice."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

import tuner
from testing.fakes import FakeClock, order
from tests.marks import needs_two_cpus
from tests.searching.tuning import (
    GroupFake,
    Tune,
    check_days,
    cpus,
    failing,
    grouped,
    scaling,
    slower,
)
from tuner.decide import ranking
from tuner.errors import LauncherError
from tuner.present.environment_and_method import environment_facts
from tuner.searching.progress_reports import Snapshot
from tuner.study.answer import StudyAnswer
from tuner.study.blocks import BlockRows
from tuner.study.records import AGAIN
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.store import StudyStore
from tuner.world.launcher import GroupedLauncher, WorldOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

Blocks = dict[int, dict[int, int | None]]
COLUMNS = {AGAIN, 0, 1, 2}


@dataclass
class TuneGroups(Tune):
    """Searches three thread counts for 60 s by several groups, each with a noise of its own."""

    def __call__(self, launcher: Any = 3, /, **asked: Any) -> StudyAnswer:
        groups = launcher if isinstance(launcher, GroupedLauncher) else grouped(launcher, sigma=0.4)
        keys = {
            "space": {"num_worker_threads": [1, 2, 4]}, "baseline": {"num_worker_threads": 2},
            "groups": len(groups.members), "budget": "60s", **asked,
        }  # fmt: skip
        return self.search(groups, **keys)

    @property
    def blocks(self) -> Blocks:
        """The group of each world of the race that counts, by block and column."""
        found: Blocks = {}
        for record in self.log.records:
            if record.phase == "race":
                block = found.setdefault(record.block, {})
                assert record.column not in block
                block[record.column] = record.group
        return found

    def check_whole(self, answer: StudyAnswer, count: int) -> Blocks:
        """So many blocks count, each with all of its worlds, of one group."""
        blocks = self.blocks
        assert answer.blocks == len(blocks) == count
        assert all(block.keys() == COLUMNS for block in blocks.values())
        assert all(len(set(block.values())) == 1 for block in blocks.values())
        return blocks


@pytest.fixture
def tune(tmp_path: Path) -> TuneGroups:
    return TuneGroups(tmp_path / "study")


@pytest.fixture
def nobody_is_beaten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block has all rivals, though chance gives a group's noise to one block or another."""
    monkeypatch.setattr(ranking, "BEATEN", 1e-9)


def member(launcher: GroupedLauncher, number: int) -> GroupFake:
    found = launcher.members[number]
    assert isinstance(found, GroupFake)
    return found


def is_timed(order: WorldOrder) -> bool:
    """Whether it is of a block."""
    return order.steps is not None and order.trace is None


@pytest.mark.usefixtures("nobody_is_beaten")
def test_every_block_is_measured_wholly_by_one_group_and_one_controller_writes(
    tune: TuneGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers, threads, add = set[str](), threading.active_count(), StudyStore.add

    def noted(store: StudyStore, *given: Any) -> None:
        writers.add(threading.current_thread().name)
        add(store, *given)

    monkeypatch.setattr(StudyStore, "add", noted)
    blocks = tune.check_whole(tune(max_blocks=14), 14)
    assert {group for block in blocks.values() for group in block.values()} == {1, 2, 3}
    assert writers == {threading.current_thread().name}
    assert threading.active_count() == threads


def test_groups_measure_at_the_same_time(tune: TuneGroups) -> None:
    launcher, meeting = grouped(3, sigma=0.4), threading.Barrier(3, timeout=60)
    came, met = set[int](), list[int]()

    def meet(number: int, order: WorldOrder) -> None:
        if is_timed(order) and number not in came:
            came.add(number)
            met.append(meeting.wait())

    for number in range(3):
        member(launcher, number).before = partial(meet, number)
    tune(launcher, max_blocks=6)
    assert sorted(met) == [0, 1, 2]


def test_what_runs_when_the_answer_is_clear_does_not_count(tune: TuneGroups) -> None:
    answer = tune(grouped(4, step_ms=scaling, sigma=0.05))
    again = tuner.load_study(tune.folder)
    assert (again.observations, again.speedup) == (answer.observations, answer.speedup)
    assert tune.log.looks[-1].rows == len(tune.log.worlds("race")) == answer.blocks


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_group_that_is_lost_leaves_its_block_and_the_others_go_on(tune: TuneGroups) -> None:
    launcher = grouped(3, sigma=0.4)
    member(launcher, 1).lost_after = 6
    blocks = tune.check_whole(tune(launcher, max_blocks=12), 12)
    assert sum(2 in block.values() for block in blocks.values()) == 1
    (told,) = [each for each in tune.heard.told if "lost" in each]
    assert told.startswith("group 2 is lost: its host gives no answer; its block does not count")
    assert [state.is_lost for state in tune.heard.snapshots[-1].groups] == [False, True, False]


def test_the_first_group_may_be_lost_before_the_first_block(tune: TuneGroups) -> None:
    launcher = grouped(2, sigma=0.4)
    member(launcher, 0).lost_after = 2
    answer = tune(launcher, max_blocks=6)
    assert (answer.blocks, answer.verdict is None) == (6, False)


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (1, "^its host gives no answer. Every"),
        (2, "^the last of 2 groups is lost: its .* answer. Every"),
    ],
)
def test_the_last_group_ends_the_search_which_can_be_resumed(
    tune: TuneGroups, groups: int, told: str
) -> None:
    launcher = grouped(groups, sigma=0.4)
    for number in range(groups):
        member(launcher, number).lost_after = 10
    with pytest.raises(LauncherError, match=rf"{told}.* --resume continues it$"):
        tune(launcher, max_blocks=12)
    assert tune.blocks
    answer = tune(groups, max_blocks=12, resume=True)
    assert answer.blocks == len(tune.blocks) == 12
    assert all(len(set(block.values())) == 1 for block in tune.blocks.values())


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_world_that_fails_is_run_again_by_the_group_of_its_block(tune: TuneGroups) -> None:
    fails = failing("crashed", 1, 2, 4, when=lambda world: world in (2, 4))
    answer = tune(grouped(3, sigma=0.4, fails=fails), max_blocks=9)
    race = [record for record in tune.log.records if record.phase == "race"]
    failed = [each for each in race if isinstance(each.outcome, Failure)]
    assert len(failed) == sum(row.worlds_failed for row in answer.rows) >= 9
    assert not any(row.unreliable for row in answer.rows)
    ran = [(each.block, each.column) for each in race if isinstance(each.outcome, Measurement)]
    assert len(ran) == len(set(ran)) == 9 * 4
    assert len({(each.block, each.group) for each in race}) == 9


def test_a_trial_that_fails_more_often_is_run_by_no_group_from_then_on(tune: TuneGroups) -> None:
    fails = failing("crashed", 4, when=lambda world: world >= 2)
    answer = tune(grouped(3, sigma=0.4, fails=fails), max_blocks=9)
    (row,) = (row for row in answer.rows if row.failure)
    assert (row.outcome, row.unreliable, answer.blocks) == ("crashed", True, 9)
    assert row.worlds_failed < 30  # in nine blocks it would have failed in thirty and more


def test_what_nobody_expected_in_a_thread_ends_the_search(tune: TuneGroups) -> None:
    def breaks(order: WorldOrder) -> None:
        if order.steps is not None:
            raise RuntimeError("a defect")

    launcher = grouped(2, sigma=0.4)
    member(launcher, 1).before = breaks
    with pytest.raises(RuntimeError, match="a defect"):
        tune(launcher, max_blocks=6)


def test_a_front_is_measured_by_all_groups(tune: TuneGroups) -> None:
    launcher = grouped(2, sigma=0.2, cpu_cores=cpus)
    answer = tune(launcher, objective="step_ms,cpu_ms_per_step", max_blocks=20)
    assert answer.front is not None
    front = [record for record in tune.log.records if record.phase == "exploration"]
    assert {each.group for each in front} == {1, 2}


def in_race(worlds: int) -> Callable[[Snapshot], bool]:
    return lambda each: each.phase == "race" and each.worlds >= worlds


@pytest.mark.usefixtures("nobody_is_beaten")
@pytest.mark.parametrize("worlds", [1, 14])
def test_what_is_interrupted_is_left_out(tune: TuneGroups, worlds: int) -> None:
    tune.interrupted(max_blocks=10, stops=in_race(4 + worlds))
    before = tune.blocks
    assert sum(map(len, before.values())) >= worlds
    tune.check_whole(tune(max_blocks=10, resume=True), 10)
    whole = {number: block for number, block in before.items() if block.keys() == COLUMNS}
    kept = {number: tune.blocks[number] for number in before if number in tune.blocks}
    assert all(whole.get(number) == block for number, block in kept.items())
    # That of each group may have had its last world as the interrupt came, and not been closed.
    assert len(kept) >= len(whole) - len(tune.heard.snapshots[-1].groups)


@pytest.mark.usefixtures("nobody_is_beaten")
@pytest.mark.parametrize("worlds", [10, 14])
def test_a_block_of_a_group_is_of_one_day(tune: TuneGroups, worlds: int) -> None:
    given: dict[str, Any] = {"sigma": 0.05, "step_ms": scaling}
    tune.interrupted(grouped(2, **given), max_blocks=12, stops=in_race(4 + worlds))
    answer = tune(grouped(2, **given | {"step_ms": slower(scaling)}), max_blocks=12, resume=True)
    check_days(answer, scaling)


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_block_of_a_slow_group_is_left_out_however_many_began_since(tune: TuneGroups) -> None:
    launcher, interrupted, seen = grouped(2, sigma=0.4), threading.Event(), list[WorldOrder]()

    def hangs(order: WorldOrder) -> None:
        if is_timed(order):
            seen.append(order)
            if len(seen) > 1:
                interrupted.wait(timeout=60)

    def stops(each: Snapshot) -> bool:
        done = sum(state.block is None for state in each.groups) < 2 and each.block >= 5
        if done and each.phase == "race":
            interrupted.set()
        return interrupted.is_set()

    member(launcher, 0).before = hangs
    tune.interrupted(launcher, max_blocks=10, stops=stops)
    assert [len(block) for block in tune.blocks.values()].count(1) >= 1
    tune.check_whole(tune(2, max_blocks=10, resume=True), 10)


class Held(GroupFake):
    """A group that measures one world of a block, and holds the next one until it is stopped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if any(each.steps is not None and each.trace is None for each in self.orders):
            assert self._stopped.wait(timeout=60)
        return super().run(order)


class Killed(BaseException):
    """As SIGKILL: nothing is noted any more."""


@pytest.mark.usefixtures("nobody_is_beaten")
def test_a_session_that_is_killed_while_it_goes_on_leaves_out_every_open_block(
    tune: TuneGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = GroupedLauncher([Held(clock=FakeClock(), sigma=0.4, seed=n) for n in range(3)])
    tune.interrupted(held, max_blocks=10, stops=in_race(7))
    before = tune.blocks
    assert [len(block) for block in before.values()] == [1, 1, 1]

    # It is killed as it begins its first block.
    with monkeypatch.context() as patched:
        patched.setattr(BlockRows, "open", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            tune(max_blocks=10, resume=True)
    blocks = tune.check_whole(tune(max_blocks=10, resume=True), 10)
    assert before.keys().isdisjoint(blocks)


def test_a_larger_budget_goes_on_with_all_groups(tune: TuneGroups) -> None:
    clock = FakeClock()
    launcher = grouped(2, sigma=0.4, clock=clock)
    assert tune(launcher, budget="30s", clock=clock).verdict == "undecided"
    before, looks = tune.blocks, tune.log.looks
    again = grouped(2, sigma=0.4, clock=clock)
    answer = tune(again, budget="90s", clock=clock, resume=True)
    blocks = tune.blocks
    assert 60 < answer.elapsed_s < 95
    assert len(blocks) == answer.blocks > len(before)
    assert all(block.items() <= blocks[number].items() for number, block in before.items())
    assert all(len(set(block.values())) == 1 for block in blocks.values())
    new = [block for number, block in blocks.items() if number not in before]
    assert {group for block in new for group in block.values()} == {1, 2}
    assert tune.log.looks[: len(looks)] == looks


# Real worlds, on two groups of one CPU each.


@pytest.mark.world
@pytest.mark.thorough
@needs_two_cpus
def test_two_groups_measure_at_once_each_on_its_own_cpu(tmp_path: Path) -> None:
    answer = tuner.tune(
        f"{Path(__file__).with_name('pinned.py')}:Pinned", groups=2, cpus_per_world=1,
        space={"num_worker_threads": [2, 4]}, baseline={"num_worker_threads": 2}, max_blocks=6,
        budget="120s", min_time="20ms", epsilon="0.1%", name="pinned", out=tmp_path / "study",
    )  # fmt: skip
    assert answer.blocks == 6
    assert [row.failure for row in answer.rows] == [None, None]
    first, second = answer.environment.groups
    assert (first.pinned, first.cpu_count) == (second.pinned, second.cpu_count) == (True, 1)
    store = load_study(StudyPlace.named("pinned", out=tmp_path / "study"))
    race = [record for record in store.records() if record.phase == "race"]
    assert all(isinstance(each.outcome, Measurement) for each in race)
    assert len({(each.block, each.group) for each in race}) == 6
    assert {each.group for each in race} == {1, 2}
    assert "pinned to 1 logical CPU" in dict(environment_facts(answer))["groups"]


@pytest.mark.world
@pytest.mark.thorough
@needs_two_cpus
def test_a_world_can_be_ended_from_another_thread() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    ended: list[Measurement | Failure] = []
    with LocalLauncher(cpus=[min(psutil.Process().cpu_affinity())]) as launcher:
        spec = launcher.describe("udf_sleep", {"sleep_ms": 600_000})
        thread = threading.Thread(target=lambda: ended.append(launcher.run(order(spec))))
        thread.start()
        until = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < until:
            launcher.stop()  # before it has begun, too, and in its second attempt
            thread.join(0.2)
    assert isinstance(ended[0], Failure)
    children = psutil.Process().children(recursive=True)
    left = [" ".join(child.cmdline()) for child in children if child.pid not in before]
    assert not [each for each in left if not re.search("forkserver|resource_tracker", each)]
