"""What another switch interval does, by planted waits for a GIL and programs written by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import call as row
from testing.synthetic import ns, ranks, trace
from tests.trace.forecast.test_replay import MS, call
from tuner.trace.forecast.change import Change
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.program import AWAIT, COMPUTE_WITH_GIL, ISSUE, Program, Root
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.model.spans import GilWait
from tuner.trace.model.trace import Trace

CALLS, STEP_MS = 60, 12.0
MAIN = 77


def beside_a_computing_thread(
    *, there_ms: tuple[float, ...] = (5.4,), off_ms: float = 0.0, slices: int = 0,
    computes: float = 0.95, waited_ms: float = 5.1, held: bool = True,
    interval_s: float | None = 0.005, **facts: Any,
) -> Trace:  # fmt: skip
    """Calls of 12 ms one after another to worker1, whose other threads are on the CPU for such a
    share: 0.3 ms each way are no wait, and so long the call takes to begin in turn."""
    rows, at = [], 0.0
    for number in range(CALLS):
        begun = at + there_ms[number % len(there_ms)]
        left = begun + 0.1 + off_ms
        spent: dict[str, Any] = {"cpu_ms": 0.1, "run_queue_ms": 0, "slices": slices}
        rows.append(row(number, at, left + 0.3, served_ms=(begun, left), kind="rpc_sync",
                        client_thread=MAIN, **spent))  # fmt: skip
        at = left + 0.4
    samples = tuple(
        GilWait(ns(10 * each + 1), ns(waited_ms) if held else 0, ns(10))
        for each in range(int(at / 10))
    )
    caller, server = ranks(switch_interval_s=interval_s, host="a", cpu_count=8)
    caller = replace(caller, pid=MAIN, main_cpu_s=0.01, gil=(GilWait(0, 0, ns(10)),) * 20)
    server = replace(server, gil=samples, main_cpu_s=computes * at / 1e3, others_cpu_s=0.0)
    return trace(rows, processes=(caller, server), window_ms=(0, at), **facts)


def with_interval(taken: Trace, interval_s: float, role: str = "*", **others: Any) -> Forecast:
    model = Model.of(taken, [("caller", "worker0"), ("server", "worker1")])
    assert isinstance(model, Model), model
    return model.forecast(WhatIf(intervals_s={role: interval_s}, **others))


@pytest.mark.parametrize("interval_ms", [1.0, 0.2, 20.0])
def test_a_wait_for_the_gil_takes_as_long_as_the_interval(interval_ms: float) -> None:
    found = with_interval(beside_a_computing_thread(), interval_ms / 1e3)
    was_ms = 5.4 + 0.1 + 0.3 + 0.1
    switch_ms = 0.06 * (interval_ms < 5)
    expected = (was_ms - 5 + interval_ms + switch_ms) / was_ms
    assert found.ratio == pytest.approx(expected, rel=0.02), found.why_not
    assert found.ratio_low < expected < found.ratio_high
    assert (found.ratio_high < 1) == (interval_ms < 5)


def test_several_waits_of_a_way_all_change() -> None:
    found = with_interval(beside_a_computing_thread(there_ms=(15.4,)), 0.001)
    assert found.ratio == pytest.approx((15.9 - 15 + 3 * 1.06) / 15.9, rel=0.02)


def test_a_function_that_lets_go_of_the_gil_waits_inside_and_one_that_sleeps_does_not() -> None:
    """A thread is woken twice in a wait for the GIL, and once in a sleep."""
    waits, sleeps = (
        with_interval(beside_a_computing_thread(off_ms=20.0, slices=n), 0.001) for n in (8, 1)
    )
    assert waits.ratio == pytest.approx((25.9 - 25 + 5 * 1.06) / 25.9, rel=0.05)
    assert sleeps.ratio == pytest.approx((25.9 - 5 + 1.06) / 25.9, rel=0.02)


def test_without_waits_no_interval_changes_anything() -> None:
    calm = beside_a_computing_thread(there_ms=(0.3,), computes=0.0, held=False)
    for interval_s in (0.0002, 0.001, 0.02):
        assert with_interval(calm, interval_s).ratio == pytest.approx(1.0, abs=0.01)


def test_waits_that_do_not_end_with_an_interval_are_no_wait_that_is_known() -> None:
    """What holds the GIL may be code that lets go of it by itself, or never when it is asked."""
    ways = tuple(5.2 + 0.37 * n for n in range(12))
    found = with_interval(beside_a_computing_thread(there_ms=ways, waited_ms=2.0), 0.0002)
    assert "wait for a GIL" in found.why_not
    assert math.isnan(found.ratio)


def test_a_gil_that_is_given_up_before_the_interval_may_gain_and_may_not() -> None:
    ways = tuple(0.3 + 0.07 * n for n in range(10))
    found = with_interval(beside_a_computing_thread(there_ms=ways, waited_ms=0.8), 0.0001)
    assert found.ratio_low < 0.9 < 1 < found.ratio_high


def test_the_interval_of_another_role_changes_nothing() -> None:
    taken = beside_a_computing_thread()
    assert with_interval(taken, 0.001, "caller").ratio == pytest.approx(1.0, abs=0.01)
    assert with_interval(taken, 0.001, "server") == with_interval(taken, 0.001)
    assert with_interval(taken, 0.005).ratio == 1.0


def test_a_trace_that_does_not_tell_the_interval_is_no_ground_for_another() -> None:
    found = with_interval(beside_a_computing_thread(interval_s=None), 0.001)
    assert found.why_not == "the trace does not tell the switch interval of worker0 and worker1"


def test_the_traced_interval_is_the_one_that_waits_are_measured_by() -> None:
    found = with_interval(
        beside_a_computing_thread(there_ms=(1.4,), waited_ms=1.1, interval_s=0.001), 0.005
    )
    assert found.ratio == pytest.approx((1.9 + 4) / 1.9, rel=0.02)


def test_an_interval_and_a_change_are_forecast_one_after_the_other() -> None:
    taken = beside_a_computing_thread(off_ms=10.0, slices=1)
    change = Change(kind="faster", function="udf", number=2.0)
    both = with_interval(taken, 0.001, changes=[change])
    assert both.ratio == pytest.approx((15.9 - 5 + 1.06 - 5) / 15.9, rel=0.05)
    threads = with_interval(taken, 0.001, threads={"*": 2})
    assert threads.ratio == pytest.approx(with_interval(taken, 0.001).ratio, rel=0.01)


def test_calls_that_hold_the_gil_themselves_take_turns_of_the_interval() -> None:
    long, short = (call((COMPUTE_WITH_GIL, ms * MS)) for ms in (40, 1))
    program = Program(
        ["a", "b"], [0, 0], [long, short],
        [Root(0, 0.0, [(ISSUE, 0), (ISSUE, 1), (AWAIT, 1)], is_driver=True)],
    )  # fmt: skip
    for interval_ms in (2, 5, 10):
        machine = Machine([16, 16], [8.0], [0.0], [5 * MS, interval_ms * MS])
        assert replay(program, machine).took_ns == pytest.approx((interval_ms + 1) * MS)
