"""A driver that sleeps: what could be spared, and what is not sure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testing.synthetic import call, ns, ranks, trace
from tests.present.screen import printed
from tuner.present.analysis import Analysis
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.what_if import forecast
from tuner.searching.runner import changes_by
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.own_time import pauses
from tuner.trace.forecast.change import DRIVER, Change
from tuner.trace.forecast.forecasts import MODEL_ERROR, Forecast, Model, WhatIf
from tuner.trace.forecast.no_sleep import forecast_with, sleeps, without_sleep
from tuner.trace.forecast.ranked import rows_of
from tuner.trace.model.spans import GilWait, Pause
from tuner.trace.model.trace import Trace

Span = tuple[float, float]
EVERY_MS = 10.0  # a sample


def sampled(taken: Trace, naps: Sequence[Span], end_ms: float, why: str = "sleep",
            site: str = "main.py:31", *, is_open: bool = False) -> Trace:  # fmt: skip
    """The trace, of whose driver there are samples: it sleeps in these spans."""
    looks = [EVERY_MS * (n + 0.5) for n in range(int(end_ms / EVERY_MS))]
    gil = tuple(GilWait(ns(at), 0, ns(EVERY_MS)) for at in looks)
    pauses = tuple(
        Pause(ns(at), 1, why, site, is_open)
        for at in looks if any(begin <= at < end for begin, end in naps)
    )  # fmt: skip
    first = replace(taken.ranks[0], pid=1, gil=gil, pauses=pauses)
    return replace(taken, ranks=(first, *taken.ranks[1:]))


def paced(steps: int = 20, nap_ms: float = 80, **facts: Any) -> Trace:
    """Calls of 20 ms, and a sleep after each."""
    rows, naps, whole = [], [], 20 + nap_ms
    for n in range(steps):
        at = whole * n
        rows.append(call(n, at, at + 20, served_ms=(at + 1, at + 19), cpu_ms=0, run_queue_ms=0,
                         kind="rpc_sync", request_bytes=100, site="main.py:30"))  # fmt: skip
        naps.append((at + 20, at + whole))
    taken = trace(rows, window_ms=(0, whole * steps), processes=ranks(threads=16))
    return sampled(taken, naps, whole * steps, **facts)


NO_SLEEP = Change(kind="no-sleep", function=DRIVER)


def without(taken: Trace, *others: Change) -> Forecast:
    return forecast_with(taken, Model.of(taken), WhatIf(changes=[NO_SLEEP, *others]))


def test_a_sleep_between_steps_goes() -> None:
    taken = paced()
    found = without(taken)
    assert found.ratio == pytest.approx(0.2, rel=0.02)
    assert found.ratio_low < 0.2 < found.ratio_high < 0.25
    assert found.condition == "if the driver need not wait there"
    (row, *_), _ = rows_of(taken, Model.of(taken))
    assert (row.change.kind, row.site) == ("no-sleep", "main.py:31")
    assert row.sentence == "no sleep of the driver (80 % of time)"
    # What a driver that sleeps does itself cannot be done faster.
    assert not [row for row in rows_of(taken, Model.of(taken))[0] if row.change.kind == "faster"
                and row.change.function == DRIVER]  # fmt: skip


def test_with_another_change_both_are_forecast() -> None:
    found = without(paced(), Change(kind="faster", function="udf"))
    assert found.ratio == pytest.approx((20 - 9) / 100, rel=0.1)
    asked = forecast(paced(), {"driver": "no-sleep", "udf": "faster:2"})
    assert asked["ratio"].tolist() == pytest.approx([found.ratio])
    assert asked["config"].tolist() == ["driver=no-sleep udf=faster:2"]


def test_a_few_calls_tell_of_a_sleep_too() -> None:
    taken = paced(steps=3, nap_ms=300)
    assert not math.isnan(without(taken).ratio)
    found = diagnose(taken)
    assert found.rule == "caller"
    assert found.text == (
        "The caller is the limit: worker0 sleeps for 94 % of the time, at main.py:31."
    )


def test_what_a_driver_does_between_its_calls_is_all_that_is_said_of_them() -> None:
    """It sleeps for a long time before the first one, which is no reason for the time of these."""
    taken = paced()
    first = taken.ranks[0]
    early = tuple(
        (GilWait(-ns(at), 0, ns(EVERY_MS)), Pause(-ns(at), 1, "sleep", "main.py:9", False))
        for at in range(1990, 0, -10)
    )  # fmt: skip
    first = replace(first, gil=(*(gil for gil, _ in early), *first.gil),
                    pauses=(*(pause for _, pause in early), *first.pauses))  # fmt: skip
    taken = replace(taken, ranks=(first, *taken.ranks[1:]), window_ns=(-ns(2000), ns(2000)))
    assert "Meanwhile worker0 sleeps for 38 % of the time, at main.py:31." in diagnose(taken).text


def test_the_driver_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Mock(wraps=pauses)
    monkeypatch.setattr("tuner.trace.analyze.diagnosis.pauses", looks)
    assert "worker0 sleeps" in diagnose(paced()).text
    assert looks.call_count == 1


def test_whether_a_loop_that_polls_could_end_earlier_is_not_known() -> None:
    """The answer may come from a thread of the server, of which the trace has nothing."""
    polls = paced(is_open=True)
    assert without(polls).why_not
    assert not [row for row in rows_of(polls, Model.of(polls))[0] if row.change.kind == "no-sleep"]
    assert "sleeps for 76 % of the time, at main.py:31" in diagnose(polls).text


def awaited(ends_ms: float, is_open: bool = True) -> Trace:
    """A call of so long, and a driver that sleeps for 1 s after it has issued it."""
    rows = [
        call(1, 0, ends_ms, served_ms=(1, ends_ms - 1), cpu_ms=0, run_queue_ms=0, site="main.py:1"),
        call(2, 1001, 1011, served_ms=(1002, 1010), cpu_ms=0, run_queue_ms=0, kind="rpc_sync",
             site="main.py:2"),
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, max(ends_ms, 1011)), processes=ranks(threads=16))
    return sampled(taken, [(0, 1001)], 1001, is_open=is_open)


@pytest.mark.parametrize("is_open", [False, True])
def test_what_is_slept_after_the_call_has_ended_goes(is_open: bool) -> None:
    found = without(awaited(300, is_open))
    assert found.ratio == pytest.approx((1011 - 701) / 1011, rel=0.01)


def overlapped(*naps: tuple[str, float, float], steps: int = 20) -> Trace:
    """The driver issues calls of 60 ms, and is busy for 110 ms after each: of that it sleeps at
    these lines in these spans."""
    rows = [
        call(n, 110 * n, 110 * n + 60, served_ms=(110 * n + 1, 110 * n + 59), cpu_ms=0,
             run_queue_ms=0, site="main.py:30") for n in range(steps)
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, 110 * steps), processes=ranks(threads=16))
    parts = [
        sampled(taken, [(110 * n + begin, 110 * n + end) for n in range(steps)], 110 * steps,
                site=site) for site, begin, end in naps
    ]  # fmt: skip
    seen = sorted(pause for part in parts for pause in part.ranks[0].pauses)
    return replace(
        parts[0], ranks=(replace(parts[0].ranks[0], pauses=tuple(seen)), *taken.ranks[1:])
    )


def test_a_sleep_that_ends_before_the_call_does_is_not_surely_spared() -> None:
    """Then the driver waits for the call, and computes."""
    found = without(overlapped(("main.py:31", 0, 50)))
    assert found.why_not or found.ratio == found.ratio_high / math.exp(2 * MODEL_ERROR) == 1.0
    # It may compute before it waits for the call: that would gain 50 ms.
    assert found.why_not or found.ratio_low < 60 / 110


def test_what_is_slept_before_a_call_has_ended_and_after_it_is_spared_once() -> None:
    found = without(overlapped(("main.py:31", 0, 50), ("main.py:32", 60, 110)))
    assert found.ratio == pytest.approx(60 / 110, rel=0.05)
    assert found.ratio_low * math.exp(2 * MODEL_ERROR) == pytest.approx(60 / 110, rel=0.05)


def paced_at_two_lines(steps: int = 20) -> Trace:
    """Calls of 20 ms, and two sleeps of 10 ms after each."""
    taken = paced(steps, nap_ms=20)
    first = taken.ranks[0]
    pauses = tuple(
        pause._replace(site="main.py:32") if pause.at_ns % ns(40) >= ns(30) else pause
        for pause in first.pauses
    )  # fmt: skip
    return replace(taken, ranks=(replace(first, pauses=pauses), *taken.ranks[1:]))


def test_what_is_slept_at_two_lines_goes_together() -> None:
    taken = paced_at_two_lines()
    assert len(sleeps(taken)) == 2
    cut = without_sleep(taken, {""})
    # There are too few samples after the last call.
    assert cut.forecast.ratio == pytest.approx(0.5 + 20 / 800)
    assert cut.trace.calls["start_ns"].diff().dropna().tolist() == pytest.approx([ns(20)] * 19)
    # What is in the time that goes happens as that ends.
    looks = [gil.asked_ns for gil in cut.trace.ranks[0].gil[:8]]
    assert looks == [ns(at) for at in (5, 15, 20, 20, 25, 35, 40, 40)]
    opened, closed = cut.trace.window_ns
    assert closed - opened == pytest.approx(ns(420))


def test_a_sleep_alone_is_forecast_without_a_model_of_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Model, "of", lambda *_: "it has no model")
    found = forecast_with(paced(), "it has no model", WhatIf(threads={}, changes=[NO_SLEEP]))
    assert found.ratio == pytest.approx(0.2, rel=0.02)


def test_while_a_call_is_under_way_the_driver_may_wait_for_it() -> None:
    assert without(awaited(2000)).why_not or without(awaited(2000)).ratio == 1.0


def test_other_threads_that_call_may_be_waited_for() -> None:
    taken = paced()
    other = taken.calls.assign(client_thread=lambda calls: 1 + (calls["call_id"] == 7))
    assert without(replace(taken, calls=other)).why_not


def test_what_a_driver_does_beside_is_not_spared() -> None:
    """It computes for half of the time between calls."""
    taken = paced(steps=40)
    half = tuple(pause for pause in taken.ranks[0].pauses if pause.at_ns // ns(EVERY_MS) % 2)
    taken = replace(taken, ranks=(replace(taken.ranks[0], pauses=half), *taken.ranks[1:]))
    found = without(taken)
    assert found.ratio_low < 0.6 < found.ratio_high


def test_a_late_sample_is_no_sign_and_one_that_waits_for_the_gil_is() -> None:
    taken = paced()
    first = taken.ranks[0]
    late = tuple(wait._replace(waited_ns=1_000_000) if n % 2 else wait
                 for n, wait in enumerate(first.gil))  # fmt: skip
    seen = tuple(pause for n, pause in enumerate(first.pauses) if n % 2 == 0)
    of_late = replace(taken, ranks=(replace(first, gil=late, pauses=seen), *taken.ranks[1:]))
    assert without(of_late).ratio == pytest.approx(0.2, abs=0.05)
    held = tuple(wait._replace(waited_ns=8_000_000) if wait.waited_ns else wait for wait in late)
    of_held = replace(taken, ranks=(replace(first, gil=held, pauses=seen), *taken.ranks[1:]))
    assert without(of_held).ratio > 0.5


@pytest.mark.parametrize(
    ("why", "said"),
    [("lock", "waits for a lock, or another thread"), ("io", "waits for I/O, or for a time"),
     ("process", "waits for another process")],
)  # fmt: skip
def test_what_is_no_sleep_is_said_and_not_spared(why: str, said: str) -> None:
    taken = paced(why=why)
    assert f"Meanwhile worker0 {said} for 76 % of the time, at main.py:31." in diagnose(taken).text
    assert not sleeps(taken)


def test_what_waits_while_a_call_is_under_way_waits_for_that() -> None:
    """As a driver does that a callback wakes."""
    rows = [
        call(n, 100 * n, 100 * n + 90, served_ms=(100 * n + 1, 100 * n + 89), cpu_ms=0,
             run_queue_ms=0, site="main.py:30") for n in range(20)
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, 2000), processes=ranks(threads=16))
    waits = sampled(taken, [(100 * n + 1, 100 * n + 90) for n in range(20)], 2000, "lock")
    assert "worker0 waits" not in diagnose(waits).text


def test_a_trace_without_samples_says_what_it_did() -> None:
    taken = paced()
    bare = replace(taken, ranks=ranks(threads=16))
    assert not sleeps(bare)
    assert without(bare).why_not


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(5, 200), st.floats(0, 400)), min_size=2, max_size=12),
    st.booleans(),
)
def test_a_forecast_is_never_below_what_the_calls_take(
    steps: list[tuple[float, float]], is_open: bool
) -> None:
    """Whatever is slept: calls of a driver stay, and so does what it may wait for."""
    rows, naps, at = [], [], 0.0
    for n, (call_ms, nap_ms) in enumerate(steps):
        rows.append(call(n, at, at + call_ms, served_ms=(at, at + call_ms), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_sync", site="main.py:30"))  # fmt: skip
        naps.append((at + call_ms, at + call_ms + nap_ms))
        at += call_ms + nap_ms
    taken = trace(rows, window_ms=(0, at), processes=ranks(threads=16))
    found = without(sampled(taken, naps, at, is_open=is_open))
    if not found.why_not:
        least = sum(call_ms for call_ms, _ in steps) / at
        assert found.ratio >= least - 1e-6
        assert found.ratio_low <= found.ratio <= found.ratio_high


def test_a_search_forecasts_no_change_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: paced())
    (first, *_), _ = changes_by(Path(), (), most_s=60.0)
    assert first.sentence.startswith("no sleep of the driver")
    assert changes_by(Path(), (), most_s=0.0) == ((), ())


def test_the_screen_names_the_line_first() -> None:
    analysis = Analysis.of(paced(), forecasts_unasked=True, finds_changes=True)
    text = printed(print_trace, analysis, Shown())
    assert "Meanwhile worker0 sleeps for 76 % of the time, at main.py:31." in text.replace(
        "\n", " "
    )
    (first, *_) = text.split("What would make it faster (forecasts):\n")[1].splitlines()
    assert first.startswith("  main.py:31  no sleep of the driver (80 % of time)  5.00 times (")
    assert len(text.splitlines()) <= 30
