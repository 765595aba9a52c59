"""What a report costs: 60 configurations in 40 blocks, beside one figure by Optuna of that study.

Both are commands in processes of their own, which read the study from its storage.
"""

import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from lab.benchmarks.made_up import made_up_world
from lab.benchmarks.report import Bar, Comparison
from tests.fakes import UDF, fake_trace
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.searching.runner import numbers_of
from tuner.study.folder import StudyFolder
from tuner.study.records import CALIBRATION_BLOCK, TRACE_BLOCK, Phase, Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import create_study
from tuner.study.storage.store import StudyStore
from tuner.world.environment import Environment
from tuner.world.measurement import Measurement

BLOCKS, STEPS = 40, 150
_measured = partial(made_up_world, steps=STEPS)
MOST_S = 10.0
MOST_MB = 3.0
SPACE = {
    "num_worker_threads": [1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
    "transports": ["default", "shm", "uv"],
    "channels": ["default", "basic"],
}
PLOT = """
import sys, optuna
study = optuna.load_study(study_name="udf", storage=sys.argv[1])
axes = optuna.visualization.matplotlib.plot_intermediate_values(study)
axes.figure.savefig(sys.argv[2])
"""


def run() -> list[Comparison]:
    """The time of the report's command, and the size of its page."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = StudyFolder(Path(scratch) / "udf")
        url = f"sqlite:///{folder.database}"
        _fill(folder)
        report_s = _seconds("-m", "tuner.report", str(folder.root))
        plot_s = _seconds("-W", "ignore", "-c", PLOT, url, str(Path(scratch) / "plot.png"))
        page_mb, database_mb = (
            path.stat().st_size / 1e6 for path in (folder.report, folder.database)
        )
    return [
        Comparison(
            name="report of 60 configurations, 40 blocks",
            ours="the page and its figures",
            theirs="one figure by Optuna",
            ours_value=report_s,
            theirs_value=plot_s,
            bars=(Bar(most=MOST_S),),
        ),
        Comparison(
            name="size of that page",
            ours="report.html",
            theirs="study.db",
            ours_value=page_mb,
            theirs_value=database_mb,
            unit="MB",
            bars=(Bar(most=MOST_MB),),
        ),
    ]


def _seconds(*arguments: str) -> float:
    started_s = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - started_s


def _fill(folder: StudyFolder) -> None:
    """A study as a search would have left it before its end: every configuration in every block."""
    plan = _plan()
    place = StudyPlace.named(plan.name, out=folder.root)
    store = create_study(place, plan, Environment.here())
    config, noise = store.configs(), random.Random(0)
    assert len(config) == 60
    for trial, each in enumerate(config):
        traced = _traced(plan, each, folder)
        _add(store, plan, trial, CALIBRATION_BLOCK, "calibration", _measured(trial, noise))
        _add(store, plan, trial, TRACE_BLOCK, "trace", traced)
    for block in range(BLOCKS):
        for trial in range(len(config)):
            _add(store, plan, trial, block, "race", _measured(trial, noise))


def _plan() -> StudyPlan:
    keys = {"workload": "udf", "space": SPACE, "budget": "1h"}
    return draft_plan(keys).finish(UDF)


def _add(
    store: StudyStore, plan: StudyPlan, trial: int, block: int, phase: Phase, world: Measurement
) -> None:
    store.add(Record(trial=trial, block=block, phase=phase, outcome=world), plan)


def _traced(plan: StudyPlan, config: Config, folder: StudyFolder) -> Measurement:
    path = folder.trace(config)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(fake_trace(config, step_s=4e-3, steps=50))
    world = _measured(0, random.Random(0))
    numbers = numbers_of(path, plan.subject.ranks)
    return world.model_copy(update={"tracing_overhead": 1.2, "trace": numbers})
