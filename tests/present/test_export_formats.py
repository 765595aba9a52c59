"""A recommendation in each format of the export."""

import json
import tomllib

import pytest

from tests.plan.specs import threads
from tests.present.results import (
    study_result,
)
from tuner.decide.statistics import Interval
from tuner.plan.study_plan import StudyPlan
from tuner.present.export_formats import exported


@pytest.mark.parametrize("trial", [None, 2])
def test_every_format_holds_the_same_configs(plan: StudyPlan, trial: int | None) -> None:
    count = 4 if trial is None else 8
    answer = study_result(plan)
    texts: dict[str, str] = {
        form: exported(answer, form, trial) for form in ("json", "toml", "python")
    }
    config = {"*": {"num_worker_threads": count}}
    assert json.loads(texts["json"])["config"] == config
    assert tomllib.loads(texts["toml"])["config"] == config
    assert f"TensorPipeRpcBackendOptions(num_worker_threads={count})" in texts["python"]
    assert all(text.endswith("\n") for text in texts.values())


def test_the_module_begins_with_the_verdict(plan: StudyPlan) -> None:
    text = exported(study_result(plan), "python").replace("\n# ", " ")
    assert text.startswith("# Use num_worker_threads=4: 1.50 times as fast as the baseline ")
    text = exported(study_result(plan), "python", 2).replace("\n# ", " ")
    assert text.startswith(
        "# Chosen by hand: num_worker_threads=8, 2.05 ms in 5 worlds, by median step time; the "
        "study's own verdict is: Use num_worker_threads=4: "
    )


def test_the_baseline_needs_no_speedup(plan: StudyPlan) -> None:
    answer = study_result(
        plan, best=threads(16), verdict="keep-baseline", speedup=Interval(1.0, 1.0, 1.0)
    )
    assert "# speed-up: 1: this configuration is the baseline\n" in exported(answer, "python")
