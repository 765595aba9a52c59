"""Forecasts from traces with known parts."""

import math
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import Part, call, operator, ranks, simulate, trace
from tests.trace.analyze.planted import Rows, a_batch, on_a_thread_of_its_own, repeated, step
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.headroom import wait_for_others
from tuner.trace.forecast.forecasts import Forecast, WhatIf, forecasts
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import CALL_COLUMNS, Trace

THREADS = (1, 2, 4, 8, 16, 32)


def by_threads(taken: Trace) -> dict[int, Forecast]:
    found = forecasts(taken, [WhatIf(threads={"*": each}) for each in THREADS])
    return dict(zip(THREADS, found, strict=True))


def eight_at_once(*parts: Part, threads: int = 16, steps: int = 10, **facts: Any) -> Trace:
    return simulate(parts, threads=threads, at_once=8, steps=steps, **facts)


def changed(taken: Trace, **columns: Any) -> Trace:
    """With other values in these columns of its calls."""
    return replace(taken, calls=taken.calls.assign(**columns).astype(CALL_COLUMNS))


def a_loop(**columns: Any) -> Trace:
    rows = [call(i, 10 * i, 10 * i + 9, served_ms=(10 * i + 1, 10 * i + 8), cpu_ms=1,
                 run_queue_ms=0) | columns for i in range(20)]  # fmt: skip
    return trace(rows, window_ms=(0, 200))


def computing_on_few_cpus() -> Trace:
    """In each step five calls at once, one longer than the other, compute for 24 ms in all, wait
    for one of two CPUs, and for something else for 11.2 ms."""

    def five(at: float, number: int) -> Rows:
        spans = [(n, 0.05 * n, 4 + 2 * ((2 * n + number // 100) % 5)) for n in range(5)]
        return step(*(
            (begun, begun + took + 0.1, (begun, begun + took),
             {"cpu_ms": 0.6 * took, "run_queue_ms": 0.12 * took, "thread": 11 + n})
            for n, begun, took in spans
        ))(at, number)  # fmt: skip

    return repeated(five, 20, step_ms=12.5, processes=ranks(threads=16, cpu_count=2))


EIGHT_CPUS: Any = {"processes": ranks(3, threads=16, cpu_count=8)}
ASLEEP: dict[str, Any] = {"cpu_ms": 0, "run_queue_ms": 0}
MAKES = {"kind": "rpc_remote", "function": "make", **ASLEEP}
FETCHES = {"kind": "to_here", "body": "fetch", "function": ""}
# Two values are made at once, in 10 ms each, and then fetched.
made_and_fetched = step(
    *(
        (0.01 * i, 10.2, (0.1 + 0.01 * i, 10.1 + 0.01 * i), {"thread": 11 + i, **MAKES})
        for i in range(2)
    ),
    *[(0.1, 10.4, None, FETCHES)] * 2,
)
# Two calls complete together, and the second returns while the first of the next step is served.
a_late_return = step(
    (0.5, 8.6, (0.6, 1.5), {"done_ms": 8.5, **ASLEEP, "cpu_ms": 0.9}),
    (1.2, 10.9, (1.3, 10.7), {"done_ms": 10.8, "thread": 12, **ASLEEP, "cpu_ms": 9.4}),
)


def with_operators(*parts: Part, **facts: Any) -> Trace:
    """Every fourth call is TorchScript, whose CPU time is not measured."""
    taken = eight_at_once(*parts, **facts)
    is_script = taken.calls["call_id"] % 4 == 1
    body = is_script.map({True: "script", False: "python"})
    return changed(taken, body=body, cpu_ns=taken.calls["cpu_ns"].mask(is_script))


def busy(*cpu_s: float) -> tuple[TraceRank, ...]:
    """Processes that were on one of two logical CPUs for so long, none of it in main threads."""
    known = ranks(threads=16, cpu_count=2, main_cpu_s=0)
    return tuple(replace(rank, cpu_s=each) for rank, each in zip(known, cpu_s, strict=True))


SLEEP, COMPUTE, LOCK, GIL = (Part(kind, 10) for kind in ("sleep", "operator", "lock", "gil"))
NO_GAIN = dict.fromkeys(THREADS, 1.0)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (eight_at_once(SLEEP), {1: 8, 2: 4, 4: 2, 8: 1, 16: 1, 32: 1}),
        (eight_at_once(SLEEP, steps=3), {1: 8, 2: 4, 4: 2, 8: 1, 16: 1, 32: 1}),
        (eight_at_once(LOCK), NO_GAIN),
        (eight_at_once(LOCK, steps=2), NO_GAIN),
        (eight_at_once(GIL), NO_GAIN),
        (eight_at_once(SLEEP, GIL), {1: 16 / 9, 2: 10 / 9, 4: 1, 16: 1}),
        (eight_at_once(COMPUTE, cpus=2), {1: 2, 2: 1, 4: 1, 8: 1, 16: 1, 32: 1}),
        (eight_at_once(COMPUTE, cpus=2, threads=1), {1: 1, 2: 0.5, 4: 0.5, 32: 0.5}),
        (simulate([SLEEP], threads=16, at_once=1, steps=30), NO_GAIN),
        (a_loop(server_end_ns=None), NO_GAIN),
        (changed(repeated(on_a_thread_of_its_own), cpu_ns=0, run_queue_ns=0), {1: 1, 2: 1}),
        (changed(repeated(a_batch), cpu_ns=0, run_queue_ns=0), {2: 1, 4: 1}),
        (repeated(made_and_fetched, step_ms=20, **EIGHT_CPUS), {1: 1.5, 2: 1, 32: 1}),
        (repeated(a_late_return, window_ms=(0, 110), **EIGHT_CPUS), {1: 1, 2: 1}),
        (with_operators(COMPUTE, cpus=2, processes=busy(0, 0.8)), {1: 2, 8: 1, 32: 1}),
        (with_operators(SLEEP), {1: 8, 2: 4, 4: 2, 32: 1}),
        (changed(eight_at_once(SLEEP, cpus=2, processes=busy(0, 0)), body="builtin", cpu_ns=None),
         {1: 8, 2: 4, 4: 2, 32: 1}),
        # Each caller is a thread of its own, which thinks for as long as its call sleeps.
        (changed(simulate([SLEEP], threads=4, at_once=1, callers=4, think_ms=10),
                 client_thread=lambda calls: 100 + calls["call_id"] // 10),
         {1: 2, 2: 1, 4: 1, 8: 1}),
    ],
    ids=["sleep", "sleep, 3 steps", "lock", "lock, 2 steps", "GIL", "sleep and GIL", "two CPUs",
         "traced with 1 thread", "one at a time", "unseen", "own thread", "batch", "remote",
         "a late return", "operators that compute", "operators on free CPUs",
         "operators that sleep", "four callers"],
)  # fmt: skip
def test_the_time_with_other_numbers_of_threads(taken: Trace, expected: dict[int, float]) -> None:
    found = by_threads(taken)
    for threads, ratio in expected.items():
        each = found[threads]
        assert each.ratio == pytest.approx(ratio, rel=0.1), threads
        assert each.ratio_low <= ratio <= each.ratio_high
        assert (each.ratio_low < each.ratio_high) == (threads != taken.ranks[1].num_worker_threads)


def test_what_waits_for_cpus_that_others_hold_is_no_sleep_that_threads_share() -> None:
    """Calls are ready, and wait for a CPU that other programs have: for half of their time."""
    waits = {"cpu_ns": 1_000_000, "run_queue_ns": 5_000_000}
    some = ranks(threads=4, cpu_count=2, main_cpu_s=0, cpu_s=0.05)
    taken = changed(eight_at_once(SLEEP, threads=4, processes=some), **waits)
    (found,) = forecasts(taken, [WhatIf(threads={"*": 8})])
    assert found.why_not == "other programs took logical CPUs while it was traced"
    text = diagnose(taken).text
    assert "more threads help" not in text.lower()
    assert "more threads do not help" not in text


def test_what_computes_may_have_waited_only_because_others_did() -> None:
    (found,) = forecasts(computing_on_few_cpus(), [WhatIf(threads={"*": 1})])
    alone, asleep = 24 / 12.5, (24 + 11.2) / 12.5
    assert found.ratio_low < 0.95 * alone < asleep < found.ratio_high


def test_what_the_driver_computes_outside_of_its_calls_overlaps_none() -> None:
    driver = ranks(threads=4, pid=1, main_cpu_s=0.06)
    taken = replace(a_loop(), ranks=driver, window_ns=(-20_000_000, 205_000_000))
    (found,) = forecasts(taken, [WhatIf(threads={"*": 8})])
    assert found.ratio == pytest.approx(1, rel=0.05)
    (found,) = forecasts(replace(a_loop(), ranks=driver), [WhatIf(threads={"*": 8})])
    assert found.why_not.startswith("the driver computes while calls are under way")


def test_a_larger_machine() -> None:
    taken = eight_at_once(COMPUTE, cpus=2)
    cpus = (1, 2, 4, 64)
    found = forecasts(taken, [WhatIf(cpus=each) for each in cpus])
    assert [each.ratio for each in found] == pytest.approx([2, 1, 0.5, 0.25], rel=0.1)


def test_one_role_alone() -> None:
    found = forecasts(eight_at_once(SLEEP, processes=(
        replace(ranks(threads=16)[0], name="caller"), replace(ranks(threads=16)[1], name="server1"),
    )), [WhatIf(threads={"caller": 1}), WhatIf(threads={"server": 1})])  # fmt: skip
    assert [each.ratio for each in found] == pytest.approx([1, 8], rel=0.1)


def nested_calls(at_once: int) -> Trace:
    """Each call to worker1 sleeps in worker2 for 5 ms."""
    inner = {"client_rank": 1, "server_rank": 2, "kind": "rpc_sync", "function": "inner", **ASLEEP}
    return repeated(step(*(
        row
        for n in range(at_once)
        for at in [0.01 * n]
        for row in (
            (at, at + 6, (at + 0.2, at + 5.8),
             {"thread": 11 + n, "function": "outer", **ASLEEP, "cpu_ms": 0.1}),
            (at + 0.3, at + 5.7, (at + 0.5, at + 5.5),
             {"parent": 2 * n, "thread": 21 + n, **inner}),
        )
    )), **EIGHT_CPUS)  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_nested_calls_deadlock_with_so_many_threads_as_there_are_calls(at_once: int) -> None:
    asked = [WhatIf(threads={"*": each}) for each in range(1, 10)]
    found = forecasts(nested_calls(at_once), asked)
    assert [bool(each.deadlock) for each in found] == [n <= at_once for n in range(1, 10)]
    assert math.isinf(found[0].ratio)
    assert found[0].deadlock == (
        "outer on worker1, which waits for the answer of inner on worker2, for which no thread of "
        "worker1 is free"
    )
    assert found[at_once].ratio == pytest.approx(1, rel=0.1)


def waits_for_another_call() -> Trace:
    """In each step two calls wait until two others, which are issued after them, have computed."""
    rows, ran = [], []
    for number in range(0, 100, 10):
        at, ms = 2 * number, 4 + 3 * (number // 10 % 4)
        for i, begun in enumerate((at, at + 0.02)):
            end = begun + ms + 0.2
            rows += [
                call(number + 2 * i, begun, end + 0.3, served_ms=(begun + 0.2, end + 0.05),
                     cpu_ms=0, run_queue_ms=0, thread=11 + i, function="wait"),
                call(number + 2 * i + 1, begun + 0.01, end + 0.2, served_ms=(begun + 0.2, end),
                     cpu_ms=ms, run_queue_ms=0, thread=13 + i, function="work"),
            ]  # fmt: skip
            ran.append(operator("aten::mm", begun + 0.2, end, of=rows[-1], thread=13 + i))
    return trace(rows, ran, processes=ranks(threads=16, cpu_count=8), window_ms=(0, 200))


def test_a_call_that_waits_for_another_deadlocks_unless_that_one_finds_a_thread() -> None:
    found = by_threads(waits_for_another_call())
    assert found[1].deadlock.startswith("wait on worker1")
    assert found[2].why_not.startswith("whether it deadlocks depends on how long its calls")
    assert [found[n].ratio for n in (4, 8, 32)] == pytest.approx([1, 1, 1], rel=0.05)


def by_another_thread() -> Trace:
    """Of worker1, whose main thread is another one."""
    taken = replace(a_loop(), ranks=ranks(threads=4, pid=1))
    number = taken.calls["call_id"] % 2
    client = "worker" + number.astype(str)
    return changed(taken, client=client, client_rank=number, client_thread=1 + number)


@pytest.mark.parametrize(
    ("taken", "why_not"),
    [
        (trace(), "the trace holds no calls that ended"),
        (replace(a_loop(), source="kineto"), "a trace of torch.profiler (Kineto) does not tell"),
        (replace(a_loop(), source="legacy"), "a trace of the legacy profiler does not tell"),
        (replace(a_loop(), ranks=ranks(threads=4, pid=1, main_cpu_s=0.15)), "the driver computes"),
        (by_another_thread(), "threads of worker1 make calls, and what these wait for is not"),
        (eight_at_once(COMPUTE, cpus=2, threads=1, processes=ranks(
            threads=1, cpu_count=2, cpu_s=0.75, main_cpu_s=0)),
         "its calls compete for few logical CPUs with polling threads"),
        (eight_at_once(COMPUTE, cpus=2, processes=ranks(threads=16, cpu_count=2, cpu_s=0.2)),
         "other programs took logical CPUs while it was traced"),
        (changed(eight_at_once(SLEEP), server_end_ns=None),
         "it depends on how calls were served that take 100 % of all time, which the trace"),
        (a_loop(cpu_ns=None), "the CPU time of the calls to worker1 is not known"),
        (replace(a_loop(), ranks=ranks(threads=None)), "the trace does not tell the num_worker_"),
        (eight_at_once(SLEEP, threads=1), "it depends on whether the calls to worker1 hold"),
    ],
)  # fmt: skip
def test_no_forecast_is_made_of_a_trace_that_lacks(taken: Trace, why_not: str) -> None:
    (found,) = forecasts(
        taken, [WhatIf(threads={"*": 8 if "hold" in why_not or "few" in why_not else 1})]
    )
    assert found.why_not.startswith(why_not)
    assert math.isnan(found.ratio)


def test_a_long_trace_is_replayed_in_part() -> None:
    (found,) = forecasts(eight_at_once(SLEEP, steps=500), [WhatIf(threads={"*": 2})])
    assert found.ratio == pytest.approx(4, rel=0.1)


def a_full_batch(rest_ms: float) -> Trace:
    """In each step six calls begin one after another and return together: the last ends the wait of
    all, and rests for some time before or after that."""

    def six(at: float, number: int) -> Rows:
        spans = [(0.2 * n, 10 + 0.02 * n) for n in range(6)]
        return step(*(
            (begun, left + 0.3, (begun + 0.1, left + (rest_ms if n == 5 else 0)),
             {"cpu_ms": 0.02, "run_queue_ms": 0, "thread": 11 + n})
            for n, (begun, left) in enumerate(spans)
        ))(at, number)  # fmt: skip

    return repeated(six, 6, step_ms=12, processes=ranks(threads=16, cpu_count=8))


def in_turns(at: float, number: int) -> Rows:
    """Six calls that sleep for 2 ms with one lock."""
    return step(*(
        (0.01 * n, 2 * n + 2.3, (0.1 + 0.01 * n, 2 * n + 2.2),
         {"cpu_ms": 0.01, "run_queue_ms": 0, "thread": 11 + n})
        for n in range(6)
    ))(at, number)  # fmt: skip


@pytest.mark.parametrize("rest_ms", [0.0, 0.2])
def test_no_speed_is_forecast_where_calls_may_wait_for_each_other(rest_ms: float) -> None:
    found = by_threads(a_full_batch(rest_ms))
    assert [n for n, each in found.items() if each.may_deadlock] == [1, 2, 4]
    assert "fewer than 6 threads of worker1 may deadlock" in found[4].why_not
    assert found[8].ratio == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    ("taken", "scripts_call", "expected"),
    [
        (eight_at_once(SLEEP), False, False),
        (eight_at_once(SLEEP), True, True),
        (eight_at_once(COMPUTE, cpus=8), True, False),
        (repeated(in_turns, 6, step_ms=14, processes=ranks(threads=16)), False, False),
        (a_full_batch(0.0), False, True),
    ],
    ids=["sleep", "scripts that call", "compute", "one lock", "a batch"],
)
def test_which_calls_may_wait_for_others(taken: Trace, scripts_call: bool, expected: bool) -> None:
    known = tuple(replace(rank, scripts_call=scripts_call) for rank in taken.ranks)
    assert wait_for_others(replace(taken, ranks=known), 1) == expected


def test_no_speed_is_forecast_where_calls_would_run_into_their_time_limit() -> None:
    taken = changed(eight_at_once(Part("sleep", 10)), timeout_s=0.05)
    found = by_threads(taken)
    # Eight calls of 10 ms: one thread takes 80 ms for them, two 40.
    assert found[1].why_not == "calls would take longer than their time limit, and fail"
    assert not found[2].why_not
    # Those that were late as they were traced are no reason, and 0 is no limit.
    assert not by_threads(changed(taken, timeout_s=0.001))[1].why_not
    assert not by_threads(changed(taken, timeout_s=0.0))[1].why_not


def test_what_a_program_does_after_its_last_call_stays_as_it_is() -> None:
    steps = eight_at_once(Part("sleep", 10))
    last_ns = int(steps.calls["end_ns"].max())
    program = replace(steps, steps=None, window_ns=(0, 2 * last_ns))
    half = by_threads(program)
    for threads, whole in by_threads(steps).items():
        assert half[threads].ratio == pytest.approx((whole.ratio + 1) / 2, rel=0.02)
        assert half[threads].ratio_low <= half[threads].ratio / 1.15 or threads == 16
