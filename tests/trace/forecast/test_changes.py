"""Changes of programs: forecasts of traces with known parts, and what is left alone."""

import math
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import Part, call, ranks, simulate, trace
from tests.trace.forecast.test_forecasts import changed
from tuner.trace.forecast.change import DRIVER, Change
from tuner.trace.forecast.changes import changed as apply
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.program import COMPUTE_WITH_GIL
from tuner.trace.forecast.ranked import rows_of
from tuner.trace.model.trace import Trace

SLEEP, LOCK, GIL = (Part(kind, 10) for kind in ("sleep", "lock", "gil"))


def one_after_another(*parts: Part, calls: int = 40, **facts: Any) -> Trace:
    """A caller that waits for each call before it makes the next."""
    taken = simulate(parts or (SLEEP,), at_once=1, steps=calls, **({"threads": 16} | facts))
    return changed(taken, kind="rpc_sync", request_bytes=100)


def forecast(taken: Trace, *changes: Change, threads: int | None = None) -> Forecast:
    model = Model.of(taken)
    assert isinstance(model, Model), model
    of_all = None if threads is None else {"*": threads}
    return model.forecast(WhatIf(threads=of_all, changes=changes))


def test_calls_together_take_as_long_as_the_threads_need() -> None:
    taken = one_after_another()
    found = forecast(taken, Change(kind="together"))
    assert found.ratio == pytest.approx(3 / 40, rel=0.1)  # 16, 16 and 8
    assert found.ratio_low < 3 / 40 < found.ratio_high
    # Calls that were never under way at once do not show whether they would wait for a lock.
    lock = " and no lock of their server"
    assert found.condition == f"if they do not need each other's results{lock}"
    computes = forecast(one_after_another(Part("operator", 10)), Change(kind="together"))
    assert computes.condition == "if they do not need each other's results"
    on_four = forecast(taken, Change(kind="together"), threads=4)
    assert on_four.ratio == pytest.approx(10 / 40, rel=0.1)


def in_steps(calls: int = 8, steps: int = 10, between_ms: float = 20, **columns: Any) -> Trace:
    """Calls of 10 ms one after another, and what the caller does after each step."""
    rows, at = [], 0.0
    for number in range(calls * steps):
        own: dict[str, Any] = {"kind": "rpc_sync", "cpu_ms": 0, "run_queue_ms": 0} | columns
        rows.append(call(number, at, at + 10.2, served_ms=(at + 0.1, at + 10.1), **own))
        at += 10.21 + between_ms * ((number + 1) % calls == 0)
    return trace(rows, window_ms=(0, at), processes=ranks(threads=16))


def test_only_the_calls_of_a_step_are_issued_together() -> None:
    taken = in_steps()
    model = Model.of(taken)
    assert isinstance(model, Model)
    (together, *_) = model.changeable.candidates()
    assert (together.kind, together.function, together.number) == ("together", "udf", 8)
    found = model.forecast(WhatIf(changes=[together]))
    assert found.ratio == pytest.approx((10.2 + 20) / (81.7 + 20), rel=0.1)


def kinds(taken: Trace) -> list[str]:
    model = Model.of(taken)
    assert isinstance(model, Model), model
    return [
        candidate.kind for candidate in model.changeable.candidates()
        if not model.forecast(WhatIf(changes=[candidate])).why_not
    ]  # fmt: skip


FETCH: dict[str, Any] = {"kind": "to_here", "body": "fetch", "function": "",
                         "server_start_ns": None, "server_end_ns": None}  # fmt: skip


@pytest.mark.parametrize(
    "taken",
    [
        in_steps(calls=1),
        in_steps(**FETCH),
        in_steps(kind="rpc_remote"),
        changed(simulate([SLEEP], threads=16, at_once=8), kind="rpc_async"),
        simulate([SLEEP], threads=16, at_once=1, think_ms=10, steps=40),
    ],
    ids=["work between all", "values made before", "not waited for", "at once", "as much work"],
)
def test_calls_that_may_need_earlier_results_or_are_together_stay(taken: Trace) -> None:
    assert not {"together", "one-call"} & {*kinds(taken)}


def test_each_value_is_fetched_when_all_are_being_made() -> None:
    rows = []
    for number in range(20):
        at = 10.5 * number
        rows.append(call(2 * number, at, at + 10.2, served_ms=(at + 0.1, at + 10.1), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_remote"))  # fmt: skip
        rows.append(call(2 * number + 1, at + 0.1, at + 10.4, kind="to_here", body="fetch",
                         function=""))  # fmt: skip
    taken = trace(rows, window_ms=(0, 210), processes=ranks(threads=32))
    found = forecast(taken, Change(kind="together"))
    # A fetch that follows another one finds all awake: half of what the first one takes.
    assert found.ratio == pytest.approx((10.2 + 20 * 0.15) / 210, rel=0.1)
    assert forecast(taken, Change(kind="one-call")).why_not


def test_a_served_function_may_issue_its_calls_together() -> None:
    rows = []
    for number in range(10):
        at = 50.0 * number
        rows.append(call(10 * number, at, at + 42, served_ms=(at + 0.5, at + 41.5), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_sync", function="outer"))  # fmt: skip
        for each in range(4):
            begun = at + 0.6 + 10.2 * each
            rows.append(call(10 * number + 1 + each, begun, begun + 10.2, cpu_ms=0, run_queue_ms=0,
                             served_ms=(begun + 0.1, begun + 10.1), kind="rpc_sync", client_rank=1,
                             server_rank=2, client_thread=11, parent_call=10 * number,
                             function="inner"))  # fmt: skip
    taken = trace(rows, window_ms=(0, 500), processes=ranks(3, threads=16))
    found = forecast(taken, Change(kind="together", function="inner"))
    assert found.ratio == pytest.approx((50 - 30.6) / 50, rel=0.1)


def test_one_call_keeps_the_bodies_and_saves_the_ways() -> None:
    taken = one_after_another(way_ms=5)
    found = forecast(taken, Change(kind="one-call"))
    assert found.ratio == pytest.approx((400 + 10) / 800, rel=0.05)


@pytest.mark.parametrize(
    "columns",
    [{"request_bytes": 1 << 20}, {"request_bytes": None},
     {"answered_ns": lambda calls: calls["server_end_ns"] + 60_000},
     {"done_ns": lambda calls: calls["server_end_ns"],
      "server_end_ns": lambda calls: calls["server_start_ns"] + 1_000_000}],
    ids=["large", "of unknown size", "with a large answer", "complete later"],
)  # fmt: skip
def test_calls_of_which_one_may_take_longer_are_not_joined(columns: dict[str, Any]) -> None:
    assert forecast(changed(one_after_another(), **columns), Change(kind="one-call")).why_not


def test_an_answer_that_is_long_on_its_way_stays_so_in_one_call() -> None:
    rows = [
        call(n, 20.0 * n, 20.0 * n + 19.9, served_ms=(20 * n + 1, 20 * n + 2), cpu_ms=1,
             run_queue_ms=0, kind="rpc_sync", request_bytes=100)
        for n in range(40)
    ]  # fmt: skip
    found = forecast(trace(rows, window_ms=(0, 800)), Change(kind="one-call"))
    assert found.ratio > 0.7


def test_what_calls_cost_on_the_cpu_is_no_latency() -> None:
    """Empty calls on two CPUs, which threads that poll leave half of."""
    busy = ranks(threads=16, cpu_count=2, main_cpu_s=0.002, cpu_s=0.05)
    taken = one_after_another(Part("cpu", 0.01), calls=400, way_ms=0.1, processes=busy)
    found = forecast(taken, Change(kind="together"))
    assert 0.3 < found.ratio < 0.7
    free = ranks(threads=16, cpu_count=2, main_cpu_s=0.002, cpu_s=0.006)
    assert forecast(replace(taken, ranks=free), Change(kind="together")).ratio < 0.3


def test_calls_that_need_no_lock_run_beside_each_other() -> None:
    in_turn = simulate([LOCK], threads=16, at_once=8)
    assert forecast(in_turn, Change(kind="no-lock")).ratio == pytest.approx(1 / 8, rel=0.1)
    asleep = simulate([SLEEP], threads=16, at_once=8)
    assert forecast(asleep, Change(kind="no-lock")).why_not


def test_a_function_or_the_driver_is_faster() -> None:
    taken = one_after_another()
    assert forecast(taken, Change(kind="faster", function="udf")).ratio == pytest.approx(
        5.2 / 10.2, rel=0.02
    )
    thinks = simulate([SLEEP], threads=16, at_once=1, think_ms=10, steps=40)
    half = forecast(thinks, Change(kind="faster", function=DRIVER))
    # The least that it does between calls may be what calls cost it.
    assert half.ratio_low < 15.2 / 20.2 < half.ratio_high


def test_no_gil_lets_calls_compute_beside_each_other() -> None:
    taken = simulate([GIL], threads=16, at_once=8, cpus=8, processes=ranks(threads=16, cpu_count=8))
    assert forecast(taken, Change(kind="gil")).ratio == pytest.approx(1 / 8, rel=0.2)
    asleep = forecast(one_after_another(), Change(kind="gil"))
    assert asleep.ratio == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(("threads", "ratio"), [(16, 1.0), (4, 2.0), (2, 4.0)])
def test_more_callers_share_the_threads(threads: int, ratio: float) -> None:
    taken = simulate([SLEEP], threads=threads, at_once=2)
    found = forecast(taken, Change(kind="callers", number=4))
    assert found.ratio == pytest.approx(ratio, rel=0.12)


def test_more_callers_poll_too() -> None:
    free, polls = (
        one_after_another(Part("cpu", 10), processes=ranks(
            threads=16, cpu_count=2, main_cpu_s=0, cpu_s=cpu_s
        ))
        for cpu_s in (0.2, 0.41)
    )  # fmt: skip
    change = Change(kind="callers", number=2)
    assert forecast(polls, change).ratio > 1.3 * forecast(free, change).ratio


def test_a_change_of_nothing_has_no_forecast() -> None:
    found = forecast(one_after_another(), Change(kind="together", function="other"))
    assert math.isnan(found.ratio)
    assert found.why_not == "the trace shows nothing in the program that it changes"


def test_a_function_called_driver_is_not_the_driver() -> None:
    taken = one_after_another()
    taken = replace(taken, calls=taken.calls.assign(function="driver"))
    taken = changed(taken)
    assert forecast(taken, Change(kind="faster", function="driver")).ratio < 0.6
    assert forecast(taken, Change(kind="faster", function=DRIVER)).ratio > 0.9


def test_without_a_gil_nothing_that_a_call_costs_waits_for_it() -> None:
    model = Model.of(simulate([Part("gil", 0.05)], threads=16, at_once=8, steps=10))
    assert isinstance(model, Model)
    case = model.changeable.cases[0]
    after = apply(case.of, Change(kind="gil"))
    assert after is not None
    program, _ = after
    for made in program.calls:
        ops = [*made.ops, *made.then, *made.receives, *made.arrives, *made.returns]
        assert COMPUTE_WITH_GIL not in [kind for kind, _ in ops]


def test_changes_for_which_there_is_no_time_are_counted() -> None:
    taken = in_steps(request_bytes=100)
    rows, left_out = rows_of(taken, Model.of(taken), most_s=math.inf)
    assert left_out == 0
    none, left_out = rows_of(taken, Model.of(taken), most_s=0.0)
    # There are some that have no forecast.
    assert not none
    assert left_out >= len(rows) > 0
