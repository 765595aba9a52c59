import math
from typing import Any

import pytest

from testing.synthetic import call, ns, trace
from tuner.trace.analyze.call_times import (
    breakdown,
    call_times,
    latency,
    main_sites,
    rpc_cpu_total_ms,
    rpc_p99_ms,
)
from tuner.trace.analyze.server_evidence import gather

UDF = "rpc_async#udf(worker0 -> worker1)"


def test_percentiles_and_sums_of_each_name() -> None:
    calls = [call(i, 0, i) for i in range(1, 101)]
    calls += [call(101, 0, 7, function="other", status="raised")]
    calls += [call(102, 0, None, status="timed-out"), call(103, 0, 9, status="timed-out")]
    table = latency(trace(calls).calls)
    assert table.index.tolist() == [UDF, UDF.replace("udf", "other")]
    udf, other = table.to_dict("records")
    assert udf == {
        "calls": 101, "p50_us": 50_000, "p90_us": 90_000, "p99_us": 99_000, "max_us": 100_000,
        "total_us": 5_059_000, "failed": 1, "raised": 0, "timed_out": 1, "unfinished": 1,
    }  # fmt: skip
    counts = {"calls": 1, "failed": 1, "raised": 1, "timed_out": 0, "unfinished": 0}
    assert counts.items() <= other.items()


def test_the_site_of_a_name_is_the_one_whose_calls_took_the_most_time() -> None:
    calls = [call(i, 0, 1, site="main.py:4") for i in range(3)]
    calls += [call(3, 0, 5, site="main.py:9"), call(4, 0, 99, site="")]
    calls += [call(5, 0, 1, function="other", site=""), call(6, 0, None, site="main.py:4")]
    assert main_sites(trace(calls).calls).to_dict() == {UDF: "main.py:9"}
    assert main_sites(trace([call(1, 0, 1)]).calls).to_dict() == {}
    assert main_sites(trace().calls).to_dict() == {}


def test_a_one_way_time_below_the_clock_error_is_not_shown() -> None:
    rows = [call(1, 0, 10, served_ms=(2, 7)), call(2, 0, 10, served_ms=(4, 8), done_ns=ns(9))]
    calls = trace(rows).calls
    ways = call_times(calls)[["to_server_us", "to_client_us"]]
    assert ways.to_numpy().tolist() == [[2_000, 3_000], [4_000, 1_000]]
    times = call_times(calls, clock_error_ns=ns(2.5))
    assert times["to_server_us"].isna().tolist() == [True, False]
    assert times["to_client_us"].isna().tolist() == [False, True]
    assert times["wire_us"].tolist() == [5_000, 5_000]
    assert times["queue_us"].tolist() == [0, 2_000]


@pytest.mark.parametrize("offset_ms", [0, -50])
def test_the_queue_does_not_depend_on_the_clocks_offset(offset_ms: float) -> None:
    rows = [
        call(i, start, start + 5, served_ms=(began + offset_ms, began + 1 + offset_ms))
        for i, (start, began) in enumerate([(0.1, 1.0), (0.1, 1.3), (0.2, 2.0)])
    ]
    assert call_times(trace(rows).calls)["queue_us"].tolist() == pytest.approx([0, 300, 900])


def test_unknown_times_are_null() -> None:
    rows = [
        call(1, 0, None),
        call(2, 0, 5),
        call(3, 0, 5, served_ms=(1, 4), body="builtin", link="inferred"),
        call(4, 0, 3, served_ms=(1, 9), status="timed-out"),
    ]
    times = call_times(trace(rows).calls)
    assert times.loc[0].isna().all()
    assert times.loc[[1]].dropna(axis="columns").columns.tolist() == ["latency_us"]
    assert times.loc[2, ["on_cpu_us", "run_queue_us", "off_cpu_us"]].isna().all()
    assert times["wire_us"].dropna().tolist() == [2_000]


def test_clock_readings_beyond_the_wall_time_are_cut() -> None:
    rows = [
        call(1, 0, 9, served_ms=(1, 5), cpu_ms=5, run_queue_ms=1),
        call(2, 0, 9, served_ms=(1, 5), cpu_ms=3, run_queue_ms=2),
    ]
    times = call_times(trace(rows).calls)
    assert times[["on_cpu_us", "run_queue_us", "off_cpu_us"]].to_numpy().tolist() == [
        [4_000, 0, 0],
        [3_000, 1_000, 0],
    ]


@pytest.mark.parametrize("offset_ms", [0, -300, 300])
@pytest.mark.parametrize("status", ["timed-out", "raised"])
def test_what_a_server_does_after_its_client_gave_up_is_no_part_of_the_latency(
    status: str, offset_ms: float
) -> None:
    """One thread, calls of 100 ms with a time limit of 450: as many programs poll a slow server."""
    served = [(1 + 100 * i + offset_ms, 101 + 100 * i + offset_ms) for i in range(24)]
    rows = [
        call(i, 0, min(102 + 100 * i, 450 + i / 100), served_ms=each, cpu_ms=90, run_queue_ms=1,
             status="ok" if i < 4 else status)
        for i, each in enumerate(served)
    ]  # fmt: skip
    # What its server has begun and never ends, what it never begins, and an asynchronous one.
    rows += [
        call(24, 0, 450, served_ms=(440 + offset_ms, None), status=status),
        call(25, 0, 450, status=status),
        call(26, 0, 450, served_ms=(1 + offset_ms, 2 + offset_ms), done_ns=ns(900 + offset_ms),
             status=status),
    ]  # fmt: skip
    whole = trace(rows, window_ms=(0, 2500))
    means = gather(whole, 1).means
    parts = [means.transport_us, means.queue_us, means.served_us, means.pending_us]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(means.latency_us)
    assert 0 <= means.queue_share <= 1
    table = breakdown(whole.calls)
    assert (table.drop(columns="calls").stack() >= 0).all()
    only_late = breakdown(trace([row for row in rows if row["status"] != "ok"]).calls)
    assert not only_late.empty
    assert (only_late[["transport_us", "queue_us", "served_us", "pending_us"]].stack() >= 0).all()
    assert (only_late["queue_us"] <= only_late["latency_us"]).all()
    if not offset_ms:
        # The first four are answered; the fifth is served for 49 of its 450 ms; the others wait.
        assert means.queue_share == pytest.approx(0.911, abs=0.001)


OUTERMOST = [call(1, 0, 10), call(2, 5, 9, parent_call=1), call(3, 20, 26), call(4, 27, None),
             call(5, 40, 44)]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "facts", "total_ms", "p99_ms"),
    [
        (OUTERMOST, {"steps": 4}, 5.0, 9.92),
        # Calls that began outside of the window are left out.
        (OUTERMOST, {"steps": 2, "window_ms": (0, 30)}, 8.0, 9.96),
        (OUTERMOST, {}, math.nan, 9.92),
        ([], {"steps": 3}, 0.0, math.nan),
    ],
)
def test_the_rpc_cpu_total_is_of_the_outermost_calls_per_step(
    calls: list[dict[str, Any]], facts: dict[str, Any], total_ms: float, p99_ms: float
) -> None:
    taken = trace(calls, **facts)
    assert rpc_cpu_total_ms(taken) == pytest.approx(total_ms, nan_ok=True)
    assert rpc_p99_ms(taken) == pytest.approx(p99_ms, nan_ok=True)
