"""Calls that failed, and the one that is nearest to its time limit, from traces written by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.analyze.diagnosed import SLEEP, with_calls
from tests.trace.synthetic import call, ranks, simulate, trace
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.failed_calls import failed_calls, slowest_call
from tuner.trace.model.trace import Trace


def raises(call_id: int, error: str, **columns: Any) -> dict[str, Any]:
    return call(call_id, 0, 9, status="raised", error=error, **columns)


def times_out(call_id: int, after_ms: float, **columns: Any) -> dict[str, Any]:
    return call(call_id, 0, after_ms, status="timed-out", timeout_s=after_ms / 1e3,
                error="RuntimeError: RPCErr:1:RPC ran for more than set timeout",
                **columns)  # fmt: skip


def test_calls_that_raise_are_said_first() -> None:
    half = [call(i, 0, 9, function="store") for i in range(50)]
    half += [raises(50 + i, f"KeyError('shard {i}')", function="store") for i in range(50)]
    assert failed_calls(trace(half)) == ("50 of 100 calls of store raised KeyError.",)
    beside = with_calls(simulate(SLEEP, threads=1, at_once=4), raises(999, "KeyError(1)"))
    said = diagnose(beside).text
    assert said.startswith("1 of 41 calls of udf raised KeyError. worker1 is the limit")
    assert diagnose(trace(half)).text.startswith("50 of 100 calls of store raised KeyError. No ")


def test_calls_that_time_out_are_apart_from_those_that_raise() -> None:
    late = [times_out(i, 100, function="f") for i in range(12)]
    fine = [call(100 + i, 0, 9, function="f", timeout_s=None) for i in range(88)]
    assert failed_calls(trace([*late, *fine])) == ("12 of 100 calls of f timed out after 0.1 s.",)
    both = [*late, raises(50, "a.b.Gone: now", function="f", timeout_s=None)]
    assert failed_calls(trace(both)) == (
        "1 of 13 calls of f raised a.b.Gone and 12 timed out after 0.1 s.",
    )
    others = [times_out(1, 100), times_out(2, 5000)]
    assert failed_calls(trace(others)) == ("2 of 2 calls of udf timed out after 0.1 s to 5 s.",)
    unknown = [row | {"timeout_s": None} for row in others]
    assert failed_calls(trace(unknown)) == ("2 of 2 calls of udf timed out.",)


def test_the_function_with_the_most_failures_comes_first() -> None:
    calls = [raises(10 * n + i, "E", function=f"f{n}") for n in range(6) for i in range(n + 1)]
    assert failed_calls(trace(calls)) == (
        "6 of 6 calls of f5 raised E.", "5 of 5 calls of f4 raised E.",
        "4 of 4 calls of f3 raised E.", "6 calls of 3 other functions failed too.",
    )  # fmt: skip


def test_a_fetch_and_an_error_without_a_name() -> None:
    fetched = raises(1, "", kind="to_here", body="fetch", function="")
    assert failed_calls(trace([fetched])) == ("1 of 1 call of to_here raised an exception.",)
    kinds = [raises(2, "KeyError()"), raises(3, "KeyError()"), raises(4, "OSError(2, 'no')")]
    assert failed_calls(trace(kinds)) == ("3 of 3 calls of udf raised KeyError and OSError.",)
    assert failed_calls(trace()) == ()


def traced(*calls: dict[str, Any], limit_s: float | None = 2.0) -> Trace:
    known = (replace(rank, rpc_timeout_s=limit_s) for rank in ranks(3))
    rows = [{"timeout_s": None, **row} for row in calls]
    return trace(rows, processes=tuple(known), window_ms=(0, 1500))


def says(found: Trace) -> str:
    slowest = slowest_call(found)
    return slowest.text.removeprefix("The call nearest to its time limit ") if slowest else ""


NAME = "rpc_async#udf(worker0 -> worker1)."


def test_a_call_is_compared_with_its_own_time_limit() -> None:
    long = call(1, 0, 600, timeout_s=5.0)
    assert says(traced(long)) == f"took 600 ms of 5 s (12 %): {NAME}"
    # A longer one is not as near; one without a limit is not near to any, nor is an unknown one.
    near = call(2, 0, 80, timeout_s=0.1, function="g")
    others = [call(3, 0, 900, timeout_s=0.0), call(4, 0, 950)]
    assert "took 80 ms of 0.1 s (80 %)" in (says(traced(long, near, *others)))
    assert says(traced(*[row | {"timeout_s": 0.0} for row in others])) == ""


def test_a_call_that_timed_out_is_said_to_have() -> None:
    assert says(traced(call(1, 0, 600, timeout_s=5.0), times_out(2, 100.2))) == (
        f"timed out after 0.1 s: {NAME}"
    )


def test_a_call_without_an_answer_lasts_to_the_end_of_the_trace() -> None:
    assert says(traced(call(1, 500, None, timeout_s=4.0))) == (
        f"had no answer after 1 s of 4 s (25 %): {NAME}"
    )


def test_an_older_trace_has_the_limits_of_its_processes() -> None:
    found = slowest_call(traced(call(1, 0, 50), call(2, 100, 600)))
    assert found is not None
    assert (found.took_s, found.timeout_s) == pytest.approx((0.5, 2))
    # What took longer had a limit of its own, and so may what timed out.
    late = times_out(3, 300) | {"timeout_s": None}
    assert says(traced(call(1, 0, 500), late)) == f"took 500 ms of 2 s (25 %): {NAME}"
    assert says(traced(call(1, 0, 500), call(2, 0, 3000))) == f"took 500 ms of 2 s (25 %): {NAME}"
    assert says(traced(call(1, 0, 50), limit_s=None)) == ""
    assert says(traced(call(1, 0, 50), limit_s=0.0)) == ""
    assert says(traced()) == ""
