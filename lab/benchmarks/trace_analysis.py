"""Analysing a Kineto trace of a million operators, compared with what others need to parse it."""

import json
import math
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.programs import ROOT
from lab.benchmarks.report import Comparison, in_turns
from testing.kineto_trace import write_trace

OPERATORS = 1_000_000
ROUNDS = 3
NOT_MEASURED = math.nan, math.nan


def cost(side: str, python: Path, trace: Path) -> list[float]:
    """The seconds and the MB of one side, in a process of its own."""
    command: list[str | Path] = [python, "-m", "lab.benchmarks.analyse_once", side, trace]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, cwd=ROOT
    )
    return [float(number) for number in json.loads(done.stdout)]


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
        sides = [partial(cost, *each, trace) for each in interpreters.items()]
        medians = np.median(in_turns(ROUNDS, *sides), axis=1).tolist()
    costs = dict(zip(interpreters, medians, strict=True))
    (ours_s, ours_mb), (parsing_s, parsing_mb) = costs["ours"], costs.get("hta", NOT_MEASURED)
    theirs = "HolisticTraceAnalysis parsing" if hta else "HolisticTraceAnalysis: NOT MEASURED"
    name, what = "a Kineto trace of 1,000,000 operators", "read and analyse"
    took, room = f"{name}: time", f"{name}: peak memory"
    return [
        Comparison(took, what, "msgspec.json.decode", ours_s, costs["parse"][0], least_ratio=0.5),
        Comparison(took, what, theirs, ours_s, parsing_s, least_ratio=4.0),
        Comparison(room, what, theirs, ours_mb, parsing_mb, "MB", least_ratio=1.0),
    ]  # fmt: skip
