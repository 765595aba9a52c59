"""From an answer to its recommendation, and to `recommended.json`."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.plan.specs import threads, workload_spec
from tests.present.results import (
    ROWS,
    failed,
    measured,
    nothing_ran,
    study_plan,
    study_result,
)
from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.how_to_use import exported
from tuner.recommended.building import (
    recommendation_of,
    write_recommended,
)
from tuner.study.answer import StudyAnswer


def document_of(answer: StudyAnswer) -> dict[str, Any]:
    return recommendation_of(answer).model_dump(mode="json")


def test_the_document_holds_what_the_contract_says(plan: StudyPlan) -> None:
    document = document_of(study_result(plan))
    assert {"format", "config", "verdict", "speedup", "environment"} <= set(document)
    assert document["format"] == 3
    assert document["study"] == "udf"
    assert document["trial"] == 1
    assert document["config"] == {"*": {"num_worker_threads": 4}}
    assert document["verdict"] == "better"
    assert document["speedup"] == {"estimate": 1.5, "ci_low": 1.4, "ci_high": 1.62}
    assert document["measured"] == {
        "value": 2.0, "ci_low": 1.9, "ci_high": 2.1, "unit": "ms", "worlds": 5,
    }  # fmt: skip
    assert document["challenger"] == {
        "config": {"*": {"num_worker_threads": 4}},
        "speedup": {"estimate": 1.5, "ci_low": 1.4, "ci_high": 1.62},
    }
    assert document["objective"] == "step_ms"
    assert document["confidence"] == 0.95
    assert document["baseline"] == {"*": {"num_worker_threads": 16}}
    assert document["ranks"] == [
        {"name": "worker0", "role": "caller"},
        {"name": "worker1", "role": "server"},
    ]


def test_the_environment_says_what_the_answer_depends_on(plan: StudyPlan) -> None:
    assert document_of(study_result(plan))["environment"] == {
        "torch": "2.13.0",
        "python": "3.11.9",
        "cpu_model": "Abacus 9000",
        "cpu_count": 2,
        "memory_gb": 7.7,
        "kernel": "6.1.0",
        "numa_nodes": None,
        "threads_per_core": None,
        "own_network": None,
        "groups": [],
        "workload": "udf",
        "options": {"calls": 4, "size": 100},
        "program": None,
        "own": None,
        "intra_op_threads": {"caller": 1, "server": 1},
        "date": "2026-11-21T09:30:00Z",
    }


def test_the_date_is_when_the_study_ended_to_the_second(plan: StudyPlan) -> None:
    then = datetime(2025, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    environment = recommendation_of(study_result(plan, measured_at=then)).environment
    assert environment.date == then.replace(microsecond=0)


def test_the_environment_says_the_intra_op_threads_that_were_tuned() -> None:
    plan = study_plan(workload_spec(intra_op_threads=2))
    best = Config.from_json({"server": {"intra_op_threads": 4}})
    rows = (measured(0, threads(16), 3.0), measured(1, best, 2.0))
    answer = study_result(plan, best=best, rows=rows)
    environment = document_of(answer)["environment"]
    assert environment["intra_op_threads"] == {"caller": 2, "server": 4}


@pytest.mark.parametrize(
    "speedup", [None, Interval(1.2, 0.0, math.inf), Interval(5e-42, 1e-42, 2e-41)]
)
def test_what_is_not_known_of_a_speedup_is_null(plan: StudyPlan, speedup: Interval | None) -> None:
    unknown = {"estimate": None, "ci_low": None, "ci_high": None}
    answer = study_result(plan, speedup=speedup, challenger_speedup=speedup, noise_floor=speedup)
    document = document_of(answer)
    assert document["speedup"] == document["challenger"]["speedup"] == unknown
    told = answer.to_json()
    assert told["speedup"] == told["challenger"]["speedup"] == told["noise_floor"] == unknown


def test_a_best_without_a_counting_world_is_still_recommended(plan: StudyPlan) -> None:
    row = measured(0, threads(16), math.nan)
    answer = study_result(plan, best=threads(16), verdict="undecided", speedup=None, rows=(row,))
    assert recommendation_of(answer).measured.value is None
    assert "# measured: no world that counts\n" in exported(answer, "python")


def test_a_study_in_which_nothing_ran_has_nothing_to_export(plan: StudyPlan) -> None:
    with pytest.raises(UsageError, match="recommends nothing: no configuration of its search"):
        recommendation_of(nothing_ran(plan))


def test_an_interrupted_study_has_only_trials_to_export(plan: StudyPlan) -> None:
    answer = study_result(plan, best=None, verdict=None, speedup=None, challenger=None,
                          challenger_speedup=None, interrupted=True)  # fmt: skip
    with pytest.raises(UsageError, match=r"with --resume, or choose a configuration by --trial N"):
        recommendation_of(answer)
    assert recommendation_of(answer, 1).config == threads(4)
    text = exported(answer, "python", 1).replace("\n# ", " ")
    assert "by median step time; the study has no verdict yet." in text


def test_configs_chosen_by_hand_have_no_verdict(plan: StudyPlan) -> None:
    found = recommendation_of(study_result(plan), 3)
    assert found.config == threads(1)
    assert found.trial == 3
    assert found.verdict is None
    assert found.speedup.model_dump() == {"estimate": None, "ci_low": None, "ci_high": None}
    assert found.measured.model_dump() == {
        "value": 6.0, "ci_low": 5.5, "ci_high": 6.5, "unit": "ms", "worlds": 5,
    }  # fmt: skip


def test_the_best_by_its_number_is_the_recommendation(plan: StudyPlan) -> None:
    answer = study_result(plan)
    assert recommendation_of(answer, 1) == recommendation_of(answer)


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (4, "trial 4 (num_worker_threads=32) cannot run: crashed: server failed first"),
        (5, "trial 5 (num_worker_threads=2) was not measured"),
        (6, "trial 6 (num_worker_threads=64) fails in 1 of 4 worlds: wrong-answer: not 9"),
        (7, "the study udf has no trial 7; its trials are 0 to 6"),
    ],
)
def test_a_trial_that_did_not_run_is_refused(plan: StudyPlan, trial: int, message: str) -> None:
    wrong = replace(failed(6, threads(64), "not 9"), outcome="wrong-answer", worlds_failed=1)
    answer = study_result(plan, rows=(*ROWS, measured(5, threads(2), math.nan), wrong))
    with pytest.raises(UsageError) as caught:
        recommendation_of(answer, trial)
    assert str(caught.value) == message


def test_the_document_is_written_as_json_that_reads_back(plan: StudyPlan, tmp_path: Path) -> None:
    path = tmp_path / "recommended.json"
    best = Config.from_json(
        {"*": {"transports": ["shm", "uv"]}, "server": {"device_maps": {"worker0": {"0": 1}}}}
    )
    rows = (measured(0, threads(16), 3.0), measured(1, best, 2.0))
    write_recommended(study_result(plan, best=best, rows=rows), path)
    document = json.loads(path.read_text())
    assert Config.from_json(document["config"]) == best
    assert "\n" in path.read_text()
