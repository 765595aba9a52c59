"""Traces that timelines are drawn from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testing.synthetic import Part, call, operator, simulate, trace
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace


def stepped(steps: int, at_once: int = 4, threads: int = 2) -> Trace:
    """Steps of `at_once` calls; each takes a millisecond, and a thread serves one at a time."""
    made = simulate([Part("cpu", 1.0)], threads=threads, at_once=at_once, steps=steps)
    return replace(made, steps=steps)


def kineto(operators: Sequence[dict[str, Any]], threads: Sequence[tuple[int, str]]) -> Trace:
    rank = TraceRank(rank=1, name="rank 1", threads=tuple(threads))
    return replace(trace((), operators, processes=(rank,)), source="kineto")


def many_kinds() -> Trace:
    """Eight functions, one of them inferred, one call that never ended, operators."""
    calls = [
        call(n, n, n + 3, served_ms=(n, n + 3 - n / 10), thread=11 + n % 4, function=f"f{n}")
        for n in range(8)
    ]
    calls[1]["link"] = "inferred"
    calls[7]["server_end_ns"] = None
    return trace(calls, [operator("aten::mul", 4.1, 4.2, of=calls[4])], window_ms=(0, 12))
