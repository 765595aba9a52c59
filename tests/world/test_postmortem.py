from pathlib import Path
from typing import Any

import pytest

from testing.fakes import order
from testing.specs import workload_spec
from tuner.world.postmortem import (
    HANDING_OVER,
    MOST_KEPT,
    PARENT_GONE,
    RankRecord,
    about_open_files,
    give_up_middle,
    head_and_tail,
    root_cause,
    starvation,
    with_evidence,
)


def state(**fields: Any) -> dict[str, Any]:
    return {"kind": "state", "steps_done": 0, "pool_size": 2, "idle": 0, "serving": 2,
            "calling": 2, "waiting": 2, **fields}  # fmt: skip


def report(time_ns: int, error: str = "RuntimeError: broken\nlong tail") -> dict[str, Any]:
    return {"kind": "failed", "time_ns": time_ns, "phase": "step", "failure": "crashed",
            "error": error, "traceback": "Traceback ..."}  # fmt: skip


def phase(name: str) -> dict[str, Any]:
    return {"kind": "phase", "phase": name, "time_ns": 0}


def died(code: int) -> dict[str, Any]:
    return {"kind": "gone", "code": code, "time_ns": 30}


def records(*messages: list[dict[str, Any]]) -> list[RankRecord]:
    found = [RankRecord(f"worker{number}") for number in range(len(messages))]
    for record, each in zip(found, messages, strict=True):
        for message in each:
            record.take(message)
    return found


IDLE = [state(waiting=0, idle=2)] * 2
FOR = ("for the answer to a call made while serving one. That answer needs a free thread there: "
       "give it more num_worker_threads")  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "kind", "message", "detail"),
    [
        # The earliest report.
        ([[report(20)], [report(10, "KeyError: 'x'")]],
         "crashed", "worker1 failed first, in step: KeyError: 'x'", "Traceback ..."),
        # A death comes before the reports that it causes.
        ([[report(20)], [phase("ready"), died(-6)]],
         "crashed", "worker1 failed first (signal 6, SIGABRT, in ready)", ""),
        ([[], [phase("init_rpc"), died(1)]],
         "init-failed", "worker1 failed first (exit code 1, in init_rpc)", ""),
        # A deadlock.
        ([IDLE, [state(pool_size=1, waiting=1)] * 2], "deadlocked",
         f"worker1 deadlocked: its only worker thread waits {FOR}", "worker1: 1 worker threads"),
        ([IDLE, [state()] * 2], "deadlocked",
         f"worker1 deadlocked: all 2 worker threads wait {FOR}", "worker1: 2 worker threads, 0 id"),
        # Nothing but the deadline.
        ([[phase("step"), state(steps_done=12, idle=2)], [phase("ready"), state(waiting=0)]],
         "timed-out", "not done after 30 s (12 steps done; worker0 in step, worker1 in ready); "
         "no worker thread of worker1 was idle", "worker1: 2 worker threads, 0 idle"),
    ],
)  # fmt: skip
def test_the_root_cause(
    messages: list[list[dict[str, Any]]], kind: str, message: str, detail: str
) -> None:
    failure = root_cause(records(*messages), deadline_s=30.0, world_s=30.1)
    assert (failure.failure, failure.message) == (kind, message)
    assert detail in failure.detail


@pytest.mark.parametrize(("code", "is_untimely"), [(PARENT_GONE, True), (-9, True), (255, False)])
def test_a_rank_that_was_killed_or_lost_its_parent_ended_before_its_time(
    code: int, is_untimely: bool
) -> None:
    # Another process started the second rank, which lives.
    every = records([phase("setup"), died(code)], [phase("setup")])
    assert root_cause(every, deadline_s=None, world_s=1.0).is_untimely is is_untimely


def test_a_rank_that_counts_as_dead_does_not_finish_afterwards() -> None:
    finished = {"kind": "finished", "threads": 9, "peak_rss_mb": 200.0}
    every = records(*[[phase("shutdown"), died(PARENT_GONE), finished]] * 2)
    failure = root_cause(every, deadline_s=None, world_s=0.5)
    assert failure.message == "worker0 failed first (its parent process ended, in shutdown)"
    assert failure.is_untimely


@pytest.mark.parametrize(
    ("driver", "server"),
    [
        (IDLE, [state()]),
        ([state(waiting=0), state(waiting=0, steps_done=1)], [state(), state()]),
        (IDLE, [state(waiting=1), state(waiting=1)]),
    ],
)
def test_starvation_needs_two_probes_without_progress(driver: list[Any], server: list[Any]) -> None:
    assert starvation(records(driver, server)) is None


def test_of_a_long_file_both_ends_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "printed"
    file.write_bytes(b"x" * 100)
    assert head_and_tail(file, 100) == b"x" * 100
    file.write_bytes(b"first " + b"x" * 10_000 + b" last")
    kept = head_and_tail(file, 101)
    assert kept.startswith(b"first xxx")
    assert kept.endswith(b"xxx last")
    assert b"\n[... 9,910 bytes are left out here ...]\n" in kept
    assert len(kept) < 160


def test_the_disk_gets_the_middle_back_while_the_file_is_written(tmp_path: Path) -> None:
    file = tmp_path / "printed"
    with file.open("wb") as writer:
        writer.write(b"first " + b"x" * (9 * MOST_KEPT) + b" middle")
        writer.flush()
        before = head_and_tail(file)
        give_up_middle(file)
        freed = file.stat().st_blocks * 512
        assert head_and_tail(file) == before
        writer.write(b" last")
    give_up_middle(tmp_path / "gone")
    assert head_and_tail(file).endswith(b" middle last")
    assert freed < 3 * MOST_KEPT


def test_what_a_rank_hands_over_is_counted_while_it_lasts_and_afterwards() -> None:
    record = RankRecord("worker0")
    for second, name in enumerate(["step", HANDING_OVER, "step", "step", HANDING_OVER]):
        record.take({"kind": "phase", "phase": name, "time_ns": second * 10**9})
    assert record.handed_over_s(7 * 10**9) == 1 + 3
    record.take({"kind": "phase", "phase": "step", "time_ns": 8 * 10**9})
    assert record.handed_over_s(20 * 10**9) == 1 + 4


@pytest.mark.parametrize(
    ("of_rank", "made"),
    [({"in_callbacks": 2}, "in a callback of a future"),
     ({"in_callbacks": 1}, "while serving one or in a callback of a future"),
     ({"in_callbacks": 0}, "while serving one")],
)  # fmt: skip
def test_a_deadlock_in_callbacks_is_told_as_one(of_rank: dict[str, int], made: str) -> None:
    found = root_cause(records(IDLE, [state(**of_rank)] * 2), deadline_s=9, world_s=9)
    assert found.failure == "deadlocked"
    assert f"wait for the answer to a call made {made}. That answer needs a" in found.message


def test_a_thread_that_is_none_of_the_pool_proves_no_deadlock() -> None:
    """Some other thread waits, and one of the pool has nothing to do."""
    assert starvation(records(IDLE, [state(in_callbacks=1, idle=1)] * 2)) is None


def test_the_limit_of_open_files_is_named_where_it_is_or_may_be_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = tmp_path / "worker1.stderr"
    printed.write_text('what():  In initImplFromLoop "rv < 0: too many open files"')
    dead = records([], [phase("init_rpc"), died(-6)])
    failure = root_cause(dead, deadline_s=None, world_s=1.0)

    def told(captured: list[Path], limit: int) -> str:
        monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))
        return with_evidence(failure, order(workload_spec()), captured).message

    said = "worker1 failed first (signal 6, SIGABRT, in init_rpc)"
    assert told([printed], 4096) == (
        f"{said}; it had too many open files: raise their limit, ulimit -n, which is 4096 here"
    )
    assert told([], 64) == f"{said}; the limit of open files may be too low: ulimit -n is 64 here"
    assert told([], 1024) == told([], -1) == said
    assert about_open_files("OSError: [Errno 24] Too many open files", in_init=False)
    assert about_open_files("killed", in_init=False) == ""
