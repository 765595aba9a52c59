"""What the default space finds that threads alone do not: programs that nobody here wrote.

Each is searched twice with the same budget. `PYTORCH_EXAMPLES` names a checkout of
pytorch/examples.
"""

import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.report import Comparison
from lab.benchmarks.tuned_torchrl import PROGRAM as TORCHRL
from tuner.api import tune
from tuner.present.study_result import StudyResult
from tuner.text import ratio_cell

BUDGETS_S = {"workload": 60, "program": 120}
THREADS_ALONE = {"num_worker_threads": "1..32"}
EXAMPLES = os.environ.get("PYTORCH_EXAMPLES")


def _subjects() -> dict[str, Mapping[str, Any] | None]:
    """What is searched, by name; None where it is not there."""
    found: dict[str, Mapping[str, Any] | None] = {
        "batch CartPole": {"workload": "cartpole", "options": {"observers": 2}},
        "parameter server": {"workload": "parameter_server"},
        "TorchRL's collector": None,
        "rnn of pytorch/examples": None,
    }
    if (python := installed_python("torchrl", beside_ours=True)) is not None:
        found["TorchRL's collector"] = {
            "program": [str(python), "-W", "ignore", str(TORCHRL), "2", "20"],
            "metric": "frames per second=fps: ([0-9.]+)",
            "maximize": True,
        }
    if EXAMPLES is not None:
        rnn = str(Path(EXAMPLES) / "distributed/rpc/rnn/main.py")
        found["rnn of pytorch/examples"] = {"program": [sys.executable, "-W", "ignore", rnn]}
    return found


def run() -> list[Comparison]:
    """What each search says of the gain, with the default space and with threads alone."""
    return [_compared(name, request) for name, request in _subjects().items()]


def _compared(name: str, request: Mapping[str, Any] | None) -> Comparison:
    if request is None:
        return _comparison(name, "NOT MEASURED", "not installed", math.nan, math.nan)
    # A shipped plan has a space of its own: both spaces are named.
    both = {**THREADS_ALONE, "cpu_binding": "none,equal"}
    wide, narrow = (_searched(request, space) for space in (both, THREADS_ALONE))
    return _comparison(name, _said(wide), _said(narrow), _gain(wide), _gain(narrow))


def _searched(request: Mapping[str, Any], space: Mapping[str, str]) -> StudyResult:
    budget_s = BUDGETS_S["program" if "program" in request else "workload"]
    with tempfile.TemporaryDirectory() as folder:
        return tune(**request, space=space, budget=budget_s, out=Path(folder) / "one")


def _said(result: StudyResult) -> str:
    answer = result.answer
    speedup = answer.challenger_speedup
    cell = "?" if speedup is None else ratio_cell(speedup.estimate, speedup.low, speedup.high)
    return f"{answer.verdict}: {answer.challenger}, {cell}"


def _gain(result: StudyResult) -> float:
    """What the answer gains over the baseline: 1 where that is kept."""
    speedup = result.answer.speedup if result.answer.verdict == "better" else None
    return 1.0 if speedup is None else speedup.estimate


def _comparison(name: str, ours: str, theirs: str, wide: float, narrow: float) -> Comparison:
    return Comparison(
        name=f"gain of {name}",
        ours=f"threads and binding: {ours}",
        theirs=f"threads alone: {theirs}",
        # Of two gains the larger one is better.
        ours_value=1 / wide,
        theirs_value=1 / narrow,
        unit="of the baseline's time",
    )
