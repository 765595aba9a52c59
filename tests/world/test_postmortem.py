from typing import Any

import pytest

from tuner.world.postmortem import RankRecord, root_cause, starvation


def state(**fields: Any) -> dict[str, Any]:
    return {"kind": "state", "steps_done": 0, "pool_size": 2, "idle": 0, "serving": 2,
            "calling": 2, "waiting": 2, **fields}  # fmt: skip


def report(time_ns: int, error: str = "RuntimeError: broken\nlong tail") -> dict[str, Any]:
    return {"kind": "failed", "time_ns": time_ns, "phase": "step", "failure": "crashed",
            "error": error, "traceback": "Traceback ..."}  # fmt: skip


def phase(name: str) -> dict[str, Any]:
    return {"kind": "phase", "phase": name}


def died(code: int, time_ns: int = 30) -> dict[str, Any]:
    return {"kind": "died", "exit_code": code, "time_ns": time_ns}


def rank(name: str, *messages: dict[str, Any]) -> RankRecord:
    record = RankRecord(name)
    for message in messages:
        record.take(message)
    return record


def test_the_earliest_report_is_the_root_cause() -> None:
    records = [rank("worker0", report(20)), rank("worker1", report(10, "KeyError: 'x'"))]
    failure = root_cause(records, deadline_s=None, world_s=1.0)
    assert failure.failure == "crashed"
    assert failure.message == "worker1 failed first, in step: KeyError: 'x'"
    assert failure.detail == "Traceback ..."


@pytest.mark.parametrize(
    ("records", "kind", "message"),
    [
        # A death comes before the reports that it causes.
        ([rank("worker0", report(20)), rank("worker1", phase("ready"), died(-6))],
         "crashed", "worker1 failed first (signal 6, SIGABRT, in ready)"),
        ([rank("worker0"), rank("worker1", phase("init_rpc"), died(1))],
         "init-failed", "worker1 failed first (exit code 1, in init_rpc)"),
    ],
)  # fmt: skip
def test_a_death_is_the_root_cause(records: list[RankRecord], kind: str, message: str) -> None:
    failure = root_cause(records, deadline_s=None, world_s=1.0)
    assert (failure.failure, failure.message) == (kind, message)


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
        rank(f"worker{number}", phase(name), *([] if code is None else [died(code)]))
        for number, (name, code) in enumerate(zip(phases, codes, strict=True))
    ]
    assert root_cause(records, deadline_s=None, world_s=1.0).is_untimely is is_untimely


def test_a_rank_that_finished_may_leave() -> None:
    record = rank("worker0", {"kind": "finished", "threads": 3, "peak_rss_mb": 1.0}, died(0))
    assert record.finished
    assert not record.failed


def test_starvation_needs_two_probes_without_progress() -> None:
    driver = rank("worker0", state(waiting=0, idle=2), state(waiting=0, idle=2))
    starved = rank("worker1", state(), state())
    assert starvation([driver, starved]) is starved
    assert starvation([driver, rank("worker1", state())]) is None
    busy = rank("worker0", state(waiting=0), state(waiting=0, steps_done=1))
    assert starvation([busy, starved]) is None
    at_work = rank("worker1", state(waiting=1), state(waiting=1))
    assert starvation([driver, at_work]) is None


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
    driver = rank("worker0", phase("step"), state(steps_done=12, idle=2))
    server = rank("worker1", phase("ready"), state(waiting=0))
    failure = root_cause([driver, server], deadline_s=30.0, world_s=30.1)
    assert failure.failure == "timed-out"
    assert failure.message == (
        "not done after 30 s (12 steps done; worker0 in step, worker1 in ready); "
        "no worker thread of worker1 was idle"
    )
