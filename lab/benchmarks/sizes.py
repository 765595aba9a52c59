"""What a large study costs: 1,000 configurations in 100 blocks, beside one of 1,000 observations.

The observations are written to SQLite in bulk, as `StudyStore.add` writes them one by one.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import sqlalchemy

from lab.benchmarks.made_up import made_up_world
from lab.benchmarks.report import Bar, Comparison
from tests.fakes import UDF, FakeLauncher
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.searching.budget import Budget
from tuner.searching.measurer import Measurer
from tuner.searching.progress_reports import Silent
from tuner.searching.runner import Runner
from tuner.study.folder import StudyFolder
from tuner.study.records import CALIBRATION_BLOCK, Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import create_study, resume_study
from tuner.study.storage.trials import RECORD_KEY
from tuner.world.environment import Environment
from tuner.world.measurement import Measurement

CONFIGS, BLOCKS, STEPS = 1000, 100, 60
_world = partial(made_up_world, steps=STEPS)
FEW = 1000
"""The observations of the small study: one block."""
ADDED = 200
MOST_GROWTH = 1.2
MOST_OPENING_S = 10.0
# Pages have pictures and a row for each configuration.
MOST_REPORT_S = 60.0


def run() -> list[Comparison]:
    """How long it takes to open a study, to add an observation, and to show and report it."""
    with tempfile.TemporaryDirectory() as scratch:
        few, many = (Path(scratch) / name for name in ("few", "many"))
        filled(few, FEW // CONFIGS)
        filled(many, BLOCKS)
        shown_s = _command_s("show", many)
        reported_s = _command_s("report", many)
        few_open_s, few_measurer = opened(few)
        many_open_s, many_measurer = opened(many)
        few_add_s, many_add_s = adding_s(few_measurer, many_measurer)
    observations = f"{CONFIGS * BLOCKS:,} observations"
    return [
        Comparison(
            name="adding an observation", ours=f"to {observations}", theirs=f"to {FEW:,}",
            ours_value=1e3 * many_add_s, theirs_value=1e3 * few_add_s, unit="ms",
            bars=(Bar(least_ratio=1 / MOST_GROWTH),),
        ),
        Comparison(
            name="opening a study to go on with it", ours=observations, theirs=f"{FEW:,}",
            ours_value=many_open_s, theirs_value=few_open_s, bars=(Bar(most=MOST_OPENING_S),),
        ),
        Comparison(
            name="show, report", ours=f"report of {observations}", theirs="show",
            ours_value=reported_s, theirs_value=shown_s, bars=(Bar(most=MOST_REPORT_S),),
        ),
    ]  # fmt: skip


def filled(folder: Path, blocks: int, configs: int = CONFIGS) -> None:
    """A study that was interrupted after so many blocks of the race."""
    plan = large_plan(configs)
    place = StudyPlace.named(plan.name, out=folder)
    create_study(place, plan, Environment.here())
    engine = sqlalchemy.create_engine(f"sqlite:///{StudyFolder(folder).database}")
    with engine.begin() as connection:
        ids = [row[0] for row in connection.execute(sqlalchemy.text("select trial_id from trials"))]
        records = list(_records(configs, blocks))
        connection.execute(
            sqlalchemy.text(
                "insert into trial_system_attributes (trial_id, key, value_json) "
                "values (:trial_id, :key, :value)"
            ),
            [
                {
                    "trial_id": ids[each.trial],
                    "key": f"{RECORD_KEY}{each.block:06d}{'_again' if each.again else ''}",
                    "value": each.model_dump_json(),
                }
                for each in records
            ],
        )
        connection.execute(
            sqlalchemy.text(
                "insert into trial_intermediate_values (trial_id, step, intermediate_value, "
                "intermediate_value_type) values (:trial_id, :step, :value, 'FINITE')"
            ),
            [
                {
                    "trial_id": ids[each.trial],
                    "step": each.block,
                    "value": plan.objective.value(each.outcome),
                }
                for each in records
                if isinstance(each.outcome, Measurement) and each.block >= 0 and not each.again
            ],
        )
    engine.dispose()


def large_plan(configs: int = CONFIGS) -> StudyPlan:
    """A plan of so many configurations, the baseline of 16 threads among them."""
    space = {"num_worker_threads": list(range(1, configs + 1))}
    keys = {"workload": "udf", "space": space, "budget": "100h", "sampler": "grid"}
    return draft_plan(keys).finish(UDF)


def _records(configs: int, blocks: int) -> Iterator[Record]:
    noise = random.Random(0)
    for trial in range(configs):
        yield Record(
            trial=trial, block=CALIBRATION_BLOCK, phase="calibration", outcome=_world(trial, noise)
        )
    for block in range(blocks):
        yield Record(trial=0, block=block, phase="race", outcome=_world(0, noise), again=True)
        for trial in range(configs):
            yield Record(trial=trial, block=block, phase="race", outcome=_world(trial, noise))


def opened(folder: Path, configs: int = CONFIGS) -> tuple[float, Measurer]:
    """The seconds until a study can be gone on with, and what goes on with it."""
    plan = large_plan(configs)
    place = StudyPlace.named(plan.name, out=folder)
    started_s = time.perf_counter()
    store = resume_study(place, plan, Environment.here())
    budget = Budget(plan.measuring.budget_s, store.elapsed_s, time.monotonic(), time.monotonic)
    measurer = Measurer(Runner(plan, FakeLauncher(), place.folder), store, Silent(), budget)
    return time.perf_counter() - started_s, measurer


def adding_s(few: Measurer, many: Measurer, added: int = ADDED) -> tuple[float, float]:
    """Seconds to add one observation, the median, to each of two studies, in turns."""
    noise = random.Random(1)
    taken_s: tuple[list[float], list[float]] = ([], [])
    for number in range(added):
        for measurer, times_s in zip((few, many), taken_s, strict=True):
            trial, block = number, measurer.log.next_block - (number > 0)
            record = Record(trial=trial, block=block, phase="race", outcome=_world(trial, noise))
            started_s = time.perf_counter()
            measurer.add(record)
            times_s.append(time.perf_counter() - started_s)
    few_s, many_s = map(statistics.median, taken_s)
    return few_s, many_s


def _command_s(command: str, folder: Path) -> float:
    started_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", f"tuner.{command}", str(folder)], check=True, capture_output=True
    )
    return time.perf_counter() - started_s
