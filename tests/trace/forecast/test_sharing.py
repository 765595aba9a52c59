"""Changes of who calls, who serves, and what is served as one: forecasts with a known truth."""

import math
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import Part, call, ranks, simulate, trace
from tests.trace.forecast.test_changes import GIL, LOCK, SLEEP, forecast, one_after_another
from tuner.trace.forecast.change import Change, Changing
from tuner.trace.forecast.changed import BOTH_ENDS
from tuner.trace.forecast.forecasts import Model, WhatIf
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE,
    COMPUTE_WITH_GIL,
    DRAIN,
    ISSUE,
    Batch,
    Call,
    Program,
    Root,
)
from tuner.trace.forecast.program import SLEEP as SLEEPS
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.forecast.runs import Made
from tuner.trace.forecast.sharing import callers, callers_of
from tuner.trace.model.trace import Trace


def several(
    part: Part, callers: int = 4, calls: int = 20, threads: int = 16, **facts: Any
) -> Trace:
    """Processes that each wait for a call before they make the next; worker1 serves all."""
    taken = simulate([part], threads=threads, at_once=1, callers=callers, steps=calls, **facts)
    number = taken.calls["call_id"] // calls
    rows = taken.calls.assign(client_rank=number + (number > 0), kind="rpc_sync")
    return replace(taken, calls=rows, ranks=ranks(callers + 1, threads=threads, cpu_count=64))


def servers(number: int) -> Change:
    return Change(kind="servers", number=number)


def batch(number: int = 0, times: float = 0.0) -> Change:
    return Change(kind="batch", function="udf", number=number, times=times)


@pytest.mark.parametrize(("number", "ratio"), [(2, 1 / 2), (8, 1 / 8)])
@pytest.mark.parametrize("part", [LOCK, GIL])
def test_what_calls_wait_for_each_server_has(part: Part, number: int, ratio: float) -> None:
    taken = simulate([part], threads=16, at_once=8, cpus=16,
                     processes=ranks(threads=16, cpu_count=16))  # fmt: skip
    found = forecast(taken, servers(number))
    assert found.ratio == pytest.approx(ratio, rel=0.1)
    assert found.condition == "if calls can go to any of them (no shared state)"


def test_each_server_has_threads_of_its_own() -> None:
    taken = simulate([SLEEP], threads=2, at_once=4)
    assert forecast(taken, servers(2)).ratio == pytest.approx(1 / 2, rel=0.1)
    assert forecast(taken, servers(2), threads=1).ratio == pytest.approx(1, rel=0.1)
    free = simulate([SLEEP], threads=16, at_once=4)
    assert forecast(free, servers(2)).ratio == pytest.approx(1, rel=0.05)


def test_callers_do_not_follow_each_other_from_server_to_server() -> None:
    taken = several(SLEEP, callers=2, threads=1)
    assert forecast(taken, servers(2)).ratio == pytest.approx(10.2 / 20.2, rel=0.1)
    more = forecast(taken, Change(kind="callers", number=2), servers(2))
    assert more.ratio == pytest.approx(1, rel=0.1)


def test_added_servers_poll_too() -> None:
    caller, server = ranks(threads=16, cpu_count=5, main_cpu_s=0, cpu_s=0)
    logs = []
    for polling_s in (0.0, 0.05):  # of 0.1 s
        processes = (caller, replace(server, cpu_s=0.4 + polling_s))
        taken = simulate([Part("cpu", 10)], threads=16, at_once=4, cpus=5, processes=processes)
        logs.append(math.log(forecast(taken, servers(8)).ratio))
    assert logs[1] > logs[0] + 0.2


def fetching() -> list[dict[str, Any]]:
    """A caller that has two values made at once, and fetches them: worker1 keeps them."""
    rows = list[dict[str, Any]]()
    for step in range(20):
        for each in range(2):
            at = 25 * step + 0.01 * each
            served_ms = (at + 0.1 + 10 * each, at + 10.1 + 10 * each)
            rows.append(call(len(rows), at, served_ms[1] + 0.1, served_ms=served_ms, cpu_ms=0,
                             run_queue_ms=0, kind="rpc_remote"))  # fmt: skip
        for each in range(2):
            at = 25 * step + 21 + each
            rows.append(call(len(rows), at, at + 0.2, kind="to_here", body="fetch", function=""))
    return rows


def test_a_caller_stays_with_the_server_that_keeps_its_values() -> None:
    taken = trace(fetching(), window_ms=(0, 500), processes=ranks(threads=16))
    assert forecast(taken, servers(2)).why_not


def calling_each_other() -> Trace:
    """Two ranks, of which each serves the other's calls."""
    rows = [
        call(number, 20 * number, 20 * number + 10.2,
             served_ms=(20 * number + 0.1, 20 * number + 10.1), cpu_ms=0, run_queue_ms=0,
             client_rank=number % 2, server_rank=1 - number % 2)
        for number in range(40)
    ]  # fmt: skip
    return trace(rows, window_ms=(0, 800), processes=ranks(threads=16))


def test_a_rank_that_serves_and_calls_is_not_there_twice() -> None:
    assert forecast(calling_each_other(), servers(2)).why_not


@pytest.mark.parametrize(("threads", "step_ms"), [(1, 40.2), (16, 10.2)])
def test_calls_of_several_callers_are_served_as_one(threads: int, step_ms: float) -> None:
    taken = several(SLEEP, threads=threads, calls=100)
    found = forecast(taken, batch(4, 1))
    assert found.ratio == pytest.approx(10.2 / step_ms, rel=0.1)
    half = forecast(taken, batch(4, 1.5))
    assert half.ratio == pytest.approx(15.2 / step_ms, rel=0.1)
    # Full twice a step.
    twice = 20.2 if threads == 1 else 10.2
    assert forecast(taken, batch(2, 1)).ratio == pytest.approx(twice / step_ms, rel=0.1)
    both = forecast(taken, batch(4))
    assert both.ratio_low < 10.2 / step_ms < 40.2 / step_ms < both.ratio_high
    assert both.condition.endswith(BOTH_ENDS)
    assert BOTH_ENDS not in half.condition
    # As many as are served at about the same time.
    assert forecast(taken, batch()) == both


def test_a_batch_that_nobody_else_can_fill_is_served() -> None:
    found = forecast(several(SLEEP, threads=1), batch(8, 8))
    assert found.ratio == pytest.approx(1, rel=0.1)  # four bodies, as before
    assert not found.deadlock


def test_a_batch_has_the_calls_of_added_callers() -> None:
    taken = several(SLEEP, callers=2, threads=1, calls=100)
    found = forecast(taken, Change(kind="callers", number=2), batch(0, 1))
    assert found.ratio == pytest.approx(10.2 / 20.2, rel=0.1)
    alone = one_after_another()
    found = forecast(alone, Change(kind="callers", number=4), batch(4, 2))
    assert found.ratio == pytest.approx(20.2 / 10.2, rel=0.1)


def test_calls_of_one_caller_are_no_batch() -> None:
    assert forecast(one_after_another(), batch(2, 1)).why_not
    alone = several(SLEEP, callers=1)
    assert forecast(alone, batch(2, 1)).why_not
    model = Model.of(several(SLEEP))
    assert isinstance(model, Model)
    (found,) = (each for each in model.changeable.candidates() if each.kind == "batch")
    assert (found.function, found.number) == ("udf", 4)


def test_so_many_bodies_take_their_part_of_a_full_batch() -> None:
    one = [(SLEEPS, 12.0)]
    full = Batch(4, 2.5)
    took = [sum(ns for _, ns in full.ops([one] * number)) for number in (1, 2, 3, 4)]
    assert took == pytest.approx([12, 18, 24, 30])


def large(way_back_ms: float = 5.0, **columns: Any) -> Trace:
    """Calls one after another whose answers are on their way for so long."""
    rows = []
    took = 1.2 + way_back_ms
    for number in range(40):
        at = took * number
        own: dict[str, Any] = {"kind": "rpc_sync", "request_bytes": 100} | columns
        rows.append(call(number, at, at + took, served_ms=(at + 0.2, at + 1.2), cpu_ms=0,
                         run_queue_ms=0, **own))  # fmt: skip
    return trace(rows, window_ms=(0, 40 * took), processes=ranks(threads=16))


def test_fewer_bytes_shorten_what_the_way_takes_for_its_size() -> None:
    change = Change(kind="bytes", function="udf", number=2)
    found = forecast(large(), change)
    # Of 5 ms, 0.2 to 0.4 may be those of any answer.
    assert found.ratio == pytest.approx((6.2 - 2.4) / 6.2, rel=0.02)
    assert found.ratio_low < (6.2 - 2.5) / 6.2 < found.ratio_high
    quarter = forecast(large(), replace(change, number=4))
    assert quarter.ratio == pytest.approx((6.2 - 0.75 * 4.8) / 6.2, rel=0.02)
    # A small answer may take so much longer than a request.
    assert forecast(large(0.3), change).why_not
    assert forecast(large(0.45), change).ratio_high > 1


def test_fewer_bytes_beside_another_change_leave_the_cases_of_others_alone() -> None:
    model = Model.of(large())
    assert isinstance(model, Model)
    before = len(model.changeable.cases)
    bytes_ = Change(kind="bytes", function="udf", number=2)
    model.forecast(WhatIf(changes=[bytes_, Change(kind="gil")]))
    assert len(model.changeable.cases) == before


def test_fewer_bytes_of_many_tensors_gain_nothing() -> None:
    """They take their time by their number."""
    taken = large()
    taken = replace(taken, calls=taken.calls.assign(answer_tensors=4000))
    assert forecast(taken, Change(kind="bytes", function="udf")).why_not


def test_small_calls_show_what_a_large_request_takes_for_its_size() -> None:
    # Requests and answers of 5 ms each, beside calls that are on their way for 0.1 ms.
    big = [
        call(number, 20 * number, 20 * number + 11, served_ms=(20 * number + 5, 20 * number + 6),
             cpu_ms=0, run_queue_ms=0, kind="rpc_sync", request_bytes=1 << 22)
        for number in range(20)
    ]  # fmt: skip
    small = [
        call(20 + number, 20 * number + 12, 20 * number + 13.2, function="tiny",
             served_ms=(20 * number + 12.1, 20 * number + 13.1), cpu_ms=0, run_queue_ms=0,
             kind="rpc_sync", request_bytes=100)
        for number in range(20)
    ]  # fmt: skip
    change = Change(kind="bytes", function="udf")
    alone = trace(big, window_ms=(0, 400), processes=ranks(threads=16))
    assert forecast(alone, change).why_not
    taken = trace([*big, *small], window_ms=(0, 400), processes=ranks(threads=16))
    assert forecast(taken, change).ratio == pytest.approx((20 - 4.9) / 20, rel=0.02)
    assert forecast(taken, replace(change, function="tiny")).why_not


MS = 1e6


def observers(number: int, *, joins: bool = False, issue_ms: float = 3) -> Changing:
    """A driver has each of its observers serve a call, in which that calls the driver ten times."""
    own = range(number)
    calls = [
        Call(client=0, server=1 + each, function="play", to_server=0, to_client=0, ops=[
            (kind, number + 10 * each + asked) for asked in range(10) for kind in (ISSUE, AWAIT)
        ]) for each in own
    ]  # fmt: skip
    calls += [
        Call(client=1 + each, server=0, function="act", to_server=0, to_client=0,
             ops=[(COMPUTE_WITH_GIL, MS)], join=asked if joins else -1)
        for each in own for asked in range(10)
    ]  # fmt: skip
    ops = [op for each in own for op in ((COMPUTE_WITH_GIL, issue_ms * MS), (ISSUE, each))]
    ops += [(AWAIT, each) for each in own]
    program = Program(
        names=["agent", *(f"observer{each}" for each in own)], hosts=[0] * (number + 1),
        calls=calls, roots=[Root(0, 0.0, [(COMPUTE, 5 * MS), *ops], is_driver=True)],
        joins=[number] * 10 * joins,
    )  # fmt: skip
    machine = Machine(threads=[16] * (number + 1), cpus=[64.0], polling=[0.0])
    nothing = [0.0] * len(calls)
    made = Made(["rpc_async"] * len(calls), [""] * len(calls), nothing)
    return Changing(program, machine, made, {}, nothing, nothing, (nothing, nothing), {}, [])


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_ranks_that_serve_a_call_in_which_they_call_are_callers(number: int, joins: bool) -> None:
    """Of three: the same as if so many had been traced."""
    three, expected = observers(3, joins=joins), observers(number, joins=joins)
    assert callers_of(three.program) == [1, 2, 3]
    found = callers(three, Change(kind="callers", number=number / 3))
    assert found is not None
    assert replay(*found).took_ns == pytest.approx(replay(expected.program, expected.machine)[0])


def test_ranks_whose_own_threads_go_on_are_not_copied() -> None:
    two = observers(2)
    busy = [replace(call, then=[(SLEEPS, MS)]) if call.server else call
            for call in two.program.calls]  # fmt: skip
    two = two._replace(program=replace(two.program, calls=busy))
    assert callers(two, Change(kind="callers", number=2)) is None


def test_a_rank_that_passes_calls_on_is_no_caller() -> None:
    one = observers(1)
    assert callers_of(one.program) == [1]
    passes_on = replace(one.program.calls[0], ops=one.program.calls[0].ops[:2])
    assert callers_of(replace(one.program, calls=[passes_on, one.program.calls[1]])) == []


def test_who_keeps_some_calls_under_way_cannot_have_more_of_them() -> None:
    two = observers(2)
    root = two.program.roots[0]
    some = replace(two.program, roots=[replace(root, ops=[*root.ops[:-2], (DRAIN, 1), (DRAIN, 0)])])
    assert callers(two._replace(program=some), Change(kind="callers", number=2)) is None


def test_a_master_that_has_others_call_is_no_caller_itself() -> None:
    """Three ranks: a master, two trainers that it has serve, and they call a server."""
    two = observers(2)
    names = [*two.program.names, "server"]
    calls = [replace(call, server=3) if call.function == "act" else call
             for call in two.program.calls]  # fmt: skip
    program = replace(two.program, names=names, hosts=[0] * 4, calls=calls)
    assert callers_of(program) == [1, 2]


def test_callers_in_step_behind_a_lock_are_not_taken_to_sleep() -> None:
    """Each waits for all others, so that all calls take as long as if they slept."""
    for change in (servers(2), Change(kind="callers", number=2)):
        found = forecast(several(LOCK), change)
        truth = 1 / 2 if change.kind == "servers" else 2.0
        assert found.why_not or found.ratio_low <= truth <= found.ratio_high
