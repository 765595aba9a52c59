"""Analysing a Kineto trace of a million operators, compared with what others need to parse it."""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.programs import ROOT
from lab.benchmarks.report import Comparison
from tests.trace.kineto_trace import write_trace

OPERATORS = 1_000_000
ROUNDS = 3


class Cost(NamedTuple):
    wall_s: float
    peak_memory_mb: float


NOT_MEASURED = Cost(math.nan, math.nan)


def measure(interpreters: dict[str, Path], trace: Path) -> dict[str, Cost]:
    """Run each side in a separate process, in turns, ROUNDS times."""
    found = defaultdict[str, list[Cost]](list)
    for _ in range(ROUNDS):
        for side, python in interpreters.items():
            command: list[str | Path] = [python, "-m", "lab.benchmarks.analyse_once", side, trace]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, cwd=ROOT
            )
            found[side].append(Cost(**json.loads(done.stdout)))
    return {
        side: Cost(*map(statistics.median, zip(*costs, strict=True)))
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
    name, what = "a Kineto trace of 1,000,000 operators", "read and analyse"
    took, room = f"{name}: time", f"{name}: peak memory"
    return [
        Comparison(took, what, "msgspec.json.decode", ours.wall_s, costs["parse"].wall_s,
                   least_ratio=0.5),
        Comparison(took, what, theirs, ours.wall_s, parsing.wall_s, least_ratio=4.0),
        Comparison(room, what, theirs, ours.peak_memory_mb, parsing.peak_memory_mb, "MB",
                   least_ratio=1.0),
    ]  # fmt: skip
