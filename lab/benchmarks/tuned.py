"""What tuning gains: workloads, programs that nobody here wrote, and single knobs.

`PYTORCH_EXAMPLES` names a checkout of pytorch/examples.
"""

import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.report import Comparison, log_ratio
from testing.known import known
from testing.programs import PROGRAMS, PYTHON, free_port
from tuner.api import tune
from tuner.decide.statistics import Interval
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.study_result import StudyResult
from tuner.searching.sweeping import sweep
from tuner.text import ratio_cell

FRAMES = {"metric": "frames per second=fps: ([0-9.]+)", "maximize": True}
THREADS_ALONE = {"num_worker_threads": "1..32:x2"}
EXAMPLES = os.environ.get("PYTORCH_EXAMPLES")
WORKLOADS: dict[str, dict[str, object]] = {
    "cartpole": {"observers": 4, "batch": True},
    "parameter_server": {"trainers": 2},
    "payload": {"megabytes": 4.0},
    "light": {},
}
# Rounds after the search: what it measured itself has helped to choose.
ROUNDS = 15
BOUND_CONFIGS = {
    f"{threads} {binding}": {"*": {"num_worker_threads": threads, "cpu_binding": binding}}
    for threads in (1, 16)
    for binding in ("none", "equal")
}
BOUND_S = 80.0
"""For the worlds of these, half of them bound."""


def searched(**request: Any) -> StudyResult:
    """A search that finds no earlier studies beside it."""
    with tempfile.TemporaryDirectory() as folder:
        return tune(out=Path(folder) / "studies" / "one", **request)


def _ratio(rounds: pd.DataFrame, slow: str, fast: str) -> Interval:
    """log(time of one / time of the other), paired within rounds."""
    pairs = rounds[[slow, fast]].dropna()
    return log_ratio(pairs[slow].to_numpy(), pairs[fast].to_numpy())


def workloads() -> list[Comparison]:
    """Step time and CPUs used of each workload, baseline and recommended on fresh worlds."""
    found = []
    for name, options in WORKLOADS.items():
        result = searched(workload=name, options=options, budget="60s")
        subject = result.plan.subject
        assert isinstance(subject, WorkloadSpec)
        worlds = sweep(
            name,
            {option: [value] for option, value in subject.options.items()},
            {"baseline": result.baseline, "recommended": known(result.best)},
            rounds=ROUNDS,
            seed=1,
        )
        for column, unit in (("step_ms", "ms"), ("cpu_cores", "cores")):
            pairs = worlds.pivot(index="round", columns="config", values=column).dropna()
            ours, theirs = (float(pairs[each].median()) for each in ("recommended", "baseline"))
            found.append(
                Comparison(
                    f"{name}: {column}, {result.verdict}", str(result.best),
                    f"baseline {result.baseline}", ours, theirs, unit,
                    _ratio(pairs, "baseline", "recommended").exp(), not_worse=unit == "ms",
                )
            )  # fmt: skip
    return found


def cpu_binding() -> list[Comparison]:
    """What binding each rank to CPUs of its own gains, and what noise it takes away.

    The width of the interval of 1 against 16 threads, and what binding gains with 16, of worlds
    bound and unbound, in random order.
    """
    _bound_rounds(1, seed=0)  # the first worlds pay for the forkserver
    began_s = time.monotonic()
    first = _bound_rounds(2, seed=1)
    rounds = round(2 * BOUND_S / (time.monotonic() - began_s))
    steps = pd.concat([first, _bound_rounds(rounds, seed=3)])
    unbound, bound = (_ratio(steps, f"16 {each}", f"1 {each}") for each in ("none", "equal"))
    bound_ms, unbound_ms = (float(steps[f"16 {each}"].median()) for each in ("equal", "none"))
    return [
        Comparison(
            "95 % interval of udf, 1 against 16 threads, each 40 s of worlds",
            f"bound, {bound.exp().estimate:.2f} times",
            f"unbound, {unbound.exp().estimate:.2f} times",
            bound.high - bound.low, unbound.high - unbound.low, "wide (log)", least_ratio=2.0,
        ),
        Comparison(
            "step of udf, 16 threads", "cpu_binding=equal", "cpu_binding=none",
            bound_ms, unbound_ms, "ms", _ratio(steps, "16 none", "16 equal").exp(), least_ratio=1.1,
        ),
    ]  # fmt: skip


def _bound_rounds(rounds: int, seed: int) -> pd.DataFrame:
    """Median step times in ms: a row per round, a column per configuration."""
    worlds = sweep("udf", {}, BOUND_CONFIGS, rounds=rounds, seed=seed, min_time="0.1s")
    return worlds.pivot(index="round", columns="config", values="step_ms")


def switch_interval() -> list[Comparison]:
    """The time per call of a learner that computes in Python while it serves.

    With what a search recommends of what `record` suggests, and with Python's own interval.
    """
    program = [*PYTHON, str(PROGRAMS / "learner_computes.py"), "1", free_port()]
    result = searched(program=program, space={"switch_interval": "5ms,1ms,0.2ms"}, budget="60s")
    values, best = {row.config: row.value for row in result.rows}, known(result.best)
    return [
        Comparison(
            f"call of a learner that computes, {result.verdict}",
            str(best), str(result.baseline), values[best], values[result.baseline],
            result.objective.unit, result.speedup, least_ratio=4.0,
        )
    ]  # fmt: skip


def collector(batches: int) -> list[str] | None:
    """The command of TorchRL's RPC collector; None if it is not there."""
    python = installed_python("torchrl", beside_ours=True)
    script = str(Path(__file__).with_name("torchrl_collector.py"))
    return None if python is None else [str(python), "-W", "ignore", script, "2", str(batches)]


def torchrl() -> list[Comparison]:
    """Frames per second of TorchRL's RPC collector, whose users cannot set its RPC options."""
    program = collector(40)
    if program is None:
        what, none = ("TorchRL's RPC collector", "NOT MEASURED", "not installed"), math.nan
        return [Comparison(*what, none, none, "frames/s", least_ratio=1.0)]
    space = {"num_worker_threads": [1, 2, 4, 8, 16], "transports": ["uv", "shm+uv"]}
    found = searched(program=program, space=space, budget="10m", deadline="5m", **FRAMES)
    print(found)
    # Where what is pinned is kept, its strongest rival stands beside it.
    is_kept = found.best == found.baseline and found.challenger is not None
    config, speedup, role = (
        (found.challenger, found.challenger_speedup, "rival")
        if is_kept
        else (found.best, found.speedup, "recommended")
    )
    values = {row.config: row.value for row in found.rows}
    return [
        Comparison(
            f"TorchRL's RPC collector, {found.verdict}", f"{role}: {config}",
            f"pinned: {found.baseline}", values[known(config)], values[found.baseline], "frames/s",
            speedup, not_worse=not is_kept,
        )
    ]  # fmt: skip


def default_space() -> list[Comparison]:
    """What the default space finds that threads alone do not, each with the same budget."""
    subjects: dict[str, dict[str, Any]] = {
        "batch CartPole": {"workload": "cartpole", "options": {"observers": 2}},
        "parameter server": {"workload": "parameter_server"},
        "TorchRL's collector": {"program": collector(20), **FRAMES},
        "rnn of pytorch/examples": {
            "program": EXAMPLES and [*PYTHON, str(Path(EXAMPLES) / "distributed/rpc/rnn/main.py")]
        },
    }
    # A shipped plan has a space of its own: both spaces are named.
    spaces = {**THREADS_ALONE, "cpu_binding": "none,equal"}, THREADS_ALONE
    found = []
    for name, request in subjects.items():
        if "program" in request and not request["program"]:
            print(f"{name} is not measured: it is not installed")
            continue
        budget_s = 120 if "program" in request else 60
        both, alone = (searched(**request, space=space, budget=budget_s) for space in spaces)
        found.append(
            Comparison(
                f"gain of {name}", f"threads and binding: {_said(both)}",
                f"threads alone: {_said(alone)}",
                # Of two gains the larger one is better.
                1 / _gain(both), 1 / _gain(alone), "of the baseline's time",
            )
        )  # fmt: skip
    return found


def _said(result: StudyResult) -> str:
    speedup = result.challenger_speedup
    cell = "?" if speedup is None else ratio_cell(speedup.estimate, speedup.low, speedup.high)
    return f"{result.verdict}: {result.challenger}, {cell}"


def _gain(result: StudyResult) -> float:
    """What the answer gains over the baseline: 1 where that is kept."""
    speedup = result.speedup if result.verdict == "better" else None
    return 1.0 if speedup is None else speedup.estimate
