"""Calls that are issued a step ahead: forecasts with a known truth."""

from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import call, ranks, trace
from tests.trace.forecast.test_changes import (
    FETCH,
    forecast,
    in_steps,
    kinds,
    one_after_another,
)
from tests.trace.forecast.test_sending import candidates_of
from tuner.trace.forecast.change import Change
from tuner.trace.model.trace import Trace


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
    candidates = [candidate for candidate in candidates_of(taken) if candidate.kind == "ahead"]
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
