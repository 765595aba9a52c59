"""Programs written by hand, on machines written by hand: the times follow by arithmetic."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tuner.trace.forecast.replay import (
    AWAIT,
    COMPUTE,
    COMPUTE_WITH_GIL,
    DRAIN,
    GIVE,
    HOLD_LOCK,
    ISSUE,
    SLEEP,
    SWITCH_NS,
    TAKE,
    Call,
    Machine,
    Op,
    Program,
    Replayed,
    Root,
    replay,
)

MS = 1e6


def calls_at_once(
    number: int, *ops: Op, threads: int = 16, cpus: float = 64, polling: float = 0.0
) -> float:
    """How many ms rank 0 takes for so many calls to rank 1, all issued at once."""
    calls = [Call(0, 1, "udf", 0.0, 0.0, ops) for _ in range(number)]
    drives = [*((ISSUE, at) for at in range(number)), (DRAIN, 0)]
    return took_ms(calls, drives, threads=threads, cpus=cpus, polling=polling)


def took_ms(calls: Sequence[Call], drives: Sequence[Op], **machine: Any) -> float:
    return ended(calls, drives, **machine).took_ns / MS


def ended(
    calls: Sequence[Call], drives: Sequence[Op], *, threads: float = 16, cpus: float = 64,
    polling: float = 0.0, joins: Sequence[int] = (), permits: Sequence[int] = (),
) -> Replayed:  # fmt: skip
    program = Program(
        ["worker0", "worker1", "worker2"], [0, 0, 0], list(calls),
        [Root(0, 0.0, drives, is_driver=True)], list(joins), list(permits),
    )  # fmt: skip
    return replay(program, Machine([16, int(threads), 16], [cpus], [polling]))


@pytest.mark.parametrize(
    ("threads", "op", "cpus", "expected_ms"),
    [
        (1, SLEEP, 64, 80), (3, SLEEP, 64, 30), (8, SLEEP, 64, 10),
        (1, HOLD_LOCK, 64, 80), (8, HOLD_LOCK, 64, 80),
        (1, COMPUTE_WITH_GIL, 64, 80), (8, COMPUTE_WITH_GIL, 64, 80),
        (1, COMPUTE, 2, 80), (2, COMPUTE, 2, 40), (8, COMPUTE, 2, 40), (8, COMPUTE, 64, 10),
    ],
)  # fmt: skip
def test_eight_calls_share(threads: int, op: int, cpus: float, expected_ms: float) -> None:
    assert calls_at_once(8, (op, 10 * MS), threads=threads, cpus=cpus) == pytest.approx(expected_ms)


def test_threads_that_poll_take_their_share_of_the_cpus() -> None:
    assert calls_at_once(1, (COMPUTE, 10 * MS), cpus=2, polling=3) == pytest.approx(20)


def test_the_gil_changes_hands_after_the_switch_interval() -> None:
    long, short = (
        Call(0, 1, name, 0.0, 0.0, [(COMPUTE_WITH_GIL, ns)])
        for name, ns in (("long", 4 * SWITCH_NS), ("short", MS))
    )
    took = took_ms([long, short], [(ISSUE, 0), (ISSUE, 1), (AWAIT, 1)])
    assert took == pytest.approx((SWITCH_NS + MS) / MS)


def test_a_window_of_calls_in_flight_is_kept() -> None:
    calls = [Call(0, 1, "udf", 0.0, 0.0, [(SLEEP, ms * MS)]) for ms in (5, 1, 1, 1, 1)]
    drives = [(ISSUE, 0), (ISSUE, 1)]
    for number in range(2, 5):
        drives += [(DRAIN, 1), (ISSUE, number)]
    assert took_ms(calls, [*drives, (DRAIN, 0)]) == pytest.approx(5)


def test_a_result_that_others_complete_waits_for_all_of_them() -> None:
    calls = [Call(0, 1, "udf", 0.0, MS, [(SLEEP, ms * MS)], join=0) for ms in (1, 7)]
    drives = [(ISSUE, 0), (ISSUE, 1), (AWAIT, 0)]
    assert ended(calls, drives, joins=[2]).took_ns / MS == pytest.approx(8)


def test_so_many_calls_have_a_semaphore_as_it_has_permits() -> None:
    calls = [Call(0, 1, "udf", 0.0, 0.0, [(TAKE, 0), (SLEEP, 10 * MS), (GIVE, 0)])] * 8
    drives = [*((ISSUE, at) for at in range(8)), (DRAIN, 0)]
    assert ended(calls, drives, permits=[3]).took_ns / MS == pytest.approx(30)


def test_a_call_that_is_never_let_in_waits_for_one_that_waits() -> None:
    calls = [
        Call(0, 1, "wait", 0.0, 0.0, [(TAKE, 0)]),
        Call(0, 1, "work", 0.0, 0.0, [(ISSUE, 2), (AWAIT, 2), (GIVE, 0)]),
        Call(1, 2, "inner", 0.0, 0.0, is_blocking=True, ops=[]),
    ]
    found = ended(calls, [(ISSUE, 0), (ISSUE, 1), (AWAIT, 0)], permits=[0], threads=2)
    assert found.blocked == (
        "wait on worker1, which waits for work on worker1, which waits for the answer of inner on "
        "worker2, for which no thread of worker1 is free"
    )


def test_many_calls_that_do_nothing_do_not_nest() -> None:
    assert calls_at_once(3000, threads=1) == 0


@pytest.mark.parametrize("threads", [1, 4, 5])
def test_calls_that_wait_for_their_own_need_one_thread_more(threads: int) -> None:
    inner = [Call(1, 2, "inner", 0.0, 0.0, [(SLEEP, MS)], is_blocking=True)] * 4
    outer = [Call(0, 1, "outer", 0.0, 0.0, [(ISSUE, at), (AWAIT, at)]) for at in range(4)]
    drives = [*((ISSUE, 4 + at) for at in range(4)), (DRAIN, 0)]
    found = ended([*inner, *outer], drives, threads=threads)
    if threads == 5:
        assert found == Replayed(MS)
    else:
        assert math.isinf(found.took_ns)
        assert found.blocked == (
            "outer on worker1, which waits for the answer of inner on worker2, for which no "
            "thread of worker1 is free"
        )
