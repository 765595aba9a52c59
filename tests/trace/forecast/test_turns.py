"""Semaphores of programs whose calls have known times."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import call, operator, ranks, trace
from tuner.trace.forecast.forecasts import WhatIf, forecasts
from tuner.trace.forecast.turns import Turns
from tuner.trace.model.trace import Trace

Rows = list[dict[str, Any]]
CALLS = 12
LONG = [8 + 4 * (k % 3) for k in range(CALLS)]  # ms, of calls of `work`


def stage(
    permits: int, work_ms: Sequence[float] = LONG, server: int = 1, pause_ms: float = 0.4
) -> tuple[Rows, Rows]:
    """Calls of `ready` wait until all calls of `work` but so many have ended; these take turns, in
    which they are inside operators."""
    rows, ran, ends = Rows(), Rows(), [0.0]
    at = 0.0
    for k, ms in enumerate(work_ms):
        left = max(at + 0.1, ends[1 + k - permits] if k >= permits else 0.0)
        turn = max(left + 0.4, ends[-1]) + 0.1
        ends.append(turn + ms)
        where: dict[str, Any] = {"server_rank": server, "run_queue_ms": 0}
        number = 1000 * server + 2 * k
        rows += [
            call(number, at, left + 0.2, served_ms=(at + 0.1, left), cpu_ms=0.001,
                 function="ready", **where),
            call(number + 1, left + 0.3, ends[-1] + 0.4, served_ms=(left + 0.4, ends[-1]),
                 cpu_ms=ms, function="work", thread=20 + k, **where),
        ]  # fmt: skip
        ran.append(operator("aten::mm", turn, ends[-1] - 0.1, of=rows[-1], thread=20 + k))
        at = left + pause_ms
    return rows, ran


def joined(*stages: tuple[Rows, Rows]) -> Trace:
    rows, ran = ([row for each in part for row in each] for part in zip(*stages, strict=True))
    last_ms = max(row["end_ns"] for row in rows) / 1e6
    known = ranks(3, threads=16, cpu_count=8)
    return trace(rows, ran, processes=known, window_ms=(0, last_ms))


@pytest.mark.parametrize("permits", [1, 2, 3])
def test_the_permits_of_a_semaphore_are_counted(permits: int) -> None:
    taken = joined(stage(permits))
    found, functions = Turns.of(taken), taken.calls["function"]
    assert found.permits[0] == permits
    assert [functions[place] for place in found.takes] == ["ready"] * CALLS
    assert [functions[place] for place in found.gives] == ["work"] * CALLS


def test_calls_that_are_served_at_once_but_compute_in_turn_have_a_semaphore_of_their_own() -> None:
    taken = joined(stage(3))
    found = Turns.of(taken)
    assert found.permits == [3, 1]
    for place, held in found.holds.items():
        operators = taken.operators[taken.operators["call_id"] == taken.calls["call_id"][place]]
        assert held.semaphore == 1
        assert held.until == operators["end_ns"].item()
        assert held.since <= operators["start_ns"].item()
    assert len(found.holds) == CALLS


def test_calls_that_compute_at_once_take_no_turns() -> None:
    taken = joined(stage(3))
    early = taken.operators["start_ns"] - 1_000_000
    assert Turns.of(replace(taken, operators=taken.operators.assign(start_ns=early))).holds == {}


def test_calls_that_may_wait_for_the_gil_show_no_semaphore() -> None:
    taken = joined(stage(1))
    assert Turns.of(taken).permits == [1]
    assert Turns.of(replace(taken, operators_recorded=False)).permits == []


def test_calls_that_make_calls_wait_for_these() -> None:
    taken = joined(stage(3))
    outer = taken.calls["call_id"].where(taken.calls["function"] == "ready").ffill()
    is_inner = taken.calls["function"] == "work"
    calls = taken.calls.assign(parent_call=outer.where(is_inner).astype("Int64"))
    assert Turns.of(replace(taken, calls=calls)).permits == []


def test_a_function_does_in_all_processes_what_it_does_in_one() -> None:
    idle = stage(3, [1] * CALLS, server=2, pause_ms=20)  # its calls wait for nothing
    assert Turns.of(joined(idle)).permits == []
    assert Turns.of(joined(stage(3), idle)).permits == [3, 3, 1]


def test_a_process_where_calls_did_not_wait_though_they_should_have_has_none() -> None:
    without = stage(CALLS, server=2)
    taken = joined(stage(3), without)
    assert set(taken.calls.loc[[*Turns.of(taken).places], "server_rank"]) == {1}


def test_what_waits_in_turn_takes_no_longer_with_fewer_threads() -> None:
    found = forecasts(joined(stage(3)), [WhatIf(threads={"*": n}) for n in (1, 2, 4, 32)])
    assert [each.ratio for each in found] == pytest.approx([1, 1, 1, 1], rel=0.1)


@pytest.mark.parametrize(("ms", "cpu_ms"), [((10, 10), 10), ((4, 16), 0)], ids=["alike", "both"])
def test_calls_that_end_together_need_not_wait_for_each_other(
    ms: Sequence[float], cpu_ms: float
) -> None:
    """They may sleep for the same time, and of two that only wait either may be the one."""
    rows = Rows()
    for k in range(CALLS):
        for i, function in enumerate(("first", "second")):
            served_ms = (20 * k + 0.1 * i, 20 * k + ms[k % 2])
            rows.append(call(2 * k + i, 20 * k, 20 * k + 19, served_ms=served_ms, thread=11 + i,
                             cpu_ms=cpu_ms * i, run_queue_ms=0, function=function))  # fmt: skip
    assert Turns.of(trace(rows)).permits == []
