"""Callbacks of futures in what a trace tells: two recorded programs, and rows written by hand.

`callback_work.json`: 40 quick calls; each result is post-processed for 20 ms in `post`, a callback
on one of two worker threads of the client. `callback_calls.json`: three rounds of four calls of
`first`; a callback, `chain`, waits for a call of `second` each time.
"""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from testing.golden_files import CALLBACK_CALLS, CALLBACK_WORK
from testing.synthetic import call, ranks, trace
from tuner.present.analysis import Analysis
from tuner.trace.analyze.call_times import breakdown, latency
from tuner.trace.analyze.callbacks import are_callbacks, with_callbacks
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.headroom import least_threads
from tuner.trace.analyze.server_parallelism import parallelism
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import WhatIf, forecasts
from tuner.trace.model.trace import Trace, make_callbacks

MS = 1_000_000


@pytest.fixture(scope="module")
def work() -> Trace:
    return read_trace(CALLBACK_WORK)


@pytest.fixture(scope="module")
def chained() -> Trace:
    return read_trace(CALLBACK_CALLS)


def test_a_trace_without_callbacks_stays_as_it_is() -> None:
    plain = trace([call(1, 0, 10, served_ms=(2, 8))])
    assert with_callbacks(plain) is plain


def callback(start_ms: float, end_ms: float | None, **columns: Any) -> dict[str, Any]:
    return {
        "rank": 0, "thread": 21, "function": "post", "call_id": 1, "holds_thread": True,
        "start_ns": int(start_ms * MS), "end_ns": None if end_ms is None else int(end_ms * MS),
        "cpu_ns": 0, "run_queue_ns": 0, **columns,
    }  # fmt: skip


def called_back(plain: Trace, *rows: dict[str, Any]) -> Trace:
    columns: dict[str, object] = {name: [row[name] for row in rows] for name in rows[0]}
    return replace(plain, callbacks=make_callbacks(columns))


def test_each_follows_what_its_thread_did_for_the_call_before() -> None:
    calls = [
        call(1, 0, 10, served_ms=(2, 8)), call(2, 12, 20, served_ms=(13, 19), client_thread=21),
        call(3, 31, 39, served_ms=(32, 38), client_thread=21),
    ]  # fmt: skip
    taken = called_back(
        trace(calls), callback(10, 30), callback(30.1, None, function="then"),
        callback(40, 50, thread=22, call_id=99), callback(5, 6, thread=1, holds_thread=False),
    )  # fmt: skip
    seen = with_callbacks(taken).calls
    post, then, other = (row for _, row in seen[are_callbacks(seen)].iterrows())
    assert (post["function"], then["function"]) == ("callback post", "callback then")
    # From when the answer left the server.
    assert (post["start_ns"], post["server_start_ns"], post["follows"]) == (8 * MS, 10 * MS, 1)
    assert (then["start_ns"], then["follows"]) == (30 * MS, post["call_id"])
    assert then["status"] == "unfinished"
    # Of a call that the trace does not have.
    assert (other["start_ns"], pd.isna(other["follows"])) == (40 * MS, True)
    made_in = seen.set_index("call_id")["parent_call"]
    assert (made_in[2], made_in[3]) == (post["call_id"], then["call_id"])
    assert with_callbacks(with_callbacks(taken)).calls.equals(seen)


def test_a_call_that_a_callback_returns_without_waiting_is_waited_for_after_it() -> None:
    calls = [
        call(1, 0, 10, served_ms=(1, 9)),
        call(2, 11, 21, served_ms=(12, 20), client_thread=21, function="more"),
        call(3, 22, 30, served_ms=(23, 29)),
    ]
    taken = called_back(trace(calls, window_ms=(0, 30)), callback(10, 12))
    path = critical_path(taken).set_index(["part", "function"])["share"]
    assert path["served", "udf"] == pytest.approx(14 / 30, abs=0.01)
    assert path["served", "more"] == pytest.approx(8 / 30, abs=0.01)
    assert path["off_cpu", "callback post"] == pytest.approx(1 / 30, abs=0.01)
    assert path["caller", ""] == pytest.approx(1 / 30, abs=0.01)


def test_the_answer_of_a_call_waits_for_the_callbacks_of_others() -> None:
    """The only thread of the client is in a callback: the next answer comes 20 ms later."""
    calls = [
        *(call(10 + i, 100 * i, 100 * i + 3, served_ms=(100 * i + 1, 100 * i + 2), function="g")
          for i in range(2)),
        *(call(20 + i, 100 * i, 100 * i + 24, served_ms=(100 * i + 1, 100 * i + 3))
          for i in range(2)),
        call(30, 250, 254, served_ms=(251, 253)),
    ]  # fmt: skip
    after = [callback(100 * i + 3, 100 * i + 23, call_id=10 + i) for i in range(2)]
    processes = ranks(threads=1)
    taken = called_back(trace(calls, window_ms=(0, 254), processes=processes), *after)
    path = critical_path(taken).set_index(["part", "process", "function"])["share"]
    assert path["answer_queue", "worker0", "udf"] * 254 == pytest.approx(40, abs=4)


def test_a_long_chain_of_callbacks_that_call_is_followed_to_its_begin() -> None:
    """Each callback makes the next call, and waits for none; the main thread waits for all."""
    number = 300
    calls = [
        call(1 + i, 10 * i + 0.5 * bool(i), 10 * i + 9, served_ms=(10 * i + 1, 10 * i + 8),
             cpu_ms=0, run_queue_ms=0, client_thread=21 if i else 1)
        for i in range(number)
    ]  # fmt: skip
    after = [callback(10 * i + 9, 10 * i + 10.6, call_id=1 + i) for i in range(number - 1)]
    calls.append(call(9999, 10 * number, 10 * number + 1, cpu_ms=0, run_queue_ms=0,
                      served_ms=(10 * number + 0.4, 10 * number + 0.6)))  # fmt: skip
    facts: dict[str, Any] = {"cpu_count": 4, "cpu_s": 1.0, "main_cpu_s": 0.1}
    processes = ranks(threads=4, **facts)
    taken = called_back(trace(calls, window_ms=(0, 10 * number + 1), processes=processes), *after)
    path = critical_path(taken).groupby("part")["share"].sum()
    assert path["off_cpu"] > 0.75
    assert "unseen" not in path
    assert path["caller"] < 0.01
    (found,) = forecasts(taken, [WhatIf(threads={"*": 1})])
    assert found.ratio_low <= 1.0 <= found.ratio_high


def test_the_threads_of_the_client_are_the_limit(work: Trace) -> None:
    found = diagnose(work)
    (limit,) = found.limits
    assert (limit.kind, limit.processes) == ("queue", ("client",))
    assert limit.share.share > 0.8
    assert found.text.startswith("client is the limit: ")
    assert "callback post queued for a thread of client" in found.text
    assert "client ran its callbacks in parallel (parallelism 1." in found.text
    assert "more threads help" in found.text
    assert "Communication" not in found.text


def test_the_tables_have_them(work: Trace) -> None:
    whole = with_callbacks(work).calls
    row = breakdown(whole).loc["callback post (client)"]
    assert row["calls"] == 40
    assert row["served_us"] == pytest.approx(20_100, rel=0.05)
    assert row["queue_us"] > 100_000
    assert latency(whole)["calls"].sum() == 80
    assert latency(work.calls)["calls"].sum() == 40
    client = parallelism(work).set_index("server").loc["client"]
    assert (client["max"], client["calls"]) == (2, 0)
    assert client["mean_while_busy"] > 1.8
    path = critical_path(work).set_index(["part", "process", "function"])["share"]
    assert path["queue", "client", "callback post"] > 0.8
    assert path.sum() == pytest.approx(1)
    analysis = Analysis.of(work)
    assert analysis.to_json()["callback_count"] == 40


@pytest.mark.parametrize(
    ("role", "threads", "measured"),
    # By the clock, over 0.417 s with 2 threads of the client.
    [("client", 1, 1.97), ("client", 4, 0.52), ("client", 8, 0.27), ("client", 16, 0.168),
     ("server", 1, 0.99), ("server", 4, 1.0)],
)  # fmt: skip
def test_a_forecast_has_callbacks_hold_threads(
    work: Trace, role: str, threads: int, measured: float
) -> None:
    (found,) = forecasts(work, [WhatIf(threads={role: threads})])
    assert found.ratio_low <= measured <= found.ratio_high


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_deadlock_in_callbacks_is_foretold(chained: Trace, threads: int) -> None:
    """Each of four waits for an answer that a fifth thread of the client has to take."""
    (found,) = forecasts(chained, [WhatIf(threads={"client": threads})])
    assert "for which no thread of client is free" in found.deadlock


def test_with_a_thread_more_than_callbacks_there_is_no_deadlock(chained: Trace) -> None:
    five, one = forecasts(chained, [WhatIf(threads={"client": 5}), WhatIf(threads={"server": 1})])
    assert five.ratio_low <= 1.0 <= five.ratio_high
    assert one.ratio > 3


def test_the_least_threads_count_callbacks_that_wait(chained: Trace) -> None:
    client = next(thread for thread in least_threads(chained) if thread.role == "client")
    assert (client.waiting, client.at_least, client.inside) == (4, 5, "callbacks")
    assert client.text.startswith("client ran callbacks (chain) that were off the CPU")
    assert client.text.endswith("Fewer than 5 threads may deadlock.")


def test_a_deadlock_in_callbacks_is_one_in_the_trace_of_it() -> None:
    processes = {0: 1}
    calls = [call(1, 0, 10, served_ms=(2, 8)), call(2, 12, None, client_thread=21)]
    taken = called_back(trace(calls), callback(11, None))
    ranks = tuple(
        replace(rank, num_worker_threads=processes.get(rank.rank, 4)) for rank in taken.ranks
    )
    found = next(e for e in least_threads(replace(taken, ranks=ranks)) if e.waiting)
    assert found.is_deadlock
    assert "had 1 call waiting inside callbacks at once, with 1 thread: that is a" in found.text
