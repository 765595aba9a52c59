"""Changes of programs: forecasts of traces with known parts, and what is left alone."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.trace.forecast.test_forecasts import changed
from tests.trace.synthetic import Part, call, ns, ranks, simulate, trace
from tuner.trace.forecast.change import DRIVER, Change
from tuner.trace.forecast.changes import changed as apply
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.program import COMPUTE_WITH_GIL
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
        each.kind for each in model.changeable.candidates()
        if not model.forecast(WhatIf(changes=[each])).why_not
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
    assert found.ratio == pytest.approx((10.2 + 20 * 0.3) / 210, rel=0.1)
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


def with_tensors(number: int = 4000, calls: int = 20, **columns: Any) -> Trace:
    """Answers that take 3 ms to pickle, 4 to arrive and 2 to unpickle; requests take 0.2."""
    rows = [
        call(each, at, at + 10, served_ms=(at + 0.2, at + 1.2), run_queue_ms=0,
             kind="rpc_sync", answered_ns=ns(at + 4.2), received_ns=ns(at + 8), request_bytes=100,
             request_tensors=0,
             **{"cpu_ms": 1, "answer_tensors": number, "answer_bytes": 4 * number} | columns)
        for each in range(calls) for at in [10.0 * each]
    ]  # fmt: skip
    return trace(rows, window_ms=(0, 10 * calls), processes=ranks(host="here"))


@pytest.mark.parametrize(
    ("taken", "ratio"),
    [
        (with_tensors(), (0.2 + 0.2) / 10),  # made as one tensor, the function takes no time
        (with_tensors(110), (0.2 + 1 + 0.11 + 0.2) / 10),  # it does more than to make them
        (with_tensors(cpu_ms=0), (0.2 + 1 + 0.2) / 10),  # it waits, whatever it answers with
        (with_tensors(answer_bytes=2_000_000), (0.2 + 2 + 0.2) / 10),
        (with_tensors(answer_bytes=None), (0.2 + 3.8) / 10),
    ],
    ids=["small", "computed", "waited", "large", "of unknown size"],
)
def test_an_answer_of_one_tensor_takes_no_time_for_their_number(taken: Trace, ratio: float) -> None:
    found = forecast(taken, Change(kind="tensors", function="udf"))
    assert found.ratio == pytest.approx(ratio, rel=0.05)
    assert found.ratio_low < ratio < found.ratio_high
    assert found.condition == "if the tensors can be made as one"
    candidates = [each for each in candidates_of(taken) if each.kind == "tensors"]
    assert candidates == [Change(kind="tensors", function="udf", number=candidates[0].number)]


def test_a_request_of_one_tensor_takes_no_time_for_their_number() -> None:
    rows = [
        call(each, at, at + 10, served_ms=(at + 9, at + 9.8), cpu_ms=0, run_queue_ms=0,
             kind="rpc_sync", issued_ns=ns(at + 3), arrived_ns=ns(at + 7),
             unpickled_ns=ns(at + 9), request_tensors=1000, request_bytes=40_000, site="main.py:7")
        for each in range(20) for at in [10.0 * each]
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, 200), processes=ranks(host="here"))
    found = forecast(taken, Change(kind="tensors"))
    assert found.ratio == pytest.approx((0.1 + 0.24 + 0.8 + 0.2) / 10, rel=0.1)
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "tensors")
    assert candidate == Change(kind="tensors", function="udf", site="main.py:7", number=1000)


def test_few_tensors_stay_as_they_are() -> None:
    taken = with_tensors(99)
    assert forecast(taken, Change(kind="tensors")).why_not
    assert "tensors" not in kinds(taken)


def candidates_of(taken: Trace) -> list[Change]:
    model = Model.of(taken)
    assert isinstance(model, Model), model
    return model.changeable.candidates()


def pushed(same: bool = True, first: int | None = None, **columns: Any) -> Trace:
    """The same large argument for three servers in each step, which takes 8 ms to pickle."""
    rows = []
    for number in range(30):
        at, server = 10.0 * number, number % 3 + 1
        of_step = number - number % 3 if first is None else first
        own = {"issued_ns": ns(at + 8), "request_bytes": 1_000_000, "request_tensors": 0,
               "server_rank": server,
               "same_as": of_step if same and number != of_step else None}  # fmt: skip
        rows.append(call(number, at, at + 10, served_ms=(at + 9, at + 9.5), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_sync", site="main.py:9",
                         **own | columns))  # fmt: skip
    return trace(rows, window_ms=(0, 300), processes=ranks(4, host="here"))


def test_one_argument_for_several_servers_is_pickled_once() -> None:
    taken = pushed()
    found = forecast(taken, Change(kind="pickle-once"))
    assert found.ratio == pytest.approx((30 - 2 * (8 - 1.1)) / 30, rel=0.02)
    assert found.ratio_high > (30 - 8) / 30  # a copy may cost more than it seems
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "pickle-once")
    assert candidate == Change(kind="pickle-once", function="udf", site="main.py:9", number=3)


@pytest.mark.parametrize("first", [0, -5], ids=["of the first step", "before this part"])
def test_an_argument_that_stays_in_all_steps_has_as_many_receivers(first: int) -> None:
    (candidate,) = (each for each in candidates_of(pushed(first=first))
                    if each.kind == "pickle-once")  # fmt: skip
    assert candidate.number == 3


@pytest.mark.parametrize(
    "taken",
    [pushed(same=False), pushed(request_bytes=1000), pushed(server_rank=1)],
    ids=["others", "small", "for one server"],
)
def test_other_arguments_are_pickled_for_each(taken: Trace) -> None:
    assert forecast(taken, Change(kind="pickle-once")).why_not
    assert "pickle-once" not in kinds(taken)


def fetched(times: int = 5, values: int = 8, overlap: float = 0.0) -> Trace:
    """Values that are fetched one after another, each several times, for 2 ms each time."""
    rows, at, number = [], 0.0, 0
    for _ in range(values):
        made = number
        rows.append(call(made, at, at + 3, served_ms=(at + 0.1, at + 2.9), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_remote", function="make", same_as=None,
                         site="main.py:4"))  # fmt: skip
        at += 3.1
        for each in range(times):
            number += 1
            thread = 1 + each if overlap else 1
            rows.append(call(number, at, at + 2 + overlap, kind="to_here", body="fetch",
                             function="", same_as=made, site="main.py:5",
                             client_thread=thread))  # fmt: skip
            at += 2.1
        number += 1
    return trace(rows, window_ms=(0, at), processes=ranks(threads=16))


def test_a_value_is_fetched_once() -> None:
    taken = fetched()
    found = forecast(taken, Change(kind="fetch-once"))
    assert found.ratio == pytest.approx((3 + 2.1 + 4 * 0.1) / (3 + 5 * 2.1), rel=0.05)
    assert found.condition == "if the value does not change meanwhile"
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "fetch-once")
    assert candidate == Change(kind="fetch-once", site="main.py:5", number=5)
    assert forecast(fetched(times=1, values=20), Change(kind="fetch-once")).why_not


def sampled(between_ms: float = 8, steps: int = 20, others: bool = False, **columns: Any) -> Trace:
    """A call of 10 ms, then work, then perhaps a call of another function, and so on."""
    rows, at, number = [], 0.0, 0
    for _ in range(steps):
        own: dict[str, Any] = {"kind": "rpc_sync", "cpu_ms": 0, "run_queue_ms": 0,
                               "request_bytes": 100} | columns  # fmt: skip
        rows.append(call(number, at, at + 10, served_ms=(at + 0.1, at + 9.9), function="sample",
                         site="main.py:3", **own))  # fmt: skip
        at, number = at + 10 + between_ms, number + 1
        if others:
            rows.append(call(number, at, at + 1, served_ms=(at + 0.1, at + 0.9), cpu_ms=0,
                             run_queue_ms=0, kind="rpc_sync", function="update",
                             request_bytes=1 << 20, site="main.py:4"))  # fmt: skip
            at, number = at + 1.1, number + 1
    return trace(rows, window_ms=(0, at), processes=ranks(threads=16))


@pytest.mark.parametrize(
    ("taken", "ratio"),
    [
        (sampled(), 10 / 18),
        (sampled(between_ms=30), 30 / 40),
        (sampled(others=True), 10 / 19.1),
        (sampled(kind="rpc_async"), 10 / 18),
    ],
    ids=["the call lasts longer", "the work lasts longer", "beside another call", "waited for"],
)
def test_the_call_of_the_next_step_is_issued_before_the_work_of_this_one(
    taken: Trace, ratio: float
) -> None:
    found = forecast(taken, Change(kind="ahead", function="sample"))
    assert found.ratio == pytest.approx(ratio, rel=0.1)
    assert found.condition == "if the arguments do not depend on that work"
    # A large request may hold what the work has made.
    candidates = [each for each in candidates_of(taken) if each.kind == "ahead"]
    assert candidates == [Change(kind="ahead", function="sample", site="main.py:3")]


def test_work_that_computes_may_hinder_the_calls_that_are_issued_before_it() -> None:
    taken = sampled()
    asleep = forecast(taken, Change(kind="ahead"))
    busy = ranks(threads=16, cpu_count=2, cpu_s=0.17, main_cpu_s=0.15, pid=1)
    computes = forecast(replace(taken, ranks=busy), Change(kind="ahead"))
    assert computes.ratio == pytest.approx(asleep.ratio, rel=0.1)
    assert computes.ratio_high > 1.2 * asleep.ratio_high


@pytest.mark.parametrize(
    "taken",
    [one_after_another(), in_steps(), sampled(steps=4), in_steps(**FETCH), sampled(between_ms=0.5)],
    ids=["no work", "work after several", "few", "values made before", "little work"],
)
def test_calls_with_no_work_between_are_not_issued_ahead(taken: Trace) -> None:
    assert "ahead" not in kinds(taken)


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
