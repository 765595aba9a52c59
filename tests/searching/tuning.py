"""Whole studies on the fake launcher, as the tests of a search run them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

import tuner
from tests.fakes import FakeLauncher, threads_of
from tuner.plan.config import Config
from tuner.searching.progress_reports import Snapshot
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow
from tuner.world.measurement import FailureKind

Tune = Callable[..., StudyAnswer]
"""A search with a launcher and the keywords of `tuner.tune`; in the folder `study` if none is
given."""


class Listening:
    """Hears what is told; may interrupt the search."""

    def __init__(self, interrupt: Callable[[Snapshot], bool] = lambda snapshot: False) -> None:
        self.told: list[str] = []
        self.snapshots: list[Snapshot] = []
        self._interrupt = interrupt

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        if self._interrupt(snapshot):
            raise KeyboardInterrupt

    def on_event(self, message: str) -> None:
        self.told.append(message)


def tuning_in(folder: Path) -> Tune:
    """A search of four thread counts for 30 s in this folder, unless told otherwise."""

    def run(launcher: FakeLauncher, **changes: Any) -> StudyAnswer:
        changes = {
            "space": {"num_worker_threads": [1, 2, 4, 8]},
            "out": str(folder),
            "budget": "30s",
            **changes,
        }
        return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **changes)

    return run


def scaling(config: Config) -> float:
    """One thread takes 8 ms, four or more take 2 ms."""
    return 8.0 / min(4, threads_of(config))


def failing(kind: FailureKind, *threads: int) -> Callable[[Config, int], FailureKind | None]:
    """Every world with one of these thread counts fails."""
    return lambda config, world: kind if threads_of(config) in threads else None


def keys(launcher: FakeLauncher) -> Counter[tuple[str, int, bool]]:
    """How often each configuration was run with each seed, calibrations apart."""
    return Counter((str(o.config), o.seed, o.steps is None) for o in launcher.orders)


def row_of(result: StudyAnswer, config: Config) -> TrialRow:
    """The row of a configuration."""
    return next(row for row in result.rows if row.config == config)


def study(tmp_path: Path) -> optuna.Study:
    """The Optuna study that `tune` left."""
    return optuna.load_study(study_name="udf", storage=f"sqlite:///{tmp_path}/study/study.db")
