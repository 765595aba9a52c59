"""Searches with groups on fake launchers, as their tests run them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tuner
from tests.fakes import FakeClock, FakeLauncher
from tests.searching.tuning import Tune
from tuner.errors import LauncherError
from tuner.study.answer import StudyAnswer
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.stored import stored_log
from tuner.world.launcher import GroupedLauncher, WorldOrder
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


def tuning_groups_in(folder: Path) -> Tune:
    """A search of three thread counts for 60 s in this folder, unless told otherwise."""

    def run(launcher: GroupedLauncher, **changes: Any) -> StudyAnswer:
        keys = {
            "space": SPACE, "baseline": BASE, "groups": len(launcher.members), "budget": "60s",
            "out": str(folder), **changes,
        }  # fmt: skip
        return tuner.tune("udf", launcher=launcher, **keys)

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
