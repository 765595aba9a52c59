"""Analysing a Kineto trace of a million operators, compared with what others need to parse it."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.report import Bar, Comparison
from tests.trace.kineto_trace import write_trace

OPERATORS = 1_000_000
ROUNDS = 3
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cost:
    """The medians of one side."""

    wall_s: float
    peak_memory_mb: float


NOT_MEASURED = Cost(float("nan"), float("nan"))


def measure(interpreters: dict[str, Path], trace: Path) -> dict[str, Cost]:
    """Run each side in a separate process, in turns, ROUNDS times."""
    found = defaultdict[str, list[Cost]](list)
    for _ in range(ROUNDS):
        for side, python in interpreters.items():
            done = subprocess.run(
                [python, "-m", "lab.benchmarks.analyse_once", side, trace],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=True,
                cwd=ROOT,
            )
            found[side].append(Cost(**json.loads(done.stdout)))
    return {
        side: Cost(
            statistics.median(cost.wall_s for cost in costs),
            statistics.median(cost.peak_memory_mb for cost in costs),
        )
        for side, costs in found.items()
    }


def run() -> list[Comparison]:
    """Compare time and memory; a side that could not be measured misses its bars."""
    # It needs another version of pandas.
    hta = installed_python("hta")
    interpreters = {"ours": Path(sys.executable), "parse": Path(sys.executable)}
    if hta:
        interpreters["hta"] = hta
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        write_trace(trace, OPERATORS)
        costs = measure(interpreters, trace)
    ours, parsing = costs["ours"], costs.get("hta", NOT_MEASURED)
    theirs = "HolisticTraceAnalysis parsing" if hta else "HolisticTraceAnalysis: NOT MEASURED"
    name = "a Kineto trace of 1,000,000 operators"
    return [
        Comparison(
            name=f"{name}: time",
            ours="read and analyse",
            theirs="msgspec.json.decode",
            ours_value=ours.wall_s,
            theirs_value=costs["parse"].wall_s,
            bars=(Bar(least_ratio=0.5),),
        ),
        Comparison(
            name=f"{name}: time",
            ours="read and analyse",
            theirs=theirs,
            ours_value=ours.wall_s,
            theirs_value=parsing.wall_s,
            bars=(Bar(least_ratio=4.0),),
        ),
        Comparison(
            name=f"{name}: peak memory",
            ours="read and analyse",
            theirs=theirs,
            ours_value=ours.peak_memory_mb,
            theirs_value=parsing.peak_memory_mb,
            unit="MB",
            bars=(Bar(least_ratio=1.0),),
        ),
    ]
