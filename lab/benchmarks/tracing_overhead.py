"""The tracing overhead: ours with and without operators, and the legacy profiler's."""

import statistics
import tempfile
from pathlib import Path

from lab.benchmarks.report import Bar, Comparison
from lab.benchmarks.world_cost import measured_world
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement

# The overhead varies by 0.06 between worlds; the median of so many worlds varies by 0.01.
WORLDS = 41
FEW_WORLDS = 11
STEPS = 150
LEGACY_STEPS = 20
LEGACY_CALLS = 60
SUBJECTS = "lab.benchmarks.subjects"


def around(step_s: tuple[float, ...], number: int) -> float:
    """The median of the ten steps around this one, in seconds; steps count from 1."""
    return statistics.median(step_s[number - 5 : number + 5])


def run() -> list[Comparison]:
    """The tracing overhead of the recipe's step, and whether it grows with the calls."""
    with tempfile.TemporaryDirectory() as folder, LocalLauncher() as launcher:
        path = Path(folder) / "trace.json"
        overheads: dict[str, list[float]] = {"spans": [], "operators": [], "legacy": []}
        growth: dict[str, list[float]] = {"our growth": [], "legacy growth": []}
        measured_world(launcher, "udf", 10)  # the first world pays the forkserver's import of torch
        for _ in range(WORLDS):
            spans = measured_world(launcher, "udf", STEPS, trace=path, operators=False)
            overheads["spans"].append(_overhead(spans))
        for _ in range(FEW_WORLDS):
            operators = measured_world(launcher, "udf", STEPS, trace=path)
            overheads["operators"].append(_overhead(operators))
            plain = statistics.median(measured_world(launcher, "udf", STEPS).step_s)
            legacy = measured_world(launcher, f"{SUBJECTS}:LegacyUdf", LEGACY_STEPS)
            overheads["legacy"].append(statistics.median(legacy.step_s) / plain)
            ours = measured_world(launcher, f"{SUBJECTS}:OneCall", 1010, trace=path)
            growth["our growth"].append(around(ours.step_s, 1000) / around(ours.step_s, 10))
        for _ in range(3):
            legacy = measured_world(launcher, f"{SUBJECTS}:LegacyOneCall", LEGACY_CALLS)
            growth["legacy growth"].append(around(legacy.step_s, 50) / around(legacy.step_s, 10))
    medians = {name: statistics.median(found) for name, found in (overheads | growth).items()}
    return [
        Comparison(name, ours, theirs, medians[key], medians[other], "x", Bar(most=most))
        for name, ours, theirs, key, other, most in (
            ("traced over untraced step, udf: spans alone", "spans", "legacy profiler",
             "spans", "legacy", 1.05),
            ("traced over untraced step, udf: with operators", "spans and operators",
             "legacy profiler", "operators", "legacy", 1.8),
            ("a late traced call over the 10th", "1000th, spans and operators",
             "50th, legacy profiler", "our growth", "legacy growth", 1.1),
        )
    ]  # fmt: skip


def _overhead(measured: Measurement) -> float:
    assert measured.tracing_overhead is not None
    return measured.tracing_overhead
