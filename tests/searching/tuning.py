"""Whole studies on fake launchers, as the tests of a search run them."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import optuna
import pytest

import tuner
from testing.fakes import FakeClock, FakeLauncher, threads_of
from tuner.api import SearchInterrupted
from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.searching.progress_reports import Snapshot
from tuner.study.answer import StudyAnswer
from tuner.study.log import StudyLog
from tuner.study.rows import TrialRow
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.stored import stored_log
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.world.launcher import GroupedLauncher, Launcher, WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement

# The rest of what a fake launcher is given: `seed` is the search's, and `noise` the launcher's.
_OF_LAUNCHER = {each.name for each in fields(FakeLauncher)} - {"seed"}
FOUR = {"num_worker_threads": [1, 2, 4, 8]}


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


@dataclass
class Tune:
    """Searches in a folder: four thread counts for 30 s, unless told otherwise.

    Keywords are those of `tuner.tune` and of `FakeLauncher`; `stops` tells by a snapshot whether to
    interrupt.
    """

    folder: Path
    heard: Listening = field(default_factory=Listening)  # what the latest search told
    launcher: FakeLauncher = field(default_factory=FakeLauncher)  # that of the latest search

    def __call__(self, launcher: FakeLauncher | None = None, /, **asked: Any) -> StudyAnswer:
        given = {name: asked.pop(name) for name in _OF_LAUNCHER & asked.keys()}
        self.launcher = launcher or FakeLauncher(**given, seed=asked.pop("noise", 0))
        return self.search(self.launcher, clock=self.launcher.clock, **asked)

    def search(self, launcher: Launcher, **asked: Any) -> StudyAnswer:
        stops = asked.pop("stops", None)
        self.heard = Listening(stops) if stops else Listening()
        usual = {"workload": "udf", "space": FOUR, "budget": "30s", "out": self.folder}
        return tuner.tune(launcher=launcher, **{**usual, "observer": self.heard, **asked})

    def interrupted(self, *launcher: Any, **asked: Any) -> StudyAnswer:
        """The answer so far of a search that is interrupted."""
        with pytest.raises(SearchInterrupted) as stopped:
            self(*launcher, **asked)
        return stopped.value.result

    @property
    def spent_s(self) -> float:
        """Seconds that the latest search took."""
        return self.launcher.clock() - FakeClock().now_s

    @property
    def study(self) -> optuna.Study:
        """The Optuna study that a search left."""
        return optuna.load_study(study_name="udf", storage=f"sqlite:///{self.folder}/study.db")

    @property
    def log(self) -> StudyLog:
        """Everything that the study has."""
        store = load_study(StudyPlace.named("udf", out=self.folder))
        return stored_log(store, store.plan())


def scaling(config: Config) -> float:
    """One thread takes 8 ms, four or more take 2 ms."""
    return 8.0 / min(4, threads_of(config))


def by_threads(values: Mapping[int, float]) -> Callable[[Config], float]:
    return lambda config: values[threads_of(config)]


INTERVALS = {"switch_interval": "5ms,20ms,2ms,1ms"}


def by_interval(config: Config) -> float:
    """A thread waits for the GIL less where it is switched more often."""
    return 1.0 + 1e3 * float(str(config.for_role("server")["switch_interval"])) / 5


def cpus(config: Config) -> float:
    """The CPUs that a configuration keeps busy: one per thread."""
    return float(threads_of(config))


Fails = Callable[[Config, int], FailureKind | None]


def failing(
    kind: FailureKind, *threads: int, when: Callable[[int], bool] = lambda world: True
) -> Fails:
    """Worlds with one of these thread counts fail: every one, or those of these numbers."""
    return lambda config, world: kind if threads_of(config) in threads and when(world) else None


def keys(launcher: FakeLauncher) -> Counter[tuple[str, int, bool]]:
    """How often each configuration was run with each seed, calibrations apart."""
    return Counter((str(o.config), o.seed, o.steps is None) for o in launcher.orders)


def row_of(result: StudyAnswer, config: Config) -> TrialRow:
    """The row of a configuration."""
    return next(row for row in result.rows if row.config == config)


def slower(step_ms: Callable[[Config], float], times: float = 2.0) -> Callable[[Config], float]:
    """The same on another day, when the machine is so many times as slow."""
    return lambda config: times * step_ms(config)


def check_days(answer: StudyAnswer, step_ms: Callable[[Config], float]) -> None:
    """Each block has worlds of one day alone, the first or one that is twice as slow."""
    paces: dict[int, list[float]] = {}
    for seen in answer.observations:
        pace = seen.value / step_ms(answer.by_trial[seen.trial].config)
        paces.setdefault(seen.block, []).append(pace)
    days = {block: {pace > math.sqrt(2) for pace in each} for block, each in paces.items()}
    assert [*days.values()] == [*sorted(days.values(), key=max)]
    assert {frozenset(day) for day in days.values()} == {frozenset({False}), frozenset({True})}


class GroupFake(FakeLauncher):
    """A group's launcher, whose worlds take real time; it notes what it has run."""

    lost_after: int | None = None  # LauncherError from this world on
    before: Callable[[WorldOrder], None] = staticmethod(lambda order: None)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if self.lost_after is not None and len(self.orders) >= self.lost_after:
            raise LauncherError("its host gives no answer")
        self.before(order)
        time.sleep(0.002)
        return super().run(order)


def grouped(count: int, **given: Any) -> GroupedLauncher:
    """So many groups, each with a clock of its own unless one is given."""
    return GroupedLauncher(
        [GroupFake(**{"clock": FakeClock(), **given}, seed=seed) for seed in range(count)]
    )


def forecasting(ratios: Mapping[int, float], role: str = "server") -> AbstractContextManager[Mock]:
    """Has the baseline's trace tell these ratios by threads of the role, each to 5 %; infinite: a
    deadlock."""

    def forecast(what_if: WhatIf) -> Forecast:
        assert what_if.threads is not None
        ratio = ratios[what_if.threads[role]]
        if math.isinf(ratio):
            return Forecast(ratio=ratio, ratio_low=ratio, ratio_high=ratio, deadlock="a call")
        return Forecast(ratio=ratio, ratio_low=ratio / 1.05, ratio_high=ratio * 1.05)

    return patch.object(Model, "of", return_value=Mock(
        forecast=forecast, changeable=Mock(candidates=list)
    ))  # fmt: skip


def forecasting_intervals(ratios: Mapping[float, float]) -> AbstractContextManager[Mock]:
    """Has the baseline's trace tell these ratios by switch interval in ms, each to 5 %, and nothing
    of another one."""

    def forecast(what_if: WhatIf) -> Forecast:
        asked = {round(1e3 * each, 6) for each in (what_if.intervals_s or {}).values()}
        if (ratio := ratios.get(*asked or {0.0})) is None:
            return Forecast(why_not="it depends on whether calls wait for a GIL")
        return Forecast(ratio=ratio, ratio_low=ratio / 1.05, ratio_high=ratio * 1.05)

    model = Mock(forecast=forecast, changeable=Mock(candidates=list))
    return patch.object(Model, "of", return_value=model)
