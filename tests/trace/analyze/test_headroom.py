"""The least threads, from traces written by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.synthetic import call, ranks, trace
from tuner.trace.analyze.headroom import ALLOWED_OFF_US, LeastThreads, least_threads
from tuner.trace.model.trace import Trace


def traced(*calls: dict[str, Any], threads: int = 16, **facts: Any) -> Trace:
    return trace(calls, processes=ranks(3, threads=threads), **facts)


def served(call_id: int, start_ms: float, end_ms: float, *, off_ms: float, **columns: Any) -> Any:
    """A call of worker0 to worker1 that is served throughout, and off the CPU for so long."""
    return call(
        call_id, start_ms, end_ms, served_ms=(start_ms, end_ms), thread=10 + call_id,
        cpu_ms=end_ms - start_ms - off_ms, run_queue_ms=0, **columns,
    )  # fmt: skip


def nested(call_id: int, parent: int, start_ms: float, end_ms: float | None, **columns: Any) -> Any:
    """A call of worker1 to worker2, made while it served `parent`."""
    return call(call_id, start_ms, end_ms, client_rank=1, server_rank=2, parent_call=parent,
                **{"kind": "rpc_sync", **columns})  # fmt: skip


def server_of(seen: Trace) -> LeastThreads:
    (found,) = [each for each in least_threads(seen, [("relay", "worker1")])
                if each.role == "relay"]  # fmt: skip
    return found


def test_threads_that_wait_at_once_count() -> None:
    found = traced(
        served(1, 0, 50, off_ms=20),
        served(2, 0, 50, off_ms=20),
        served(3, 60, 90, off_ms=10),
        nested(11, 1, 10, 30),
        nested(12, 2, 20, 40),
        nested(13, 3, 70, 80),
    )
    assert (server_of(found).waiting, server_of(found).least) == (2, 3)
    assert server_of(found).text == (
        "relay never had more than 2 calls waiting inside served calls: "
        "3 threads are enough not to deadlock."
    )


def test_a_function_that_ended_before_the_answer_did_not_wait_for_it() -> None:
    found = traced(served(1, 0, 20, off_ms=0), nested(11, 1, 10, 30, kind="rpc_async"))
    assert server_of(found).waiting == 0
    assert "1 thread is enough" in server_of(found).text


@pytest.mark.parametrize(("threads", "says"), [
    (2, "that is a deadlock"), (3, "fewer than 3 threads may"), (16, "fewer than 3 threads may"),
])  # fmt: skip
def test_what_never_ends_holds_its_thread(threads: int, says: str) -> None:
    found = traced(
        call(1, 0, None, served_ms=(1, None), thread=11),
        call(2, 0, None, served_ms=(1, None), thread=12),
        nested(11, 1, 10, None),
        nested(12, 2, 20, None),
        threads=threads,
    )
    # What it did before it waited is not known.
    assert server_of(found).least is None
    assert says in server_of(found).text


def of_two_servers(*calls: dict[str, Any], threads: int) -> LeastThreads:
    """What is said of worker1 and worker2 together."""
    found = trace(calls, processes=ranks(4, threads=threads))
    (server,) = [each for each in least_threads(found, [("server", "worker[12]")])
                 if each.role == "server"]  # fmt: skip
    return server


def test_a_deadlock_of_one_process_is_said_though_as_many_calls_sleep_in_another() -> None:
    stuck = [
        row
        for i in (3, 4)
        for row in (
            call(i, 0, None, served_ms=(1, None), thread=i, server_rank=2),
            nested(10 + i, i, 10, None) | {"client_rank": 2, "server_rank": 3},
        )
    ]
    found = of_two_servers(*(served(i, 0, 50, off_ms=50) for i in (1, 2)), *stuck, threads=2)
    assert found.is_deadlock
    assert "had 2 calls waiting inside served calls at once, with 2 threads: that is" in found.text


@pytest.mark.parametrize("server_rank", [1, 2])
def test_a_call_that_is_still_served_is_no_deadlock(server_rank: int) -> None:
    """The only call that waited for one of its own has ended, on the same server or another one."""
    found = of_two_servers(
        served(1, 0, 50, off_ms=20),
        nested(11, 1, 10, 30),
        call(2, 60, None, served_ms=(61, None), server_rank=server_rank),
        threads=1,
    )
    assert not found.is_deadlock
    assert "that is a deadlock" not in found.text


def test_with_more_calls_under_way_more_threads_might_have_waited() -> None:
    found = traced(
        served(1, 0, 50, off_ms=20),
        served(2, 50, 90, off_ms=0) | {"start_ns": 0},
        nested(11, 1, 10, 30),
        threads=2,
    )
    assert server_of(found).least is None
    assert server_of(found).text.endswith("with 2 threads: it may need more.")


def waits_for_three(at_ms: float, number: int) -> list[dict[str, Any]]:
    """Three calls, of which the last one to come lets all of them go on."""
    return [served(number + i, at_ms + i, at_ms + 3, off_ms=2 - i) for i in range(3)]


def test_calls_that_may_have_waited_for_each_other_promise_nothing() -> None:
    found = server_of(traced(*(row for i in range(10) for row in waits_for_three(10 * i, 3 * i))))
    assert (found.waiting, found.may_wait, found.least, found.at_least) == (0, 2, None, 3)
    assert found.text == (
        "relay ran calls of udf, up to 2 at once, that were off the CPU: if they waited for each "
        "other, or for calls that the trace does not show, fewer than 3 threads may deadlock."
    )


def test_calls_that_were_all_off_the_cpu_let_each_other_go_on() -> None:
    found = server_of(traced(*(served(i, 0, 9, off_ms=5) for i in range(3))))
    assert (found.may_wait, found.under_way, found.at_least) == (3, 3, 3)


def test_one_call_at_a_time_may_have_waited_for_an_unseen_one() -> None:
    found = server_of(traced(*(served(i, 10 * i, 10 * i + 5, off_ms=1) for i in range(10))))
    assert found.least is None
    assert found.text.startswith(
        "relay ran calls of udf, one at a time, that were off the CPU: if they waited for calls "
        "that the trace does not show, fewer than 2 threads may deadlock."
    )


def test_a_lock_beside_nested_calls_counts() -> None:
    """Of five calls, three wait for calls of their own and two for a semaphore."""
    calls = [served(i, 0, 50, off_ms=40) for i in range(5)]
    found = server_of(traced(*calls, *(nested(10 + i, i, 5, 45) for i in range(3))))
    assert (found.waiting, found.may_wait, found.least, found.at_least) == (3, 5, None, 6)
    assert found.text.endswith(
        "up to 5 at once, that were off the CPU or waited for calls of their own: fewer than 6 "
        "threads may deadlock."
    )


def test_a_wait_beside_a_nested_call_takes_the_promise_away() -> None:
    """No more threads waited at once than do in nested calls."""
    found = server_of(traced(served(1, 0, 50, off_ms=25), nested(11, 1, 10, 30)))
    assert (found.waiting, found.may_wait, found.least, found.at_least) == (1, 1, None, 2)
    assert found.text == (
        "relay ran calls of udf, one at a time, that were off the CPU or waited for calls of their "
        "own: fewer than 2 threads may deadlock."
    )


def test_what_a_function_computes_beside_its_call_is_no_wait_for_it() -> None:
    """It computes for 10 ms beside a call of as long, and then waits for another served call."""
    columns: dict[str, Any] = {"kind": "rpc_async"}
    beside = traced(served(1, 0, 20, off_ms=10), nested(11, 1, 0, 10, **columns))
    assert (server_of(beside).least, server_of(beside).at_least) == (None, 2)
    # Of a call that takes longer than all that it computes, the rest is a wait for it.
    waited = traced(served(1, 0, 20, off_ms=20), nested(11, 1, 0, 20, **columns))
    assert server_of(waited).least == 2
    both = traced(
        served(1, 0, 20, off_ms=15),
        nested(11, 1, 5, 20, kind="rpc_sync"),
        nested(12, 1, 5, 15, **columns),
    )
    assert server_of(both).least == 2


def test_as_many_threads_as_there_were_did_not_deadlock() -> None:
    found = server_of(traced(*(served(i, 0, 9, off_ms=5) for i in range(4)), threads=4))
    assert found.at_least == 4
    sleeper = traced(*(served(i, 10 * i, 10 * i + 9, off_ms=9) for i in range(4)), threads=1)
    assert server_of(sleeper).text == ""


def test_the_usual_time_off_the_cpu_is_allowed() -> None:
    usual = ALLOWED_OFF_US / 1e3
    computes = [served(i, 10 * i, 10 * i + 5, off_ms=usual) for i in range(99)]
    assert server_of(traced(*computes)).least == 1
    # One that is off the CPU for longer takes the promise away, but is no reason to warn.
    found = server_of(traced(*computes, served(99, 990, 995, off_ms=2 * usual)))
    assert (found.least, found.text) == (None, "")


@pytest.mark.parametrize("body", ["builtin", "script"])
def test_calls_that_are_served_without_python_promise_nothing(body: str) -> None:
    for served_ms in (None, (1, 5)):
        for threads in (1, 16):
            runs = call(1, 0, 9, body=body, served_ms=served_ms)
            found = server_of(traced(runs, threads=threads))
            assert (found.least, found.text) == (None, "")


def test_a_script_elsewhere_may_have_made_calls() -> None:
    computes = served(1, 0, 9, off_ms=0)
    assert server_of(traced(computes)).least == 1
    script = call(2, 0, 9, body="script", server_rank=2)
    assert server_of(traced(computes, script)).least is None


def test_a_call_whose_serving_was_lost_promises_nothing() -> None:
    found = server_of(traced(served(1, 0, 9, off_ms=0), call(2, 0, 9)))
    assert (found.least, found.text) == (None, "")


def test_of_a_role_that_served_nothing_nothing_is_said() -> None:
    found = least_threads(traced(served(1, 0, 9, off_ms=0)), [("server", "worker1")])
    assert [(each.role, each.least, bool(each.text)) for each in found] == [
        ("worker", None, False), ("server", 1, True),
    ]  # fmt: skip


def test_a_fetch_holds_no_thread() -> None:
    fetch = call(2, 0, 9, kind="to_here", body="fetch", function="")
    assert server_of(traced(served(1, 0, 9, off_ms=0), fetch)).least == 1


def test_where_a_rank_is_missing_nothing_is_concluded() -> None:
    whole = traced(call(1, 0, 50, served_ms=(1, 49)))
    assert least_threads(whole)
    first, second, third = whole.ranks
    assert not least_threads(replace(whole, ranks=(first,)))
    assert not least_threads(replace(whole, ranks=(second, third)))
    assert not least_threads(traced())
