"""What tuning gains: PyTorch's defaults beside what a search recommends, on fresh worlds."""

import tempfile
from pathlib import Path

import pandas as pd

from lab.benchmarks.report import Bar, Comparison, log_ratio
from tuner.api import tune
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.study_result import StudyResult
from tuner.searching.sweeping import sweep

WORKLOADS: dict[str, dict[str, object]] = {
    "cartpole": {"observers": 4, "batch": True},
    "parameter_server": {"trainers": 2},
    "payload": {"megabytes": 4.0},
    "light": {},
}
BUDGET = "60s"
# Rounds after the search: what it measured itself has helped to choose.
ROUNDS = 15


def run() -> list[Comparison]:
    """Step time and CPUs used of each workload, baseline and recommended in turns."""
    comparisons = []
    for name, options in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            result = tune(name, options=options, budget=BUDGET, out=str(Path(folder) / name))
        assert result.best is not None
        comparisons += _compare(name, result, _worlds(name, result))
    return comparisons


def _worlds(name: str, result: StudyResult) -> pd.DataFrame:
    assert result.best is not None
    subject = result.plan.subject
    assert isinstance(subject, WorkloadSpec)
    return sweep(
        name,
        {option: [value] for option, value in subject.options.items()},
        {"baseline": result.baseline, "recommended": result.best},
        rounds=ROUNDS,
        seed=1,
    )


def _compare(name: str, result: StudyResult, worlds: pd.DataFrame) -> list[Comparison]:
    rounds = worlds.pivot(index="round", columns="config", values=["step_ms", "cpu_cores"])
    found = []
    for column, unit, bars in (
        ("step_ms", "ms", (Bar(not_worse=True),)),
        ("cpu_cores", "cores", ()),
    ):
        pairs = rounds[column].dropna()
        logs = log_ratio(pairs["baseline"].to_numpy(), pairs["recommended"].to_numpy())
        found.append(
            Comparison(
                name=f"{name}: {column}, {result.verdict}",
                ours=str(result.best),
                theirs=f"baseline {result.baseline}",
                ours_value=float(pairs["recommended"].median()),
                theirs_value=float(pairs["baseline"].median()),
                unit=unit,
                bars=bars,
                interval=logs.exp(),
            )
        )
    return found
