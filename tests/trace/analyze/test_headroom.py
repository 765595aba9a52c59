"""The least threads and the slowest call, from traces written by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.synthetic import call, ranks, trace
from tuner.trace.analyze.headroom import LeastThreads, least_threads, slowest_call
from tuner.trace.model.trace import Trace


def traced(*calls: dict[str, Any], threads: int = 16) -> Trace:
    known = (replace(rank, rpc_timeout_s=2.0) for rank in ranks(3, threads=threads))
    return trace(calls, processes=tuple(known))


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
        call(1, 0, 50, served_ms=(1, 49), thread=11),
        call(2, 0, 50, served_ms=(1, 49), thread=12),
        call(3, 60, 90, served_ms=(61, 89), thread=11),
        nested(11, 1, 10, 30),
        nested(12, 2, 20, 40),
        nested(13, 3, 70, 80),
    )
    assert (server_of(found).waiting, server_of(found).least) == (2, 3)
    assert server_of(found).text == (
        "relay never had more than 2 calls waiting inside served calls: "
        "3 threads are enough not to deadlock."
    )


def test_a_thread_with_two_calls_under_way_counts_once() -> None:
    found = traced(
        call(1, 0, 50, served_ms=(1, 49)),
        nested(11, 1, 10, 30, kind="rpc_async"),
        nested(12, 1, 12, 40, kind="rpc_async"),
    )
    assert server_of(found).least == 2


def test_a_function_that_ended_before_the_answer_did_not_wait_for_it() -> None:
    found = traced(call(1, 0, 50, served_ms=(1, 20)), nested(11, 1, 10, 30, kind="rpc_async"))
    assert server_of(found).waiting == 0
    assert "1 thread is enough" in server_of(found).text


@pytest.mark.parametrize(("threads", "least", "says"), [
    (2, None, "that is a deadlock"), (3, 3, "3 threads are enough"), (16, 3, "3 threads are"),
])  # fmt: skip
def test_what_never_ends_holds_its_thread(threads: int, least: int | None, says: str) -> None:
    found = traced(
        call(1, 0, None, served_ms=(1, None), thread=11),
        call(2, 0, None, served_ms=(1, None), thread=12),
        nested(11, 1, 10, None),
        nested(12, 2, 20, None),
        threads=threads,
    )
    assert server_of(found).least == least
    assert says in server_of(found).text


def test_with_more_calls_under_way_more_threads_might_have_waited() -> None:
    found = traced(
        call(1, 0, 50, served_ms=(1, 49), thread=11),
        call(2, 0, 90, served_ms=(50, 89), thread=11),
        nested(11, 1, 10, 30),
        threads=2,
    )
    assert server_of(found).least is None
    assert server_of(found).text.endswith("with 2 threads: it may need more.")


def test_where_a_rank_is_missing_nothing_is_concluded() -> None:
    whole = traced(call(1, 0, 50, served_ms=(1, 49)))
    assert least_threads(whole)
    first, second, third = whole.ranks
    assert not least_threads(replace(whole, ranks=(first,)))
    assert not least_threads(replace(whole, ranks=(second, third)))
    assert not least_threads(traced())


def test_the_slowest_call_is_compared_with_its_timeout() -> None:
    found = traced(call(1, 0, 50, served_ms=(1, 20)), call(2, 100, 600, served_ms=(110, 590)))
    slowest = slowest_call(found)
    assert slowest is not None
    assert slowest.took_s == pytest.approx(0.5)
    assert slowest.text == (
        "The slowest call took 0.5 s, 25 % of rpc_timeout (2 s): rpc_async#udf(worker0 -> worker1)."
    )


def test_a_trace_that_knows_no_timeout_compares_with_none() -> None:
    assert slowest_call(trace([call(1, 0, 50, served_ms=(1, 20))])) is None
