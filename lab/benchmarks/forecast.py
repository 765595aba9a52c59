"""The forecast from one trace beside measured worlds.

`FORECAST` names the subjects; default: all. A workload is traced once with PyTorch's default of 16
threads, a program as it is. Its worlds are measured in rounds, in random order, with the traced
configuration among them; their ratios give the interval. With `HOG=1` another process computes
meanwhile.
"""

import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.benchmarks.programs import ROOT
from lab.benchmarks.report import Comparison, log_ratio
from lab.benchmarks.tuned import collector
from testing.fakes import order
from testing.launching import Launched, launched
from testing.outcomes import measured
from testing.programs import PROGRAMS as FOLDER
from testing.programs import PYTHON, busy_machine, free_port
from testing.synthetic import Part, simulate
from tuner.decide.statistics import Interval
from tuner.errors import ProgramFailedError
from tuner.plan.config import Config, Dimension
from tuner.text import decimal, ratio_cell
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import ALL, Forecast, Model, WhatIf, forecasts
from tuner.trace.forecast.replay import replay
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement, Outcome

ROUNDS = int(os.environ.get("ROUNDS", "5"))
WORLD_S = 0.3
THREADS = (1, 2, 4, 8, 16, 32)
TRACED = 16
SAME = Forecast(ratio=1.0, ratio_low=1.0, ratio_high=1.0)
"""Of the traced configuration itself."""
PLAIN = ("builtin", "light", "nested", "payload", "udf", "udf_sleep")
SUBJECTS: Mapping[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in PLAIN},
    "cartpole": ("cartpole", {"observers": 4, "batch": True}),
    "parameter_server": ("parameter_server", {"trainers": 2}),
    "udf_400": ("udf", {"size": 400, "calls": 8}),
    "eight_sleep": ("testing/served_together.py:Sleeps", {}),
    "one_lock": ("testing/served_together.py:OneLock", {}),
    "holds_gil": ("testing/served_together.py:HoldsGil", {}),
}
CASES = sorted(path.stem for path in (FOLDER / "cases").glob("*.py"))


def _program(name: str, *arguments: str) -> list[str]:
    return [*PYTHON, str(FOLDER / f"{name}.py"), *arguments]


def _case(name: str) -> list[str]:
    return _program(f"cases/{name}")


PROGRAMS: Mapping[str, Callable[[], list[str] | None]] = {
    "batch_updates": lambda: [*PYTHON, str(ROOT / "studies/batch_updates.py"), "--updates", "50"],
    "torchrl": lambda: collector(20),
    "spawn_env": lambda: _program("spawn_env", "3", "20"),
    "nested_program": lambda: _program("nested", free_port(), "4", "16"),
    "runs_long": lambda: _program("runs_long", "1"),
    "forked": lambda: _program("forked"),
    "own_options": lambda: _program("own_options", free_port()),
    **{name: partial(_case, name) for name in CASES},
    "reinit_many": lambda: _program("cases/reinit_many", "10"),
}
"""Their commands; None for one that is not installed."""
AS_IT_IS = 0
"""Stands for the threads that a program has by itself."""
LONGEST_S = 15.0
"""A run that takes longer hangs."""
MOST_S, CALLS = 1.0, 10_000
"""What the replay of a trace of so many calls may take a configuration."""


@dataclass(frozen=True)
class Row:
    """A forecast beside what was measured."""

    subject: str
    asked: str
    found: Forecast
    measured: Interval
    """Infinite where the worlds failed, as those in a deadlock do."""

    @property
    def error(self) -> float:
        """As a ratio, at least 1; NaN where there is no forecast."""
        found, measured = self.found.ratio, self.measured.estimate
        if math.isinf(found) or math.isinf(measured):
            return 1.0 if found == measured else math.nan
        return math.exp(abs(math.log(found / measured)))

    @property
    def is_inside(self) -> bool:
        """Whether both intervals have a ratio in common."""
        return (
            self.found.ratio_low <= self.measured.high
            and self.measured.low <= self.found.ratio_high
        )

    def cells(self) -> list[str]:
        """What its line of the table holds."""
        found, measured = self.found, self.measured
        told = ratio_cell(found.ratio, found.ratio_low, found.ratio_high)
        told = "a deadlock" if found.deadlock else told
        if found.why_not:
            told = f"no forecast: {found.why_not}"
        beside = ratio_cell(measured.estimate, measured.low, measured.high)
        rest = [] if found.why_not else [decimal(self.error), str(self.is_inside)]
        return [self.subject, self.asked, told, beside, *rest]


def run() -> list[Comparison]:
    """The error of the forecast of every subject, and what a replay costs."""
    chosen = os.environ.get("FORECAST", "")
    names = chosen.split(",") if chosen else [*SUBJECTS, *PROGRAMS]
    rows = []
    with busy_machine() if os.environ.get("HOG") else ExitStack():
        for name in names:
            print_rows(found := _rows(name))
            rows += found
    told = [row for row in rows if not row.found.why_not]
    errors = [row.error for row in told if not math.isnan(row.error)] or [math.nan]
    inside = sum(row.is_inside for row in told)
    hangs = [row for row in rows if math.isinf(row.measured.estimate)]
    known = sum(bool(row.found.why_not or row.found.deadlock) for row in hangs)
    return [
        Comparison("median error of the forecast ratio", f"{len(told)} of {len(rows)} forecast",
                   "exact", float(np.median(errors)), 1.0, "x", most=1.12),
        Comparison("forecasts, over those inside of their interval", f"{inside} are inside",
                   "all", len(told) / max(inside, 1), 1.0, "x", most=10 / 9),
        Comparison("hangs, over those that are foretold or refused", f"{known} of {len(hangs)}",
                   "all", (1 + len(hangs)) / (1 + known), 1.0, "x", most=1.0),
        _replay_cost(),
    ]  # fmt: skip


def _replay_cost() -> Comparison:
    steps = CALLS // 8
    trace = simulate([Part("operator", 1)], threads=16, at_once=8, steps=steps, cpus=4)
    began_s = time.perf_counter()
    model = Model.of(trace)
    assert isinstance(model, Model), model
    built_s = time.perf_counter() - began_s
    whole = Model.of(trace, most_calls=CALLS)
    assert isinstance(whole, Model), whole
    began_s = time.perf_counter()
    replay(whole.programs[0], whole.machine._replace(threads=[4, 4]))
    one_s = time.perf_counter() - began_s
    model.forecast(WhatIf(threads={"*": 4}))
    forecast_s = time.perf_counter() - began_s - one_s
    print(f"a model takes {built_s:.2f} s, a forecast with its interval {forecast_s:.2f} s")
    what = f"the replay of a trace of {CALLS} calls, a configuration"
    return Comparison(what, "replay", "bar", one_s, MOST_S, most=MOST_S)


def _time_of(outcome: Outcome, read: Callable[[Measurement], float]) -> float:
    """Infinite where it hung; NaN where it failed otherwise, of which a forecast says nothing."""
    if isinstance(outcome, Measurement):
        return read(outcome)
    return math.inf if outcome.failure in ("deadlock", "timed-out") else math.nan


class Worlds:
    """A workload's worlds."""

    def __init__(self, launcher: LocalLauncher, reference: str, options: dict[str, object]) -> None:
        spec = launcher.describe(reference, options)
        traced = order(spec, threads=TRACED, steps=None, deadline_s=20.0)
        self._launcher, self._order = launcher, replace(traced, min_time_s=WORLD_S)

    def trace(self, path: Path) -> None:
        """Of about as many steps as are measured."""
        steps = len(measured(self._launcher.run(self._order)).step_s)
        taken = TraceOrder(path=path, operators=False)
        measured(self._launcher.run(replace(self._order, steps=steps, trace=taken)))

    def measure_s(self, config: Config, seed: int) -> float:
        """The time of a step."""
        outcome = self._launcher.run(replace(self._order, config=config, seed=seed))
        return _time_of(outcome, lambda found: float(np.median(found.step_s)))


class Runs:
    """A program's runs."""

    def __init__(self, program: Launched) -> None:
        self._program = program

    def trace(self, path: Path) -> None:
        """Of one run."""
        taken = TraceOrder(path=path, operators=False)
        self._program.run(trace=taken, deadline_s=2 * LONGEST_S)

    def measure_s(self, config: Config, seed: int) -> float:
        """The time from the first call to the last."""
        found = self._program.run(config=config.to_json(), deadline_s=LONGEST_S, seed=seed)
        # Where no rank shuts down, only the whole run is known, of which calls are a part.
        return _time_of(found, lambda run: (run.program and run.program.rpc_active_s) or math.nan)


def _rows(name: str) -> list[Row]:
    base = AS_IT_IS if name in PROGRAMS else TRACED
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if name in PROGRAMS:
            if (command := PROGRAMS[name]()) is None:
                return []
            try:
                program = stack.enter_context(launched(command, budget="60s", window="off"))
            except ProgramFailedError as error:
                print(f"{name}: {str(error).splitlines()[0]}")
                return []
            subject: Worlds | Runs = Runs(program)
        else:
            launcher = stack.enter_context(LocalLauncher())
            subject = Worlds(launcher, *SUBJECTS[name])
        subject.trace(path := folder / "trace.json")
        if not path.exists():
            print(f"{name}: has no trace")
            return []
        told = forecasts(read_trace(path), [WhatIf(threads={ALL: each}) for each in THREADS])
        found = dict(zip(THREADS, told, strict=True))
        runs = list(dict.fromkeys([base, *THREADS]))
        took_s: dict[int, list[float]] = {threads: [] for threads in runs}
        for number in range(ROUNDS):
            for threads in random.Random(number).sample(runs, len(runs)):
                if all(map(math.isfinite, took_s[threads])):
                    config = Config.of({}) if threads == AS_IT_IS else config_of(threads)
                    took_s[threads].append(subject.measure_s(config, number))
    return [
        Row(name, str(threads), found[threads], ratio_of(took_s[threads], took_s[base]))
        for threads in THREADS
        if found[threads] != SAME and not np.isnan([*took_s[threads], *took_s[base]]).any()
    ]


def ratio_of(some: Sequence[float], base: Sequence[float]) -> Interval:
    """The ratio of the times, paired in rounds; infinite where worlds failed."""
    if math.inf in (*some, *base):
        return Interval(math.inf, math.inf, math.inf)
    return log_ratio(np.array(some), np.array(base)).exp()


def config_of(threads: int) -> Config:
    """That of so many worker threads."""
    return Config.of({Dimension("*", "num_worker_threads"): threads})


def print_rows(rows: Sequence[Row], asked: str = "threads") -> None:
    """Print a table; `asked` is what differs."""
    table = Table("subject", asked, "forecast", "measured", "error", "inside")
    for row in rows:
        table.add_row(*row.cells())
    Console(width=150).print(table)
