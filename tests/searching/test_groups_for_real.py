"""Real worlds on two groups of one CPU each, at the same time."""

import threading
import time
from pathlib import Path

import psutil
import pytest

import tuner
from tests.fakes import order
from tuner.cpus import usable_cpus
from tuner.present.environment_and_method import environment_facts
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

pytestmark = [
    pytest.mark.world,
    pytest.mark.thorough,
    pytest.mark.skipif(usable_cpus() < 2, reason="two groups need two logical CPUs"),
]
WORKLOAD = f"{Path(__file__).with_name('pinned.py')}:Pinned"


def test_two_groups_measure_at_once_each_on_its_own_cpu(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    answer = tuner.tune(
        WORKLOAD, groups=2, cpus_per_world=1, space={"num_worker_threads": [2, 4]},
        baseline={"num_worker_threads": 2}, max_blocks=6, budget="120s", min_time="20ms",
        epsilon="0.1%", name="pinned", out=folder,
    )  # fmt: skip
    assert answer.blocks == 6
    assert [row.failure for row in answer.rows] == [None, None]
    first, second = answer.environment.groups
    assert first.pinned
    assert second.pinned
    assert (first.cpu_count, second.cpu_count) == (1, 1)
    assert first.name != second.name
    assert answer.environment.unlike_groups == []
    store = load_study(StudyPlace.named("pinned", out=folder))
    race = [each for each in store.records() if each.phase == "race"]
    assert all(isinstance(each.outcome, Measurement) for each in race)
    by_block = {each.block: {r.group for r in race if r.block == each.block} for each in race}
    assert all(len(groups) == 1 for groups in by_block.values())
    assert {group for groups in by_block.values() for group in groups} == {1, 2}
    assert "pinned to 1 logical CPU" in dict(environment_facts(answer))["groups"]


def test_a_world_can_be_ended_from_another_thread(tmp_path: Path) -> None:
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
    left = [
        child for child in psutil.Process().children(recursive=True)
        if child.pid not in before and "forkserver" not in " ".join(child.cmdline())
        and "resource_tracker" not in " ".join(child.cmdline())
    ]  # fmt: skip
    assert left == []
