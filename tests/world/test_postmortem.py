from typing import Any

import pytest

from tuner.world.postmortem import RankRecord, root_cause, starvation


def state(**fields: Any) -> dict[str, Any]:
    return {
        "kind": "state",
        "steps_done": 0,
        "pool_size": 2,
        "idle": 0,
        "serving": 2,
        "calling": 2,
        "waiting": 2,
        **fields,
    }


def report(time_ns: int, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "failed",
        "time_ns": time_ns,
        "phase": "step",
        "failure": "crashed",
        "error": "RuntimeError: broken\nlong tail",
        "traceback": "Traceback ...",
        **fields,
    }


def rank(name: str, *messages: dict[str, Any]) -> RankRecord:
    record = RankRecord(name)
    for message in messages:
        record.take(message)
    return record


def test_the_earliest_report_is_the_root_cause() -> None:
    records = [rank("worker0", report(20)), rank("worker1", report(10, error="KeyError: 'x'"))]
    failure = root_cause(records, deadline_s=None, world_s=1.0)
    assert failure.failure == "crashed"
    assert failure.message == "worker1 failed first, in step: KeyError: 'x'"
    assert failure.detail == "Traceback ..."


def test_a_death_comes_before_the_reports_that_it_causes() -> None:
    dead = rank("worker1", {"kind": "phase", "phase": "ready"})
    dead.take({"kind": "died", "exit_code": -6, "time_ns": 30})
    failure = root_cause([rank("worker0", report(20)), dead], deadline_s=None, world_s=1.0)
    assert failure.message == "worker1 failed first (signal 6, SIGABRT, in ready)"


def test_a_death_during_init_rpc_is_a_failed_init() -> None:
    dead = rank("worker1", {"kind": "phase", "phase": "init_rpc"})
    dead.take({"kind": "died", "exit_code": 1, "time_ns": 30})
    failure = root_cause([rank("worker0"), dead], deadline_s=None, world_s=1.0)
    assert (failure.failure, failure.message) == (
        "init-failed",
        "worker1 failed first (exit code 1, in init_rpc)",
    )


@pytest.mark.parametrize(
    ("phases", "codes", "is_untimely"),
    [
        (("init_rpc", "init_rpc"), (255, None), True),
        (("step", "ready"), (255, 255), True),
        (("step", "ready"), (255, None), False),
        (("init_rpc", "init_rpc"), (1, None), False),
    ],
)
def test_a_rank_that_lost_what_had_started_it_ended_before_its_time(
    phases: tuple[str, str], codes: tuple[int, int | None], is_untimely: bool
) -> None:
    records = [
        rank(f"worker{number}", {"kind": "phase", "phase": phase})
        for number, phase in enumerate(phases)
    ]
    for record, code in zip(records, codes, strict=True):
        if code is not None:
            record.take({"kind": "died", "exit_code": code, "time_ns": 30})
    assert root_cause(records, deadline_s=None, world_s=1.0).is_untimely is is_untimely


def test_a_rank_that_finished_may_leave() -> None:
    record = rank("worker0", {"kind": "finished", "threads": 3, "peak_rss_mb": 1.0})
    record.take({"kind": "died", "exit_code": 0, "time_ns": 10})
    assert record.finished
    assert not record.failed


def test_starvation_needs_two_probes_without_progress() -> None:
    driver = rank("worker0", state(waiting=0, idle=2), state(waiting=0, idle=2))
    starved = rank("worker1", state(), state())
    assert starvation([driver, starved]) is starved
    assert starvation([driver, rank("worker1", state())]) is None
    busy = rank("worker0", state(waiting=0), state(waiting=0, steps_done=1))
    assert starvation([busy, starved]) is None


def test_threads_that_work_are_not_starved() -> None:
    records = [rank("worker0", state(waiting=0), state(waiting=0)),
               rank("worker1", state(waiting=1), state(waiting=1))]  # fmt: skip
    assert starvation(records) is None


@pytest.mark.parametrize(
    ("pool_size", "words"), [(1, "its only worker thread waits"), (2, "all 2 worker threads wait")]
)
def test_a_deadlock_names_the_rank_and_says_what_to_do(pool_size: int, words: str) -> None:
    starved = rank("worker1", *[state(pool_size=pool_size, waiting=pool_size)] * 2)
    idle = rank("worker0", *[state(waiting=0)] * 2)
    failure = root_cause([idle, starved], deadline_s=None, world_s=4.0)
    assert failure.failure == "deadlocked"
    assert failure.message.startswith(f"worker1 deadlocked: {words}")
    assert f"worker1: {pool_size} worker threads, 0 idle" in failure.detail


def test_a_world_past_its_deadline_says_where_it_was() -> None:
    driver = rank("worker0", {"kind": "phase", "phase": "step"}, state(steps_done=12, idle=2))
    server = rank("worker1", {"kind": "phase", "phase": "ready"}, state(waiting=0))
    failure = root_cause([driver, server], deadline_s=30.0, world_s=30.1)
    assert failure.failure == "timed-out"
    assert failure.message == (
        "not done after 30 s (12 steps done; worker0 in step, worker1 in ready); "
        "no worker thread of worker1 was idle"
    )
