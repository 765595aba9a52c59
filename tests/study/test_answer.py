"""What a log says of each configuration: made-up studies in which blocks differ from each other."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fakes import UDF
from tests.present.results import ENVIRONMENT
from tests.study.test_log import CALIBRATED, failed, log_of, took, world
from tuner.decide.alpha_spending import Look
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.study.answer import StudyAnswer, study_answer
from tuner.study.conclusion import conclude
from tuner.study.confirmation import Confirmation
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import Phase

THREADS = [1, 2, 4, 8]


@pytest.fixture
def plan() -> StudyPlan:
    keys = {"workload": "udf", "space": {"num_worker_threads": THREADS}}
    return draft_plan({**keys, "baseline": {"num_worker_threads": 1}}).finish(UDF)


def blocks(
    log: StudyLog, phase: Phase, first: int, step_s: Mapping[int, float], drift: Sequence[float]
) -> None:
    """Adds a block for each number of `drift`, in which all steps take so many times as long."""
    for place, slower in enumerate(drift):
        for trial, took_s in step_s.items():
            wobble = 1 + 0.01 * (-1) ** (place // (1 + trial))
            log.add(world(phase, trial, first + place, took(took_s * slower * wobble)))


def answer_of(log: StudyLog) -> StudyAnswer:
    return study_answer(
        log, conclude(log), ENVIRONMENT, StudyFolder(Path("studies/made-up")), elapsed_s=60.0,
        measured_at=datetime(2026, 11, 21, tzinfo=UTC), interrupted=False,
    )  # fmt: skip


@pytest.fixture
def drifting(plan: StudyPlan) -> StudyAnswer:
    """Trial 2 is twice as fast as the baseline, but most of its blocks were slow ones.

    Trial 1 is as fast as the baseline, and was measured only while the machine was fast.
    """
    log = log_of(plan, *CALIBRATED)
    blocks(log, "race", 0, {BASELINE: 1.0, 1: 1.0, 2: 0.5}, [1.0] * 4)
    blocks(log, "race", 4, {BASELINE: 1.0, 2: 0.5}, [4.0] * 8)
    blocks(log, "race", 12, {BASELINE: 1.0, 3: 0.9}, [1.0])
    return answer_of(log)


def test_ratios_and_the_order_of_the_table_come_from_common_blocks(drifting: StudyAnswer) -> None:
    medians = sorted(drifting.rows, key=lambda row: row.value)
    assert [row.trial for row in medians] == [3, 1, 2, 0]
    assert [row.trial for row in drifting.rows] == [2, 3, 0, 1]
    paired = {row.trial: row.against_baseline for row in drifting.rows}
    two, one = paired[2], paired[3]
    assert two is not None
    assert one is not None
    assert two.blocks == 12
    assert two.ratio.low < 2.0 < two.ratio.high < 1.1 * two.ratio.low
    assert (one.blocks, one.ratio.low) == (1, 0.0)


def test_the_ratios_are_in_the_frame_and_the_document(drifting: StudyAnswer) -> None:
    frame = drifting.trials
    by_trial = dict(zip(frame["trial"], frame["speedup"], strict=True))
    assert by_trial[2] == pytest.approx(2.0, rel=0.03)
    assert by_trial[0] == 1.0
    ends = dict(zip(frame["trial"], frame["speedup_ci_high"], strict=True))
    assert 2.0 < ends[2] < 2.2
    assert math.isnan(ends[3])
    entries = {entry["config"]["*"]["num_worker_threads"]: entry
               for entry in drifting.to_json()["trials"]}  # fmt: skip
    assert entries[4]["speedup"] == pytest.approx(2.0, rel=0.03)
    assert entries[4]["paired_blocks"] == 12
    assert entries[8]["speedup_ci_low"] is None


def test_any_two_trials_can_be_compared_and_without_a_common_block_none_is(
    drifting: StudyAnswer,
) -> None:
    found = drifting.paired.compare(1, 2)
    assert found is not None
    assert found.blocks == 4
    assert found.ratio.estimate == pytest.approx(0.5, rel=0.03)
    assert drifting.paired.compare(3, 2) is None


def test_what_the_verdict_is_about_has_the_ratio_that_was_tested(plan: StudyPlan) -> None:
    log = log_of(plan, *CALIBRATED)
    blocks(log, "race", 0, {BASELINE: 1.0, 2: 0.4}, [1.0] * 4)
    blocks(log, "confirmation", 4, {BASELINE: 1.0, 2: 0.5}, [1.0] * 8)
    log.confirmation = Confirmation(
        challenger=2, cap=8, budget_s=60.0, alpha=0.05, looks=(Look(8, 0.04),)
    )
    answer = answer_of(log)
    tested, shown = answer.challenger_speedup, answer.by_trial[2].against_baseline
    assert shown is not None
    assert shown.ratio == tested
    assert shown.ratio.estimate == pytest.approx(2.0, rel=0.03)


def test_a_baseline_that_failed_is_compared_with_nothing(plan: StudyPlan) -> None:
    log = log_of(plan, *CALIBRATED)
    blocks(log, "race", 0, {BASELINE: 1.0, 1: 2.0, 2: 0.5}, [1.0] * 4)
    log.add(world("race", BASELINE, 4, failed()))
    answer = answer_of(log)
    assert {row.against_baseline for row in answer.rows} == {None}
    assert [row.trial for row in answer.rows if row.is_measured] == [2, 1]
