"""Logs written by hand, and small studies on the fake launcher."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tuner
from testing.fakes import UDF, FakeLauncher
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.present.study_result import StudyResult
from tuner.study.log import StudyLog
from tuner.study.records import CALIBRATION_BLOCK, Phase, Record
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement, Outcome, RankUsage


def plan_of(*threads: int, **keys: Any) -> StudyPlan:
    """A plan of these numbers of threads; the baseline has 16."""
    space = {"num_worker_threads": [*threads]}
    return draft_plan({"workload": "udf", "space": space, **keys}).finish(UDF)


def took(step_s: float, world_s: float = 1.0) -> Measurement:
    usage = RankUsage(name="worker0", cpu_s=2.0, peak_rss_mb=100.0, threads=3)
    return Measurement(step_s=(step_s,), wall_s=step_s, world_s=world_s, ranks=(usage,))


def failed() -> Failure:
    return Failure(failure="crashed", message="worker1 failed first", world_s=1.0)


def world(phase: Phase, trial: int, block: int, outcome: Outcome) -> Record:
    return Record(trial=trial, block=block, phase=phase, outcome=outcome)


def calibrated(trials: Iterable[int]) -> list[Record]:
    return [world("calibration", trial, CALIBRATION_BLOCK, took(1.0)) for trial in trials]


def log_of(plan: StudyPlan, *records: Record) -> StudyLog:
    return StudyLog(plan, plan.candidates(), records)


def search(out: Path | str, launcher: FakeLauncher | None = None, **changes: Any) -> StudyResult:
    """Search for two blocks of 2 threads and the baseline, unless told otherwise."""
    launcher = launcher or FakeLauncher()
    keys = {"space": {"num_worker_threads": [2]}, "max_blocks": 2, "out": str(out), **changes}
    return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)


def refusal(out: Path | str, **changes: Any) -> str:
    """Why a search is refused; it must run nothing."""
    launcher = FakeLauncher()
    with pytest.raises(UsageError) as caught:
        search(out, launcher, **changes)
    assert launcher.orders == []
    return str(caught.value)


def written(folder: Path, *names: str) -> list[Path]:
    """Files of other origin."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    return [folder / name for name in names]


def changed(database: Path, *statements: str) -> None:
    """Change an SQLite file, as nobody but SQLite knows."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@dataclass
class Telling(FakeLauncher):
    """A launcher whose failed worlds leave what their ranks printed."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome = super().run(order)
        if isinstance(outcome, Failure) and order.failure_folder is not None:
            order.failure_folder.mkdir(parents=True, exist_ok=True)
            (order.failure_folder / "worker1.stderr").write_text(f"in {order.failure_folder.name}")
            (order.failure_folder / "failure.json").write_text("{}")
        return outcome
