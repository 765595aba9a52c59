"""Forecasts of changes, from one recording, against the changed programs: measured in turns."""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks.forecast import SUBJECTS, TRACED, Row, Runs, Worlds, config_of, print_rows
from lab.benchmarks.pairs import PAIRS
from lab.benchmarks.programs import ROOT
from lab.benchmarks.report import Comparison, log_ratio
from testing.launching import launched
from testing.programs import PYTHON, free_port
from testing.synthetic import Part, simulate
from tuner.plan.config import Config
from tuner.present.changes import read_change
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.by_callers import by_callers
from tuner.trace.forecast.change import Change
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.no_sleep import forecast_with
from tuner.trace.forecast.ranked import rows_of
from tuner.trace.model.trace import CALL_COLUMNS, Trace
from tuner.world.local.local_launcher import LocalLauncher

ROUNDS = int(os.environ.get("ROUNDS", "5"))
ONLY = os.environ.get("PAIRS", "").split()
AS_IT_IS = "-"


def _observers(number: int, batch: str = "") -> tuple[dict[str, object], list[Change]]:
    """The CartPole solver with so many observers, of the traced one with 3."""
    changes = [Change(kind="callers", number=number / 3)] * (number != 3)
    if batch:
        changes.append(Change(kind="batch", function="select_action", number=number))
    return {"observers": number, "batch": bool(batch)}, changes


Edits = Mapping[str, tuple[object, list[Change]]]
TUTORIALS: Mapping[str, tuple[object, Edits]] = {
    "cartpole": (_observers(3)[0], {
        **{f"{number} observers": _observers(number) for number in (1, 2, 5, 7, 10)},
        **{f"{number} observers, batched": _observers(number, "batched")
           for number in (3, 5, 7, 10)},
    }),
    "batch_updates": (2, {"1 trainer": (1, [Change(kind="callers", number=1 / 2)]),
                          "3 trainers": (3, [Change(kind="callers", number=3 / 2)]),
                          "4 trainers": (4, [Change(kind="callers", number=2)])}),
}  # fmt: skip
"""PyTorch's tutorials: the options of the traced one, or its number of trainers, and those of each
that is forecast, with the changes that it is."""


def run() -> list[Comparison]:
    """All pairs, and how long it takes to forecast all changes of a long trace."""
    rows = [
        row for name in ONLY or [*PAIRS, *TUTORIALS]
        for row in (_tutorial(name) if name in TUTORIALS else _pair(name))
    ]  # fmt: skip
    print_rows(rows, "change")
    told = [row for row in rows if not row.found.why_not]
    errors = [row.error for row in told]
    overlap = sum(row.is_inside for row in told)
    return [
        Comparison("median error of a change", "forecast", "exact",
                   statistics.median(errors) if errors else math.nan, 1.0, "times", most=1.12),
        Comparison("intervals that overlap", "all", "overlapping", len(errors), overlap, "",
                   least_ratio=0.9),
        _ten_thousand_calls(),
    ]  # fmt: skip


def _ten_thousand_calls() -> Comparison:
    taken = simulate([Part("sleep", 1)], threads=16, at_once=1, steps=10_000)
    calls = taken.calls.assign(kind="rpc_sync", request_bytes=100).astype(CALL_COLUMNS)
    trace = replace(taken, calls=calls)
    began_s = time.perf_counter()
    model = Model.of(trace)
    rows_of(trace, model)
    by_callers(trace, model)
    took_s = time.perf_counter() - began_s
    return Comparison("all changes of 10,000 calls", "forecast", "5 s", took_s, 5.0, most=5.0)


def _pair(name: str) -> list[Row]:
    edits = PAIRS[name][3]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        record = [sys.executable, "-m", "tuner.record", "--json", "--no-timeline", "-o", str(path)]
        _run(name, AS_IT_IS, *record, "--")
        trace = read_trace(path)
    model = Model.of(trace)
    took_s: dict[str, list[float]] = {edit: [] for edit in (AS_IT_IS, *edits)}
    for _ in range(ROUNDS):
        for edit, times in took_s.items():
            times.append(float(_run(name, edit).split()[-1]))
    base = np.array(took_s[AS_IT_IS])
    return [
        Row(
            name, edit, _forecast(trace, model, edit), log_ratio(np.array(took_s[edit]), base).exp()
        )
        for edit in edits
    ]


def _tutorial(name: str) -> list[Row]:
    traced, edits = TUTORIALS[name]
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "trace.json"
        launcher = stack.enter_context(LocalLauncher())

        def subject(options: Any) -> Worlds | Runs:
            if name in SUBJECTS:
                return Worlds(launcher, name, options)
            command = [*PYTHON, str(ROOT / f"studies/{name}.py"), "--updates", "100"]
            return Runs(stack.enter_context(
                launched([*command, "--trainers", str(options)], budget="60s", window="off")
            ))  # fmt: skip

        subjects = {AS_IT_IS: subject(traced)} | {e: subject(each[0]) for e, each in edits.items()}
        subjects[AS_IT_IS].trace(path)
        trace = read_trace(path)
        model = Model.of(trace)
        took_s: dict[str, list[float]] = {edit: [] for edit in subjects}
        for seed in range(ROUNDS):
            for edit, each in subjects.items():
                config = config_of(TRACED) if isinstance(each, Worlds) else Config.of({})
                took_s[edit].append(each.measure_s(config, seed))
    before = np.array(took_s[AS_IT_IS])
    return [
        Row(name, e, _found(trace, model, made), log_ratio(np.array(took_s[e]), before).exp())
        for e, (_, made) in edits.items()
    ]


def _forecast(trace: Trace, model: Model | str, edit: str) -> Forecast:
    change = read_change(*edit.split("=", 1))
    assert isinstance(change, Change)
    return _found(trace, model, [change])


def _found(trace: Trace, model: Model | str, changes: Sequence[Change]) -> Forecast:
    """Of the calls alone, as they are measured: without what comes after the last one, and without
    what comes before the first where the forecast is of all."""
    if isinstance(model, str):
        return Forecast(why_not=model)
    found = forecast_with(trace, model, WhatIf(changes=changes))
    ratios = (found.ratio, found.ratio_low, found.ratio_high)
    is_of_all = any(change.kind == "no-sleep" for change in changes)
    rest = window_length_ns(trace) / model.took_ns - 1 if is_of_all else model.rest
    alone = (max(each * (1 + rest) - rest, 1e-3) for each in ratios)
    ratio, low, high = alone
    return Forecast(ratio=ratio, ratio_low=low, ratio_high=high, why_not=found.why_not)


def _run(name: str, edit: str, *before: str) -> str:
    """What a program prints; once more where another one took its port meanwhile."""
    for is_last in (False, True):
        command = [*before, *PYTHON, "-m", "lab.benchmarks.pairs", name, edit, free_port()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if not done.returncode or is_last:
            break
    done.check_returncode()
    return done.stdout
