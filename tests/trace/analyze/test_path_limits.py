"""Planted limits: each alone, two at once, none; and that noise names none that does not hold."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.trace.analyze.diagnosed import COMPUTE, SLEEP, said, waits_for_a_cpu
from tests.trace.analyze.planted import Rows, repeated
from tests.trace.synthetic import Part, call, operator, ranks, simulate, trace
from tuner.trace.analyze.critical_path import SURE, Share, share_of
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.path_limits import COMPARABLE, LARGE, MOST_LIMITS, Limit, limits_of
from tuner.trace.analyze.path_limits import said as told
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace


def kinds(taken: Trace) -> list[str]:
    return [limit.kind for limit in diagnose(taken).limits]


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("caller", simulate(COMPUTE, threads=4, at_once=1, think_ms=30, steps=20)),
        ("wire", simulate([Part("cpu", 0.1)], threads=4, at_once=1, way_ms=2, steps=20)),
        ("queue", simulate(COMPUTE, threads=1, at_once=6)),
        ("dispatch", simulate(COMPUTE, threads=16, at_once=6, gil_throughout=True)),
        ("on_cpu", simulate(COMPUTE, threads=4, at_once=4)),
        ("run_queue", simulate([Part("cpu", 0.1)] * 30, threads=8, at_once=8, cpus=2)),
        ("off_cpu", simulate(SLEEP, threads=4, at_once=4)),
        ("off_cpu", simulate([Part("gil", 0.1)] * 30, threads=6, at_once=6)),
    ],
)
def test_each_limit_alone(kind: str, taken: Trace) -> None:
    assert kinds(taken) == [kind]


@pytest.mark.parametrize(
    ("both", "taken"),
    [
        ({"caller", "on_cpu"}, simulate(COMPUTE, threads=4, at_once=1, think_ms=5, steps=20)),
        ({"caller", "wire"}, simulate([], threads=4, at_once=1, think_ms=4, way_ms=2, steps=20)),
        ({"wire", "off_cpu"}, simulate(SLEEP, threads=4, at_once=1, way_ms=2.5, steps=20)),
        ({"queue", "off_cpu"}, simulate(SLEEP, threads=1, at_once=2, steps=20)),
        ({"on_cpu", "run_queue"}, waits_for_a_cpu(0.5)),
    ],
)
def test_two_limits_at_once(both: set[str], taken: Trace) -> None:
    assert set(kinds(taken)) == both
    text = diagnose(taken).text
    assert text.startswith("Two things limit worker0: for ")


def of_four_quarters(at: float, number: int) -> Rows:
    """A step that waits for 2.5 ms each for itself, the way, a computation, and a sleep."""
    return [
        call(
            number, at + 2.5, at + 6.25, served_ms=(at + 3.75, at + 6.25), cpu_ms=2.5,
            run_queue_ms=0,
        ),
        call(
            number + 1, at + 6.25, at + 10, served_ms=(at + 7.5, at + 10), cpu_ms=0,
            run_queue_ms=0, server_rank=2, function="sleep",
        ),
    ]  # fmt: skip


def test_where_nothing_stands_out_the_largest_shares_are_said() -> None:
    shares = ["; for 25 %", " of the time it waited"] * 2
    said(
        repeated(of_four_quarters),
        "no-clear-limit",
        "No clear limit of worker0: for 25 %",
        " of the time it waited",
        *shares,
    )


def of_two_servers(*names: str) -> Trace:
    """The agent waits for the two others in turn."""
    processes = tuple(TraceRank(rank=i, name=name) for i, name in enumerate(("agent", *names)))

    def step(at: float, number: int) -> Rows:
        env = 1 + number // 100 % 2
        columns: dict[str, Any] = {
            "client": "agent", "server": processes[env].name, "server_rank": env,
        }  # fmt: skip
        return [call(number, at, at + 10, served_ms=(at + 1, at + 9), function="act", **columns)]

    return repeated(step, steps=100, processes=processes)


@pytest.mark.parametrize(
    ("names", "roles"), [(("env1", "env2"), ()), (("east", "west"), [("env", "east|west")])]
)
def test_processes_of_a_role_are_one_limit_together(
    names: tuple[str, str], roles: list[tuple[str, str]]
) -> None:
    found = diagnose(of_two_servers(*names), roles)
    (limit,) = found.limits
    assert set(limit.processes) == set(names)
    assert limit.share.share == pytest.approx(0.8)
    assert "are the limit: for 80 % of the time, agent waited while act ran on" in found.text


def test_processes_of_a_role_that_do_different_things_are_different_limits() -> None:
    def step(at: float, number: int) -> Rows:
        return [
            call(number + i, at + 5 * i, at + 5 * i + 5, served_ms=(at + 5 * i, at + 5 * i + 5),
                 server_rank=1 + i, function=f"f{i}")
            for i in range(2)
        ]  # fmt: skip

    found = diagnose(repeated(step, steps=20))
    assert {limit.processes: limit.functions for limit in found.limits} == {
        ("worker1",): ("f0",),
        ("worker2",): ("f1",),
    }


def in_two_phases(*, threads: int = 2) -> Trace:
    """Sixty calls of one function, and then sixty of another one."""
    taken = simulate([Part("sleep", 10)], threads=threads, at_once=60, steps=2)
    function = pd.Series(np.where(taken.calls["call_id"] < 60, "look_up", "score"))
    return replace(taken, calls=taken.calls.assign(function=function.astype("category")))


def test_a_server_is_short_of_threads_whatever_its_calls_run() -> None:
    text = said(in_two_phases(), "blocked-threads", "worker1 is the limit")
    assert "waited for calls of look_up and score that waited for a thread of worker1" in text
    assert "more threads help" in text
    (limit,) = diagnose(in_two_phases()).limits
    assert limit.share.share > 0.9
    assert limit.share.low > 0.8


@pytest.mark.parametrize(
    ("size", "said_of"),
    [
        (27_000_000, "These are 36 requests of 27 MB each. No option of RPC makes that faster: "
         "send the data once, send tensors instead of Python objects, or make fewer calls."),
        (300, "These are 36 requests of 300 bytes each. No option of RPC makes that faster: make "
         "fewer and larger calls."),
        (None, "No option of RPC makes that faster: send the data once"),
    ],
)  # fmt: skip
def test_a_process_that_pickles_is_the_limit(size: int | None, said_of: str) -> None:
    """It sends a large object to three others, and pickles it for each of them."""

    def step(at: float, number: int) -> Rows:
        return [
            call(
                number + i, at + 3 * i, at + 9.9, served_ms=(at + 9.7, at + 9.8),
                issued_ns=round((at + 3 * i + 2.8) * 1e6), function="set_up", server_rank=1 + i,
                request_bytes=size,
            )
            for i in range(3)
        ]  # fmt: skip

    said(
        repeated(step, steps=12),
        "pickling",
        "worker0 is the limit: for 84 % of the time, worker0 pickled requests of set_up. "
        f"{said_of}",
    )


def test_a_share_that_is_not_known_is_no_finding() -> None:
    """One of a few calls takes as long as all the others together, and does something else."""

    def one_is_long(calls: int) -> Trace:
        starts = np.cumsum([0, *(calls - 1 if i == 3 else 1 for i in range(calls))])
        rows = [
            call(i, at, until, served_ms=(at, until if i == 3 else at), cpu_ms=0, run_queue_ms=0)
            for i, (at, until) in enumerate(pairwise(starts.tolist()))
        ]
        return trace(rows, processes=ranks())

    few = ": it made only 12 calls, too few to say what limits it."
    said(one_is_long(12), "no-clear-limit", "No clear limit of worker0", few)
    many = ": what it waited for differs too much over the time."
    said(one_is_long(30), "no-clear-limit", many)


def test_only_what_is_known_is_said() -> None:
    sure = drawn_share("queue", 0.5, 0.3, 0.7)
    beside = drawn_share("caller", 0.21, 0.0, 0.52)
    assert "21 %" not in told("a", 100, [sure, beside], limits_of([sure, beside]))
    known, unknown = drawn_share("queue", 0.19, 0.15, 0.23), drawn_share("caller", 0.18, 0.0, 0.9)
    assert told("a", 100, [known, unknown], []) == (
        "No clear limit of a: for 19 % (15-23 %) of the time it waited for calls of f that waited "
        "for a thread of b."
    )


def drawn_share(kind: str, middle: float, low: float, high: float) -> Limit:
    return Limit(kind=kind, processes=("b",), functions=("f",), share=Share(middle, low, high))


def test_a_limit_is_a_large_share_whose_interval_holds() -> None:
    def share(middle: float, reach: float) -> Limit:
        return drawn_share("served", middle, middle - reach, middle + reach)

    sure, unsure = share(LARGE + 0.01, LARGE - SURE), share(LARGE + 0.01, LARGE - SURE + 0.02)
    assert limits_of([sure]) == [sure]
    assert limits_of([unsure]) == []
    assert limits_of([share(LARGE - 0.01, 0.0)]) == []
    assert limits_of([sure, unsure, share(0.1, 0.01)]) == [sure]
    largest = share(0.7, 0.01)
    assert limits_of([largest, share(0.7 * COMPARABLE - 0.01, 0.01)]) == [largest]
    assert len(limits_of([largest, share(0.7 * COMPARABLE + 0.01, 0.01)])) == 2
    assert limits_of([sure] * MOST_LIMITS) == [sure] * MOST_LIMITS
    assert limits_of([sure] * (MOST_LIMITS + 1)) == []
    assert limits_of([drawn_share("caller", 0.9, np.nan, np.nan)]) == []
    assert limits_of([]) == []


def drawn(seed: int, mean: list[float], steps: int = 30) -> list[Limit]:
    """Shares of steps of 10 ms, whose parts vary by a third from step to step."""
    rng = np.random.default_rng(seed)
    time = np.array(mean) * rng.lognormal(-0.054, 0.33, (steps, len(mean)))
    total = np.maximum(time.sum(axis=1), 10.0)
    limits = [
        Limit(
            kind="served", processes=(f"worker{i}",), functions=("f",), share=share_of(part, total)
        )
        for i, part in enumerate(time.T, start=1)
    ]
    return sorted(limits, key=lambda limit: -limit.share.share)


def test_what_is_named_in_one_run_is_at_least_said_in_the_next() -> None:
    """The share of worker2 is LARGE, so that chance decides whether it is a limit."""
    runs = [drawn(seed, [4.5, 10 * LARGE, 1.0]) for seed in range(400)]
    named = [sum("worker2" in limit.phrase("a") for limit in limits_of(shares)) for shares in runs]
    assert 0 < sum(named) < len(runs)
    assert all("worker2" in told("a", 30, shares, limits_of(shares)) for shares in runs)


def caller(cpu_s: float | None, run_queue_s: float | None, **columns: Any) -> Trace:
    """A caller that waits for no call for 90 % of a tenth of a second."""
    driver = TraceRank(
        rank=0, name="worker0", pid=1, main_cpu_s=cpu_s, main_run_queue_s=run_queue_s
    )
    return repeated(
        lambda at, number: [call(number, at, at + 1, served_ms=(at, at + 1))],
        processes=(driver, *ranks()[1:]),
        **columns,
    )


@pytest.mark.parametrize(
    ("cpu_s", "run_queue_s", "phrase"),
    [
        (0.08, 0.001, "Meanwhile worker0 computes: its main thread was on the CPU for 80 % of the "
         "time and waited for a free one for 1 %."),
        (0.01, 0.06, "Meanwhile worker0 waits for a free CPU: its main thread was on the CPU for "
         "10 % of the time and waited for a free one for 60 %."),
        (0.005, 0.0, "Meanwhile worker0 sleeps, or waits for I/O, a lock, the GIL or a call that "
         "is not recorded: its main"),
        (0.08, None, "its main thread was on the CPU for 80 % of the time."),
        (None, None, "The trace does not tell whether worker0 computes meanwhile."),
    ],
)  # fmt: skip
def test_what_the_caller_does_meanwhile(
    cpu_s: float | None, run_queue_s: float | None, phrase: str
) -> None:
    said(
        caller(cpu_s, run_queue_s),
        "caller",
        "The caller is the limit: for 90 % of the time, worker0 waited for no call.",
        phrase,
    )


def test_what_the_caller_used_before_its_first_call_is_not_what_it_does_meanwhile() -> None:
    """It computes for 1.5 s, and then sleeps between calls for a tenth of a second."""
    said(
        replace(caller(1.5, 0.0, window_ms=(-1500, 100)), steps=None),
        "caller",
        "The trace does not tell whether worker0 computes meanwhile: its CPU time is known of the "
        "whole recording only.",
    )


@pytest.mark.parametrize("cpu_s", [0.08, None])
def test_the_callers_busiest_operator_is_named(cpu_s: float | None) -> None:
    def operators(at: float) -> Rows:
        outer = operator("aten::linear", at + 2, at + 8, rank=0, thread=1)
        inner = operator("aten::addmm", at + 2.1, at + 7.9, rank=0, thread=1)
        return [outer, inner, operator("aten::mul", at + 1, at + 2, rank=0, thread=1)]

    text = said(caller(cpu_s, 0.0, operators=operators), "caller", "aten::linear takes the most")
    assert "of its operators, aten::linear takes the most, 60 % of the time" in text
