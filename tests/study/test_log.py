import cProfile
import random

import numpy as np
import pytest

from testing.made import calibrated, failed, log_of, plan_of, took, world
from tuner.plan.objectives import Limit
from tuner.study.log import StudyLog
from tuner.study.records import AGAIN, CALIBRATION_BLOCK, MOST_REPEATS, TRACE_BLOCK
from tuner.study.trial_state import TrialState
from tuner.world.environment import MachineState
from tuner.world.measurement import Failure, Measurement, TraceNumbers

PLAN = plan_of(1, 2)
CALIBRATED = calibrated((0, 1))
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
nan = np.nan


def outcomes(log: StudyLog) -> list[str]:
    return [state.outcome for state in log.states]


def is_barred(state: TrialState) -> bool:
    return bool(state.barred)


def test_the_matrix_has_a_row_per_block_and_a_column_per_trial_of_what_counts() -> None:
    log, expected = log_of(PLAN, *RACED), [[1e3, 2e3, nan], [3e3, nan, nan], [4e3, nan, nan]]
    assert np.exp(log.matrix("race")) == pytest.approx(np.array(expected), nan_ok=True)
    assert log_of(PLAN).matrix("race").shape == (0, 3)
    # The failure of a trace and a calibration are no samples.
    assert log.failures == (2,)
    counts = [(log.trials[trial].ran, len(log.trials[trial].failures)) for trial in range(3)]
    assert counts == [(4, 0), (2, 1), (0, 1)]
    assert [len(log.trials[trial].samples) for trial in range(3)] == [3, 1, 0]
    assert isinstance(log.trials[0].trace, Failure)
    assert log.world_s(0) == pytest.approx(4.0)
    assert log.block_s([0, AGAIN, 1]) == log.block_s([0, 1]) + log.block_s([0])


def test_the_first_world_that_went_well_is_the_calibration() -> None:
    log, again = log_of(PLAN, *RACED), world("calibration", 2, CALIBRATION_BLOCK, took(1.0))
    log.add(again)
    assert (log.failures, log.calibration(2)) == ((), again.outcome)


def test_what_failed_in_every_block_has_its_kind_of_failure() -> None:
    late = [world("race", 1, block, failed()) for block in range(4)]
    log = log_of(PLAN, *CALIBRATED, *late)
    assert outcomes(log) == ["not-measured", "crashed", "not-measured"]
    assert log.states[1].why_out == late[0].outcome
    assert 1 in log.alive
    log.add(world("race", 1, 4, took(1.0)))
    assert log.states[1].outcome == "completed"


def test_who_fails_more_often_is_out_but_for_the_baseline() -> None:
    log = log_of(PLAN, *RACED)
    log.distrust(0, 1)
    assert (log.alive, log.candidates, log.racing) == ((0,), (), (0,))
    assert log.states[0].why_out is None
    assert outcomes(log) == ["completed", "crashed", "crashed"]


def test_who_was_eliminated_or_never_measured_did_not_complete() -> None:
    measured = [*CALIBRATED, world("race", 0, 0, took(1.0)), world("race", 1, 0, took(1.0))]
    log = StudyLog(PLAN, PLAN.candidates(), measured, {0: "slow", 1: "slow"})
    assert outcomes(log) == ["completed", "eliminated", "not-measured"]


def test_a_world_that_fails_is_missing_in_its_block_until_it_has_failed_enough() -> None:
    log = log_of(PLAN, *CALIBRATED, world("race", 0, 0, took(1.0)))
    for attempt in range(MOST_REPEATS + 1):
        assert log.rows.measured("race") == {0: {0}}
        assert log.rows.failed(0, 1) == attempt
        log.add(world("race", 1, 0, failed()).model_copy(update={"attempt": attempt}))
    assert log.rows.measured("race") == {0: {0, 1}}
    # What fails before it goes well is a part of what a world costs.
    assert log.world_s(1) == pytest.approx(1.0 + 1.0 + MOST_REPEATS)
    log.add(world("race", 1, 1, took(1.0, world_s=2.0)))
    assert log.world_s(1) == pytest.approx(2.0 + 1.0 + MOST_REPEATS)


def test_a_log_without_a_block_is_that_of_the_other_worlds() -> None:
    measuring = PLAN.measuring.model_copy(update={"require": (Limit.read("step_ms<=1500"),)})
    limited = PLAN.model_copy(update={"measuring": measuring})
    busy, noise = MachineState(seconds=1.0, cpus=2, others_cpus=1.0), random.Random(1)
    log = StudyLog(limited, limited.candidates()[:2])
    log.extend(limited.candidates()[2:])
    for block, slow in enumerate([1.0, 2.0, 1.0, 1.0, 2.0, 1.0]):
        for trial in range(3):
            step_s = noise.uniform(0.9, 1.1) * (slow if trial == 1 else 1.0)
            outcome = took(step_s, world_s=noise.uniform(1, 2))
            machine = busy if block in (2, 3) else None
            log.add(world("race", trial, block, outcome.model_copy(update={"machine": machine})))
    assert log.rows.disturbed(2)
    assert not log.those(is_barred)
    for block in (0, 2, 5):
        log.put_aside(block)
    assert log.those(is_barred) == (1,)
    assert (log.blocks("race"), log.next_block) == (3, 6)
    fresh = StudyLog(limited, limited.candidates(), log.records)
    assert (log.states, len(fresh.records)) == (fresh.states, 3 * 3)
    np.testing.assert_array_equal(log.worlds("race"), fresh.worlds("race"))
    for trial in range(3):
        assert log.trials[trial].samples == fresh.trials[trial].samples
        assert log.value(trial) == fresh.value(trial)
        assert log.world_s(trial) == pytest.approx(fresh.world_s(trial))
    assert log.variance_within() == fresh.variance_within()
    for block in range(6):
        assert log.rows.disturbed(block) == fresh.rows.disturbed(block) == (block == 3)


def test_a_world_costs_the_log_the_same_however_many_there_are() -> None:
    log, calls = log_of(PLAN, *CALIBRATED), list[int]()
    for block in range(500):
        records = [world("race", trial, block, took(1.0 + trial)) for trial in (0, 1)]
        # Times on a busy machine tell nothing.
        with cProfile.Profile() as profile:
            for record in records:
                log.add(record)
            log.rows.disturbed(block)
            log.variance_within()
        calls.append(sum(stat.callcount for stat in profile.getstats()))
    assert calls[-1] == calls[20]


def test_blocks_count_in_their_order_as_far_as_all_before_them_are_finished() -> None:
    log = log_of(PLAN, *CALIBRATED)
    for block in (0, 1, 2):
        log.rows.open("race", block)
    for block in (2, 0, 1):
        for trial in (0, 1):
            log.add(world("race", trial, block, took(1.0 + block + trial)))
    log.rows.close(2)
    assert log.worlds("race").shape == (0, 4)
    log.rows.close(0)
    np.testing.assert_allclose(np.exp(log.matrix("race"))[:, :2], [[1e3, 2e3]])
    assert log.next_block == 3
    log.drop(1)
    np.testing.assert_allclose(np.exp(log.matrix("race"))[:, :2], [[1e3, 2e3], [3e3, 4e3]])
    assert (log.dropped, log.set_aside, log.blocks("race")) == ((1,), (), 2)
    assert {record.block for record in log.records} == {CALIBRATION_BLOCK, 0, 2}


def traced(failed: int) -> Measurement:
    numbers = TraceNumbers(
        rpc_cpu_total_ms=8.0, rpc_p99_ms=2.5, parallelism_mean=3.5, parallelism_max=4.0,
        diagnosis="No clear limit.", calls=100, failed_calls=failed,
    )  # fmt: skip
    return took(1.0).model_copy(update={"trace": numbers})


@pytest.mark.parametrize(("failed", "outcome"), [(60, "fails-more"), (1, "completed")])
def test_a_workload_fails_more_calls_by_its_traces(failed: int, outcome: str) -> None:
    records = calibrated([0, 1])
    records += [world("race", trial, 0, took(2.0 - trial)) for trial in (0, 1)]
    records += [world("trace", 0, TRACE_BLOCK, traced(0)), world("trace", 1, -2, traced(failed))]
    log = log_of(plan_of(1), *records)
    assert log.states[1].outcome == outcome
    assert (1 in log.alive) == (outcome == "completed")


def test_a_baseline_that_is_measured_later_judges_what_was_measured_before() -> None:
    log = log_of(plan_of(1), world("trace", 1, TRACE_BLOCK, traced(60)))
    assert log.states[1].lost is None
    log.add(world("trace", 0, TRACE_BLOCK, traced(0)))
    assert log.those(TrialState.does_less) == (1,)
    assert bool(np.isnan(log.matrix("race")[:, 1]).all())
