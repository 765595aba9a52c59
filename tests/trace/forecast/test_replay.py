"""Programs written by hand, on machines written by hand: the times follow by arithmetic."""

from collections.abc import Sequence
from typing import Any

import pytest

from tuner.trace.analyze.gil_use import SWITCH_NS
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE,
    COMPUTE_WITH_GIL,
    DRAIN,
    GIVE,
    ISSUE,
    SLEEP,
    TAKE,
    Call,
    Op,
    Program,
    Root,
)
from tuner.trace.forecast.replay import Machine, Replayed, replay

MS = 1e6


def ended(
    calls: Sequence[Call], drives: Sequence[Op] = (), *, threads: int = 16, cpus: float = 64,
    polling: float = 0.0, joins: Sequence[int] = (), permits: Sequence[int] = (),
) -> Replayed:  # fmt: skip
    """What becomes of these calls; without `drives` rank 0 issues all at once."""
    at_once = [*((ISSUE, at) for at in range(len(calls))), (DRAIN, 0)]
    program = Program(
        ["worker0", "worker1", "worker2"], [0, 0, 0], list(calls),
        [Root(0, 0.0, drives or at_once, is_driver=True)], list(joins), list(permits),
    )  # fmt: skip
    return replay(program, Machine([16, threads, 16], [cpus], [polling]))


def took_ms(calls: Sequence[Call], drives: Sequence[Op] = (), **machine: Any) -> float:
    return ended(calls, drives, **machine).took_ns / MS


def call(*ops: Op, name: str = "udf", to_client: float = 0.0, join: int = -1) -> Call:
    """A call of rank 0 to rank 1."""
    return Call(0, 1, name, 0.0, to_client, ops, join=join)


def test_threads_that_poll_take_their_share_of_the_cpus() -> None:
    assert took_ms([call((COMPUTE, 10 * MS))], cpus=2, polling=3) == pytest.approx(20)


def test_the_gil_changes_hands_after_the_switch_interval() -> None:
    long, short = (call((COMPUTE_WITH_GIL, ns)) for ns in (4 * SWITCH_NS, MS))
    took = took_ms([long, short], [(ISSUE, 0), (ISSUE, 1), (AWAIT, 1)])
    assert took == pytest.approx((SWITCH_NS + MS) / MS)


def test_a_window_of_calls_in_flight_is_kept() -> None:
    calls = [call((SLEEP, ms * MS)) for ms in (5, 1, 1, 1, 1)]
    drives = [(ISSUE, 0), (ISSUE, 1)]
    for number in range(2, 5):
        drives += [(DRAIN, 1), (ISSUE, number)]
    assert took_ms(calls, [*drives, (DRAIN, 0)]) == pytest.approx(5)


def test_a_result_that_others_complete_waits_for_all_of_them() -> None:
    calls = [call((SLEEP, ms * MS), to_client=MS, join=0) for ms in (1, 7)]
    assert took_ms(calls, [(ISSUE, 0), (ISSUE, 1), (AWAIT, 0)], joins=[2]) == pytest.approx(8)


def test_so_many_calls_have_a_semaphore_as_it_has_permits() -> None:
    calls = [call((TAKE, 0), (SLEEP, 10 * MS), (GIVE, 0))] * 8
    assert took_ms(calls, permits=[3]) == pytest.approx(30)


def test_a_call_that_is_never_let_in_waits_for_one_that_waits() -> None:
    for name in ("inner", ""):
        calls = [
            call((TAKE, 0), name="wait"),
            call((ISSUE, 2), (AWAIT, 2), (GIVE, 0), name="work"),
            Call(1, 2, name, 0.0, 0.0, is_blocking=True, ops=[]),
        ]
        found = ended(calls, [(ISSUE, 0), (ISSUE, 1), (AWAIT, 0)], permits=[0], threads=2)
        # A fetch has no function.
        assert found.blocked == (
            "wait on worker1, which waits for work on worker1, which waits for the answer of "
            f"{name or 'to_here'} on worker2, for which no thread of worker1 is free"
        )


def test_many_calls_that_do_nothing_do_not_nest() -> None:
    assert took_ms([call()] * 3000, threads=1) == 0


def with_callbacks(number: int, *ops: Op, chained: int = 1) -> list[Call]:
    """So many calls, each with callbacks one after another on the thread that completes it."""
    calls = list[Call]()
    for _ in range(number):
        place = len(calls)
        calls.append(Call(0, 1, "f", 0.0, 0.0, (), callback=place + 1, ends=1 + chained))
        for at in range(1, chained + 1):
            after = place + at + 1 if at < chained else -1
            calls.append(
                Call(0, 0, "callback g", 0.0, 0.0, ops, callback=after, is_callback=True,
                     ends=1 + chained - at)
            )  # fmt: skip
    return calls


@pytest.mark.parametrize(("threads", "chained", "ms"), [(1, 1, 80), (2, 1, 40), (8, 1, 10),
                                                        (2, 3, 120), (8, 3, 30)])  # fmt: skip
def test_a_callback_holds_a_thread_of_the_client(threads: int, chained: int, ms: float) -> None:
    calls = with_callbacks(8, (SLEEP, 10 * MS), chained=chained)
    issued = [(ISSUE, at) for at, each in enumerate(calls) if not each.is_callback]
    program = Program(["a", "b"], [0, 0], calls, [Root(0, 0.0, [*issued, (DRAIN, 0)], True)])
    found = replay(program, Machine([threads, 16], [64.0], [0.0]))
    assert found.took_ns == pytest.approx(ms * MS)


@pytest.mark.parametrize(("threads", "blocked"), [(3, True), (4, True), (5, False)])
def test_callbacks_that_wait_for_answers_need_a_thread_more(threads: int, blocked: bool) -> None:
    calls = list[Call]()
    for place in range(0, 12, 3):
        calls += [
            Call(0, 1, "f", 0.0, 0.0, (), callback=place + 1, ends=3),
            Call(0, 0, "callback g", 0.0, 0.0, [(ISSUE, place + 2), (AWAIT, place + 2)],
                 is_callback=True),
            Call(0, 1, "h", 0.0, 0.0, [(SLEEP, MS)], is_blocking=True),
        ]  # fmt: skip
    issued = [(ISSUE, at) for at in range(0, 12, 3)]
    program = Program(["a", "b"], [0, 0], calls, [Root(0, 0.0, [*issued, (DRAIN, 0)], True)])
    found = replay(program, Machine([threads, 16], [64.0], [0.0]))
    assert bool(found.blocked) == blocked
    if blocked:
        assert found.blocked.endswith("answer of h on b, for which no thread of a is free")
    else:
        assert found.took_ns == pytest.approx(MS)


def test_who_waits_for_a_callback_may_wait_for_the_call_that_it_has_made() -> None:
    calls = [
        Call(0, 1, "f", 0.0, 0.0, (), callback=1, ends=3),
        Call(0, 0, "callback g", 0.0, 0.0, [(ISSUE, 2)], is_callback=True),
        Call(0, 1, "h", 0.0, 0.0, [(SLEEP, 7 * MS)]),
    ]
    assert took_ms(calls, [(ISSUE, 0), (DRAIN, 0)]) == pytest.approx(7)


def test_a_result_that_a_callback_completes_needs_a_thread_of_the_server() -> None:
    """As `async_execution` functions return it: a call of their own, and what is done with it."""
    calls = list[Call]()
    for place in range(0, 12, 3):
        calls += [
            Call(0, 1, "f", 0.0, 0.0, [(ISSUE, place + 1)], then=[(AWAIT, place + 2)]),
            Call(1, 2, "g", 0.0, 0.0, (), callback=place + 2, ends=2),
            Call(1, 1, "callback h", 0.0, 0.0, [(SLEEP, 5 * MS)], is_callback=True),
        ]
    drives = [*((ISSUE, at) for at in range(0, 12, 3)), (DRAIN, 0)]
    assert took_ms(calls, drives, threads=2) == pytest.approx(10)
