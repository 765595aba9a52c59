"""What a GIL that is held does to a forecast: by transforming the program of a trace."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from testing.synthetic import Part, ns, simulate
from tests.trace.analyze.planted import one_at_a_time, sampled
from tuner.trace.forecast.forecasts import Model, WhatIf
from tuner.trace.forecast.program import COMPUTE, COMPUTE_WITH_GIL, ISSUE, Call, Op, Program, Root
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.model.trace import Trace


def model(taken: Trace) -> Model:
    found = Model.of(taken)
    assert isinstance(found, Model)
    return found


def ratios(of: Model, change: Callable[[Op], Op]) -> list[float]:
    """The time of each program of a model, with what its calls do changed."""
    return [
        replay(
            replace(program, calls=[
                replace(call, ops=[change(op) for op in call.ops]) for call in program.calls
            ]),
            of.machine,
        ).took_ns / base_ns
        for program, base_ns in zip(of.programs, of.base_ns, strict=True)
    ]  # fmt: skip


def test_half_the_work_takes_half_the_time_and_no_gil_as_the_cpus_allow() -> None:
    found = model(sampled(one_at_a_time(), lambda at: True))
    half = ratios(found, lambda op: (op[0], op[1] / 2) if op[0] == COMPUTE_WITH_GIL else op)
    free = ratios(found, lambda op: (COMPUTE, op[1]) if op[0] == COMPUTE_WITH_GIL else op)
    assert half == pytest.approx([0.51] * len(half), abs=0.03)
    assert free == pytest.approx([0.51] * len(free), abs=0.03)  # on two CPUs


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_more_threads_do_not_help_calls_that_hold_the_gil(threads: int) -> None:
    found = model(sampled(one_at_a_time(threads), lambda at: True))
    for asked in (1, 2, 8, 32):
        assert found.forecast(WhatIf(threads={"*": asked})).ratio == pytest.approx(1.0, abs=0.03)


def test_calls_of_native_code_run_beside_each_other() -> None:
    taken = sampled(
        simulate([Part("cpu", 4.4)], threads=1, at_once=8, steps=20, cpus=8), lambda at: False
    )
    found = model(taken).forecast(WhatIf(threads={"*": 8}))
    assert found.why_not or found.ratio_low < 0.3


def test_answers_are_unpickled_one_after_another_with_the_gil_of_the_client() -> None:
    calls = [
        Call(0, 1, "f", 0.0, 0.0, [], receives=[(COMPUTE_WITH_GIL, float(ns(2)))]) for _ in range(8)
    ]
    root = Root(0, 0.0, [(ISSUE, place) for place in range(8)] + [(6, 0.0)], is_driver=True)
    program = Program(["a", "b"], [0, 0], calls, [root])
    took = [replay(program, Machine([threads, 4], [8.0], [0.0])).took_ns for threads in (1, 4)]
    assert took == pytest.approx([ns(16), ns(16)])
