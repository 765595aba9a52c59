"""What threads of a program wait for, beside their own calls."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import Part, ranks, simulate
from tests.trace.forecast.test_forecasts import by_threads, changed, eight_at_once
from tuner.trace.forecast.meetings import Thread, Times, meetings
from tuner.trace.model.trace import Trace

MS = 1e6
Spans = Sequence[tuple[float, float]]
"""When the calls of a thread begin and end, in ms."""


def found(*threads: Spans) -> tuple[dict[int, list[int]], list[int]]:
    """By call, numbered thread by thread: those that it waits for. And the threads of which that is
    not known."""
    spans = [span for thread in threads for span in thread]
    first, own = 0, list[Thread]()
    for number, thread in enumerate(threads):
        own.append(Thread(0, number, range(first, first + len(thread))))
        first += len(thread)
    start, end = ([at * MS for at in ends] for ends in zip(*spans, strict=True))
    waits = meetings(own, Times(start, start, end))
    return {call: [*others] for call, others in waits.before.items()}, [
        thread.number for thread in waits.unknown
    ]


def by_turns(number: int, after_ms: Callable[[int], float]) -> tuple[Spans, Spans]:
    """Two threads whose calls take 10 ms, the second so long after the first, which goes on 0.2 ms
    after both."""
    first, second, at = [], [], 0.0
    for place in range(number):
        first.append((at, at + 10))
        begins = at + 10 + after_ms(place)
        second.append((begins, begins + 10))
        at = begins + 10.2
    return first, second


def test_threads_that_begin_when_all_calls_have_ended_wait_for_them() -> None:
    first, second = by_turns(8, lambda place: 0.2)
    waits, unknown = found(first, second)
    assert unknown == []
    assert waits == {**{n: [7 + n] for n in range(1, 8)}, **{8 + n: [n] for n in range(8)}}


def test_a_thread_that_begins_when_one_call_has_ended_waits_for_that() -> None:
    first, second = by_turns(8, lambda place: 0.2)
    throughout = [(0.0, 400.0)]
    waits, unknown = found(first, second, throughout)
    assert unknown == []
    assert [waits[8 + n] for n in range(8)] == [[n] for n in range(8)]


def test_what_seems_to_wait_now_and_then_waits_for_what_is_not_known() -> None:
    first, second = by_turns(20, lambda place: 0.2 if place % 5 < 3 else 8)
    assert found(first, second, [(0.0, 900.0)]) == ({}, [0, 1])


def at_random(
    number: int, calls: int, took_ms: float, between_ms: tuple[float, float]
) -> list[Spans]:
    """So many threads, each by itself."""
    chance = random.Random(0)
    threads = list[Spans]()
    for _ in range(number):
        at, spans = chance.uniform(0, between_ms[1] / 2), []
        for _ in range(calls):
            spans.append((at, at + took_ms))
            at += took_ms + chance.uniform(*between_ms)
        threads.append(spans)
    return threads


def test_threads_that_think_by_themselves_wait_for_nobody() -> None:
    assert found(*at_random(4, 30, 5, (5, 60))) == ({}, [])


def test_what_comes_too_often_to_tell_is_not_known() -> None:
    assert found(*at_random(8, 50, 1, (2, 6))) == ({}, [*range(8)])


def test_a_thread_that_calls_now_and_then_says_nothing_of_another() -> None:
    """One that makes call after call waits for nobody but its own."""
    often: Spans = [(each, each + 0.9) for each in range(1000)]
    seldom: Spans = [(50.3 * each, 50.3 * each + 0.5) for each in range(19)]
    assert found(often, seldom) == ({}, [1])


SLEEP = Part("sleep", 10)
POOL: dict[int, float] = {1: 2, 2: 1, 4: 0.5, 8: 0.25, 16: 0.25}


@pytest.mark.parametrize(
    "thread",
    [lambda calls: 100 + calls["call_id"] % 8, lambda calls: 100 + calls["call_id"]],
    ids=["a pool", "new ones each time"],
)
def test_threads_that_share_the_calls_of_a_step_gain_what_one_would(
    thread: Callable[[Any], Any],
) -> None:
    taken: Trace = changed(eight_at_once(SLEEP, threads=2), client_thread=thread)
    told = by_threads(taken)
    for threads, ratio in POOL.items():
        assert told[threads].ratio == pytest.approx(ratio, rel=0.1), threads


def test_threads_that_may_wait_for_each_other_have_no_forecast() -> None:
    """Callers that think for less than can be told from waiting, and for much of the time."""
    taken = simulate([Part("sleep", 1)], threads=1, at_once=1, callers=8, steps=40, think_ms=4)
    taken = changed(taken, client_thread=lambda calls: 100 + calls["call_id"] // 40)
    taken = replace(taken, ranks=ranks(threads=1, pid=1))
    assert {each.why_not for threads, each in by_threads(taken).items() if threads > 1} == {
        "threads of worker0 make calls, and what these wait for is not known"
    }
