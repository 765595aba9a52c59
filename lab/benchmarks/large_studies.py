"""What large studies cost, and their reports. Nobody ran their worlds."""

import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy

from lab.benchmarks.report import Comparison, in_turns
from testing.fakes import UDF, FakeLauncher, fake_trace
from testing.made import plan_of, world
from testing.results import study_plan
from tuner.plan.study_plan import StudyPlan
from tuner.searching.measurer import Measurer
from tuner.searching.progress_reports import Silent
from tuner.searching.runner import Runner, numbers_of
from tuner.searching.wall_time import Budget
from tuner.study.folder import StudyFolder
from tuner.study.records import CALIBRATION_BLOCK, TRACE_BLOCK, Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import create_study, resume_study
from tuner.study.storage.store import StudyStore
from tuner.study.storage.trials import RECORD_KEY
from tuner.world.environment import Environment
from tuner.world.measurement import Measurement, RankUsage

CONFIGS, BLOCKS, ADDED = 1000, 100, 200
REPORT_BLOCKS = 40
REPORT_SPACE: dict[str, list[Any]] = {
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


def sizes() -> list[Comparison]:
    """Opening, adding to, showing and reporting 1,000 configurations in 100 blocks.

    Beside a study of one block.
    """
    plan = plan_of(*range(1, CONFIGS + 1), budget="100h", sampler="grid")
    with tempfile.TemporaryDirectory() as scratch:
        few, many = (Path(scratch) / name for name in ("few", "many"))
        _filled(few, plan, 1, 60)
        _filled(many, plan, BLOCKS, 60)
        shown_s = _seconds("-m", "tuner.show", str(many))
        reported_s = _seconds("-m", "tuner.report", str(many))
        few_open_s, few_measurer = _opened(few, plan)
        many_open_s, many_measurer = _opened(many, plan)
        adding = (partial(next, _adding_s(each)) for each in (few_measurer, many_measurer))
        few_add_s, many_add_s = map(statistics.median, in_turns(ADDED, *adding))
    those = f"{CONFIGS * BLOCKS:,} observations"
    return [
        Comparison("adding an observation", f"to {those}", f"to {CONFIGS:,}",
                   1e3 * many_add_s, 1e3 * few_add_s, "ms", least_ratio=1 / 1.2),
        Comparison("opening a study to go on with it", those, f"{CONFIGS:,}",
                   many_open_s, few_open_s, most=10.0),
        # Pages have pictures and a row for each configuration.
        Comparison("show, report", f"report of {those}", "show",
                   reported_s, shown_s, most=60.0),
    ]  # fmt: skip


def report_page() -> list[Comparison]:
    """The report of 60 configurations in 40 blocks, beside one figure by Optuna of that study.

    Both are commands in processes of their own, which read the study from its storage.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = StudyFolder(Path(scratch) / "udf")
        plan = study_plan(UDF, space=REPORT_SPACE, budget="1h")
        store = _filled(folder.root, plan, REPORT_BLOCKS, 150)
        assert len(store.configs()) == 60
        _add_traces(store, folder, plan)
        report_s = _seconds("-m", "tuner.report", str(folder.root))
        url, picture = f"sqlite:///{folder.database}", str(Path(scratch) / "plot.png")
        plot_s = _seconds("-W", "ignore", "-c", PLOT, url, picture)
        page_mb, database_mb = (
            path.stat().st_size / 1e6 for path in (folder.report, folder.database)
        )
    return [
        Comparison("report of 60 configurations, 40 blocks", "the page and its figures",
                   "one figure by Optuna", report_s, plot_s, most=10.0),
        Comparison("size of that page", "report.html", "study.db",
                   page_mb, database_mb, "MB", most=3.0),
    ]  # fmt: skip


def _outcome(trial: int, noise: random.Random, steps: int) -> Measurement:
    """A world of a trial: its steps take 2 to 8 ms, with noise between worlds and within."""
    middle_s = (2 + trial % 7) * 1e-3 * noise.lognormvariate(0, 0.1)
    step_s = tuple(middle_s * noise.lognormvariate(0, 0.2) for _ in range(steps))
    wall_s = sum(step_s)
    ranks = tuple(
        RankUsage(name=rank.name, cpu_s=wall_s * 0.9, peak_rss_mb=200.0, threads=20)
        for rank in UDF.ranks
    )
    return Measurement(step_s=step_s, wall_s=wall_s, world_s=wall_s + 0.2, ranks=ranks)


def _records(configs: int, blocks: int, steps: int) -> Iterator[Record]:
    """As a search leaves them before its end; the baseline is measured twice in a block."""
    noise = random.Random(0)

    def record(trial: int, **of: Any) -> Record:
        return Record(trial=trial, outcome=_outcome(trial, noise, steps), **of)

    for trial in range(configs):
        yield record(trial, block=CALIBRATION_BLOCK, phase="calibration")
    for block in range(blocks):
        yield record(0, block=block, phase="race", again=True)
        for trial in range(configs):
            yield record(trial, block=block, phase="race")


def _filled(folder: Path, plan: StudyPlan, blocks: int, steps: int) -> StudyStore:
    """A study whose observations are written to SQLite in bulk, as `StudyStore.add` does singly."""
    store = create_study(StudyPlace.named(plan.name, out=folder), plan, Environment.here())
    records = [*_records(len(store.configs()), blocks, steps)]
    engine = sqlalchemy.create_engine(f"sqlite:///{StudyFolder(folder).database}")
    ids = pd.read_sql("SELECT trial_id FROM trials", engine)["trial_id"]
    rows = [
        {
            "trial_id": ids[record.trial],
            "key": f"{RECORD_KEY}{record.block:06d}{'_again' if record.again else ''}",
            "value_json": record.model_dump_json(),
        }
        for record in records
    ]
    values = [
        {
            "trial_id": ids[record.trial],
            "step": record.block,
            "intermediate_value": plan.objective.value(record.outcome),
            "intermediate_value_type": "FINITE",
        }
        for record in records
        if isinstance(record.outcome, Measurement) and record.block >= 0 and not record.again
    ]
    for table, found in (("system_attributes", rows), ("intermediate_values", values)):
        frame = pd.DataFrame(found)
        frame.to_sql(f"trial_{table}", engine, if_exists="append", index=False)
    engine.dispose()
    return store


def _add_traces(store: StudyStore, folder: StudyFolder, plan: StudyPlan) -> None:
    for trial, config in enumerate(store.configs()):
        path = folder.trace(config)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(fake_trace(config, step_s=4e-3, steps=50))
        update = {"tracing_overhead": 1.2, "trace": numbers_of(path, plan.subject.ranks)}
        traced = _outcome(0, random.Random(0), 150).model_copy(update=update)
        store.add(Record(trial=trial, block=TRACE_BLOCK, phase="trace", outcome=traced), plan)


def _opened(folder: Path, plan: StudyPlan) -> tuple[float, Measurer]:
    """The seconds until a study can be gone on with, and what goes on with it."""
    place = StudyPlace.named(plan.name, out=folder)
    started_s = time.perf_counter()
    store = resume_study(place, plan, Environment.here())
    budget = Budget(plan.measuring.budget_s, store.elapsed_s, time.monotonic(), time.monotonic)
    measurer = Measurer(Runner(plan, FakeLauncher(), place.folder), store, Silent(), budget)
    return time.perf_counter() - started_s, measurer


def _adding_s(measurer: Measurer) -> Iterator[float]:
    """The seconds to add each observation of another block."""
    noise, block = random.Random(1), measurer.log.next_block
    for trial in itertools.count():
        record = world("race", trial, block, _outcome(trial, noise, 60))
        started_s = time.perf_counter()
        measurer.add(record)
        yield time.perf_counter() - started_s


def _seconds(*arguments: str) -> float:
    started_s = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - started_s
