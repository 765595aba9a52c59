import random
import sys

import numpy as np
import pytest

from tests.fakes import UDF
from tuner.plan.draft import draft_plan
from tuner.plan.objectives import Limit
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import StudyLog
from tuner.study.records import (
    AGAIN,
    CALIBRATION_BLOCK,
    MOST_REPEATS,
    TRACE_BLOCK,
    Phase,
    Record,
)
from tuner.world.environment import MachineState
from tuner.world.measurement import Failure, Measurement, Outcome, RankUsage


@pytest.fixture
def plan() -> StudyPlan:
    draft = draft_plan({"workload": "udf", "space": {"num_worker_threads": [1, 2]}})
    return draft.finish(UDF)


def took(step_s: float, world_s: float = 1.0) -> Measurement:
    usage = RankUsage(name="worker0", cpu_s=2.0, peak_rss_mb=100.0, threads=3)
    return Measurement(step_s=(step_s,), wall_s=step_s, world_s=world_s, ranks=(usage,))


def failed() -> Failure:
    return Failure(failure="crashed", message="worker1 failed first", world_s=1.0)


def world(phase: Phase, trial: int, block: int, outcome: Outcome) -> Record:
    return Record(trial=trial, block=block, phase=phase, outcome=outcome)


CALIBRATED = [world("calibration", trial, CALIBRATION_BLOCK, took(1.0)) for trial in (0, 1)]
RACED = [
    *CALIBRATED,
    world("calibration", 2, CALIBRATION_BLOCK, failed()),
    world("trace", 0, TRACE_BLOCK, failed()),
    world("race", 0, 0, took(1.0, world_s=2.0)),
    world("race", 1, 0, took(2.0)),
    world("race", 0, 1, took(3.0, world_s=4.0)),
    world("race", 1, 1, failed()),
    world("race", 0, 2, took(4.0, world_s=6.0)),
]


def log_of(plan: StudyPlan, *records: Record) -> StudyLog:
    return StudyLog(plan, plan.candidates(), records)


def test_the_matrix_has_a_row_per_block_and_a_column_per_trial(plan: StudyPlan) -> None:
    log = log_of(plan, *RACED)
    nan = np.nan
    assert np.exp(log.matrix("race")) == pytest.approx(
        np.array([[1e3, 2e3, nan], [3e3, nan, nan], [4e3, nan, nan]]), nan_ok=True
    )
    assert log_of(plan).matrix("race").shape == (0, 3)


def test_a_traces_failure_and_a_calibration_are_no_samples(plan: StudyPlan) -> None:
    log = log_of(plan, *RACED)
    assert set(log.failures) == {2}
    assert [(log.ran(trial), len(log.failed(trial))) for trial in range(3)] == [
        (4, 0),
        (2, 1),
        (0, 1),
    ]
    assert [len(log.samples(trial)) for trial in range(3)] == [3, 1, 0]
    assert isinstance(log.traced(0), Failure)
    assert log.calibration(2) is None
    assert log.world_s(0) == pytest.approx(4.0)


def test_only_what_ran_can_be_measured_however_it_began(plan: StudyPlan) -> None:
    log = log_of(plan, *CALIBRATED)
    assert log.alive == [0, 1, 2]
    assert log.runnable == [0, 1]
    late = log_of(plan, *RACED)
    assert late.runnable == [0, 1]
    again = Record(trial=2, block=-1, phase="calibration", outcome=took(1.0), attempt=1)
    late.add(again)
    assert late.failures == {}
    assert late.runnable == [0, 1, 2]
    assert late.calibration(2) == again.outcome


def test_what_failed_in_every_block_has_its_kind_of_failure(plan: StudyPlan) -> None:
    late = [world("race", 1, block, failed()) for block in range(4)]
    log = log_of(plan, *CALIBRATED, *late)
    assert [log.outcome(trial) for trial in range(3)] == ["not-measured", "crashed", "not-measured"]
    assert log.why_out(1) == late[0].outcome
    assert 1 in log.alive
    log.add(world("race", 1, 4, took(1.0)))
    assert (log.outcome(1), log.why_out(1)) == ("completed", None)


def test_who_fails_more_often_is_out_but_for_the_baseline(plan: StudyPlan) -> None:
    log = log_of(plan, *RACED)
    log.unreliable = (0, 1)
    assert (log.alive, log.candidates, log.racing) == ([0], [], [0])
    assert [log.outcome(trial) for trial in range(3)] == ["completed", "crashed", "crashed"]
    assert log.why_out(0) is None


def test_a_world_that_fails_is_missing_in_its_block_until_it_has_failed_enough(
    plan: StudyPlan,
) -> None:
    log = log_of(plan, *CALIBRATED, world("race", 0, 0, took(1.0)))
    for attempt in range(MOST_REPEATS + 1):
        assert log.rows.measured("race") == {0: {0}}
        assert log.rows.failed(0, 1) == attempt
        record = world("race", 1, 0, failed())
        log.add(record.model_copy(update={"attempt": attempt}))
    assert log.rows.measured("race") == {0: {0, 1}}
    log.add(world("race", 1, 1, took(1.0, world_s=2.0)))
    # What fails before it goes well is a part of what a world costs.
    assert log_of(plan, *log.records[:-1]).world_s(1) == pytest.approx(1.0 + 1.0 + MOST_REPEATS)
    assert log.world_s(1) == pytest.approx(2.0 + 1.0 + MOST_REPEATS)


def test_the_baselines_second_world_of_a_block_is_a_column_of_its_own(plan: StudyPlan) -> None:
    again = Record(trial=0, block=0, phase="race", outcome=took(4.0), again=True)
    log = log_of(plan, *CALIBRATED, world("race", 0, 0, took(1.0)), again,
                 world("race", 1, 0, took(2.0)), world("race", 0, 1, took(3.0)))  # fmt: skip
    nan = np.nan
    assert np.exp(log.worlds("race")) == pytest.approx(
        np.array([[1e3, 2e3, nan, 4e3], [3e3, nan, nan, nan]]), nan_ok=True
    )
    assert np.exp(log.matrix("race")[:, 0]) == pytest.approx([2e3, 3e3])
    assert log.rows.measured("race") == {0: {AGAIN, 0, 1}, 1: {0}}
    assert len(log.samples(0)) == 3
    assert log.block_s([0, AGAIN, 1]) == log.block_s([0, 1]) + log.block_s([0])


def test_who_was_eliminated_or_never_measured_did_not_complete(plan: StudyPlan) -> None:
    measured = [*CALIBRATED, world("race", 0, 0, took(1.0)), world("race", 1, 0, took(1.0))]
    log = StudyLog(plan, plan.candidates(), measured, {0: "slow", 1: "slow"})
    assert [log.outcome(trial) for trial in range(3)] == ["completed", "eliminated", "not-measured"]


def test_a_block_put_aside_counts_no_more_whatever_came_before(plan: StudyPlan) -> None:
    """Trials may have been added meanwhile, and what breaks a limit is judged again."""
    require = (Limit.read("step_ms<=1500"),)
    measuring = plan.measuring.model_copy(update={"require": require})
    limited = plan.model_copy(update={"measuring": measuring})
    log = StudyLog(limited, plan.candidates()[:2])
    log.extend(plan.candidates()[2:])
    worlds = [[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 3.0], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    for block, steps_s in enumerate(worlds):
        for trial, step_s in enumerate(steps_s):
            log.add(world("race", trial, block, took(step_s)))
    assert log.barred == {}
    log.put_aside(0)
    log.put_aside(4)
    assert [*log.barred] == [1]
    np.testing.assert_allclose(np.exp(log.matrix("race")), np.array(worlds[1:4]) * 1e3)
    assert log.blocks("race") == 3
    assert log.next_block == 5
    again = StudyLog(limited, plan.candidates(), log.records)
    assert log.value(2) == again.value(2)
    assert log.barred == again.barred


def test_a_log_without_a_block_is_that_of_the_other_worlds(plan: StudyPlan) -> None:
    noise = random.Random(1)
    busy = MachineState(seconds=1.0, cpus=2, others_cpus=1.0)
    log = log_of(plan, *CALIBRATED)
    for block in range(6):
        for trial in (0, 1):
            outcome = took(noise.uniform(1, 2), world_s=noise.uniform(1, 2))
            machine = busy if block in (2, 3) else None
            log.add(world("race", trial, block, outcome.model_copy(update={"machine": machine})))
    assert log.rows.disturbed(2)
    log.put_aside(2)
    log.put_aside(4)
    fresh = StudyLog(plan, plan.candidates(), log.records)
    assert len(fresh.records) == 2 + 2 * 4
    np.testing.assert_array_equal(log.worlds("race"), fresh.worlds("race"))
    for trial in (0, 1):
        assert log.samples(trial) == fresh.samples(trial)
        assert log.value(trial) == fresh.value(trial)
        assert log.world_s(trial) == pytest.approx(fresh.world_s(trial))
    assert log.variance_within() == fresh.variance_within()
    for block in range(6):
        assert log.rows.disturbed(block) == fresh.rows.disturbed(block) == (block == 3)


def test_a_world_costs_the_log_the_same_however_many_there_are(plan: StudyPlan) -> None:
    """Counted in calls of functions, since times on a busy machine tell nothing."""
    log = log_of(plan, *CALIBRATED)

    def calls_of_a_block(block: int) -> int:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        records = [world("race", trial, block, took(1.0 + trial)) for trial in (0, 1)]
        sys.setprofile(count)
        try:
            for record in records:
                log.add(record)
            log.rows.disturbed(block)
            log.variance_within()
        finally:
            sys.setprofile(None)
        return calls

    first = [calls_of_a_block(block) for block in range(10)][-1]
    for block in range(10, 500):
        calls_of_a_block(block)
    assert calls_of_a_block(500) == first


def test_blocks_count_in_their_order_as_far_as_all_before_them_are_finished(
    plan: StudyPlan,
) -> None:
    log = log_of(plan, *CALIBRATED)
    for block in (0, 1, 2):
        log.rows.open("race", block)
    for block in (2, 0, 1):
        for trial in (0, 1):
            log.add(world("race", trial, block, took(1.0 + block + trial)))
    assert log.worlds("race").shape == (0, 4)
    log.rows.close(2)
    assert len(log.worlds("race")) == 0
    log.rows.close(0)
    np.testing.assert_allclose(np.exp(log.matrix("race"))[:, :2], [[1e3, 2e3]])
    assert log.next_block == 3
    log.drop(1)
    np.testing.assert_allclose(np.exp(log.matrix("race"))[:, :2], [[1e3, 2e3], [3e3, 4e3]])
    assert (log.dropped, log.set_aside, log.blocks("race")) == ((1,), (), 2)
    assert {record.block for record in log.records} == {CALIBRATION_BLOCK, 0, 2}
