"""What tuning gains: workloads, programs that nobody here wrote, and single knobs.

`PYTORCH_EXAMPLES` names a checkout of pytorch/examples.
"""

import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.report import Bar, Comparison, log_ratio
from tests.programs.running import PROGRAMS, PYTHON, free_port
from tuner.api import tune
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.study_result import StudyResult
from tuner.searching.sweeping import sweep
from tuner.text import ratio_cell

TORCHRL = Path(__file__).with_name("torchrl_collector.py")
FRAMES = {"metric": "frames per second=fps: ([0-9.]+)", "maximize": True}
THREADS_ALONE = {"num_worker_threads": "1..32"}
EXAMPLES = os.environ.get("PYTORCH_EXAMPLES")
WORKLOADS: dict[str, dict[str, object]] = {
    "cartpole": {"observers": 4, "batch": True},
    "parameter_server": {"trainers": 2},
    "payload": {"megabytes": 4.0},
    "light": {},
}
# Rounds after the search: what it measured itself has helped to choose.
ROUNDS = 15


def _searched(**request: Any) -> StudyResult:
    with tempfile.TemporaryDirectory() as folder:
        return tune(out=Path(folder) / "one", **request)


def workloads() -> list[Comparison]:
    """Step time and CPUs used of each workload, baseline and recommended on fresh worlds."""
    found = []
    for name, options in WORKLOADS.items():
        result = _searched(workload=name, options=options, budget="60s")
        subject = result.plan.subject
        assert result.best is not None
        assert isinstance(subject, WorkloadSpec)
        worlds = sweep(
            name,
            {option: [value] for option, value in subject.options.items()},
            {"baseline": result.baseline, "recommended": result.best},
            rounds=ROUNDS,
            seed=1,
        )
        rounds = worlds.pivot(index="round", columns="config", values=["step_ms", "cpu_cores"])
        for column, unit, bar in (
            ("step_ms", "ms", Bar(not_worse=True)),
            ("cpu_cores", "cores", Bar()),
        ):
            pairs = rounds[column].dropna()
            gain = log_ratio(pairs["baseline"].to_numpy(), pairs["recommended"].to_numpy()).exp()
            ours, theirs = (float(pairs[each].median()) for each in ("recommended", "baseline"))
            found.append(
                Comparison(
                    f"{name}: {column}, {result.verdict}", str(result.best),
                    f"baseline {result.baseline}", ours, theirs, unit, bar, gain,
                )
            )  # fmt: skip
    return found


def switch_interval() -> list[Comparison]:
    """The time per call of a learner that computes in Python while it serves.

    With what a search recommends of what `record` suggests, and with Python's own interval.
    """
    program = [*PYTHON, str(PROGRAMS / "learner_computes.py"), "1", free_port()]
    result = _searched(program=program, space={"switch_interval": "5ms,1ms,0.2ms"}, budget="60s")
    values = {row.config: row.value for row in result.rows}
    assert result.best is not None
    return [
        Comparison(
            f"call of a learner that computes, {result.verdict}",
            str(result.best), str(result.baseline), values[result.best], values[result.baseline],
            result.objective.unit, Bar(least_ratio=4.0), result.speedup,
        )
    ]  # fmt: skip


def torchrl() -> list[Comparison]:
    """Frames per second of TorchRL's RPC collector, whose users cannot set its RPC options."""
    python = installed_python("torchrl", beside_ours=True)
    if python is None:
        what, none = ("TorchRL's RPC collector", "NOT MEASURED", "not installed"), math.nan
        return [Comparison(*what, none, none, "frames/s", Bar(least_ratio=1.0))]
    space = {"num_worker_threads": [1, 2, 4, 8, 16], "transports": ["uv", "shm+uv"]}
    result = _searched(
        program=[str(python), "-W", "ignore", str(TORCHRL), "2", "40"],
        space=space, budget="10m", deadline="5m", **FRAMES,
    )  # fmt: skip
    print(result)
    answer = result
    # Where what is pinned is kept, its strongest rival stands beside it.
    is_kept = answer.best == answer.baseline and answer.challenger is not None
    config, speedup = (
        (answer.challenger, answer.challenger_speedup) if is_kept else (answer.best, answer.speedup)
    )
    assert config is not None
    values = {row.config: row.value for row in result.rows}
    return [
        Comparison(
            f"TorchRL's RPC collector, {result.verdict}",
            f"{'rival' if is_kept else 'recommended'}: {config}", f"pinned: {answer.baseline}",
            values[config], values[answer.baseline], "frames/s",
            Bar() if is_kept else Bar(not_worse=True), speedup,
        )
    ]  # fmt: skip


def default_space() -> list[Comparison]:
    """What the default space finds that threads alone do not, each with the same budget."""
    found = []
    for name, request in _subjects().items():
        values, said = [math.nan, math.nan], ["NOT MEASURED", "not installed"]
        if request is not None:
            budget_s = 120 if "program" in request else 60
            # A shipped plan has a space of its own: both spaces are named.
            spaces = ({**THREADS_ALONE, "cpu_binding": "none,equal"}, THREADS_ALONE)
            results = [_searched(**request, space=space, budget=budget_s) for space in spaces]
            # Of two gains the larger one is better.
            values = [1 / _gain(each) for each in results]
            said = [*map(_said, results)]
        sides = f"threads and binding: {said[0]}", f"threads alone: {said[1]}"
        unit = "of the baseline's time"
        found.append(Comparison(f"gain of {name}", *sides, values[0], values[1], unit))
    return found


def _subjects() -> dict[str, Mapping[str, Any] | None]:
    """What is searched, by name; None where it is not there."""
    python = installed_python("torchrl", beside_ours=True)
    collector = None if python is None else [str(python), "-W", "ignore", str(TORCHRL), "2", "20"]
    rnn = EXAMPLES and [*PYTHON, str(Path(EXAMPLES) / "distributed/rpc/rnn/main.py")]
    return {
        "batch CartPole": {"workload": "cartpole", "options": {"observers": 2}},
        "parameter server": {"workload": "parameter_server"},
        "TorchRL's collector": {"program": collector, **FRAMES} if collector else None,
        "rnn of pytorch/examples": {"program": rnn} if rnn else None,
    }


def _said(result: StudyResult) -> str:
    answer = result
    speedup = answer.challenger_speedup
    cell = "?" if speedup is None else ratio_cell(speedup.estimate, speedup.low, speedup.high)
    return f"{answer.verdict}: {answer.challenger}, {cell}"


def _gain(result: StudyResult) -> float:
    """What the answer gains over the baseline: 1 where that is kept."""
    speedup = result.speedup if result.verdict == "better" else None
    return 1.0 if speedup is None else speedup.estimate
