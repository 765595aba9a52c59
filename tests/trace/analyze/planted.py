"""Steps with a known critical path, repeated."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tests.trace.synthetic import Part, call, operator, ranks, simulate, trace
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.model.trace import Trace

STEP_MS = 10.0
COMPUTE = [Part("cpu", 5)]
SLEEP = [Part("sleep", 5)]
Rows = list[dict[str, Any]]


def repeated(
    step: Callable[[float, int], Rows],
    steps: int = 10,
    operators: Callable[[float], Rows] | None = None,
    **facts: Any,
) -> Trace:
    """A trace of so many steps of 10 ms; `step` gets its begin and the first free id of a call."""
    rows = [row for i in range(steps) for row in step(STEP_MS * i, 100 * i)]
    ran = [row for i in range(steps) for row in operators(STEP_MS * i)] if operators else []
    known: dict[str, Any] = {
        "processes": ranks(5), "window_ms": (0, STEP_MS * steps), "steps": steps,
    }  # fmt: skip
    return trace(rows, ran, **(known | facts))


def one_call(at: float, number: int, **columns: Any) -> dict[str, Any]:
    """A call of a whole step: 0.5 ms to issue it, 2.5 ms there, 5 ms served, 2 ms back."""
    issued_ns = round((at + 0.5) * 1e6)
    return call(number, at, at + 10, served_ms=(at + 3, at + 8), issued_ns=issued_ns, **columns)


def one_answered_call(after_ms: float, at: float, number: int) -> Rows:
    """Its thread pickles the answer for so long after it has served it."""
    return [one_call(at, number, answered_ns=round((at + 8 + after_ms) * 1e6))]


def half_a_call(at: float, number: int) -> Rows:
    """A call of 10 ms, and another one that is issued when half of it is over."""
    first = call(number, at, at + 10, served_ms=(at, at + 10), cpu_ms=4, run_queue_ms=2)
    return [first, call(number + 1, at + 5, at + 5.5, served_ms=(at + 5, at + 5.5))]


def one_measured_call(at: float, number: int) -> Rows:
    """Of the 5 ms that it is served, it is on the CPU for 2 and waits for one for 1."""
    return [one_call(at, number, cpu_ms=2, run_queue_ms=1)]


def shares(taken: Trace) -> dict[tuple[str, str, str], float]:
    """The share of each part, process and function; to a millionth."""
    table = critical_path(taken)
    keys: Iterable[tuple[str, str, str]] = zip(
        table["part"], table["process"], table["function"], strict=True
    )
    return dict(zip(keys, table["share"].round(6).tolist(), strict=True))


def a_chain_of_three(at: float, number: int) -> Rows:
    """worker0 waits for worker1, which waits for worker2, which waits for worker3."""
    return [
        call(number, at, at + 10, served_ms=(at + 1, at + 9), cpu_ms=1, run_queue_ms=0),
        call(
            number + 1, at + 1.5, at + 8.5, served_ms=(at + 2, at + 8), cpu_ms=1, run_queue_ms=0,
            client_rank=1, server_rank=2, parent_call=number, function="middle",
        ),
        call(
            number + 2, at + 2.5, at + 7.5, served_ms=(at + 3, at + 7), cpu_ms=0, run_queue_ms=0,
            client_rank=2, server_rank=3, parent_call=number + 1, function="last",
        ),
    ]  # fmt: skip


def in_parallel(at: float, number: int) -> Rows:
    """Three calls at once; the second one is the last to end."""
    return [
        call(number, at, at + 5, served_ms=(at + 1, at + 4), server_rank=1),
        call(number + 1, at + 0.1, at + 10, served_ms=(at + 1, at + 9), server_rank=2),
        call(number + 2, at + 0.2, at + 7, served_ms=(at + 1, at + 6), server_rank=3),
    ]


def a_batch(at: float, number: int) -> Rows:
    """Two observers ask the agent, which answers both when the second one has asked."""
    asks: dict[str, Any] = {"function": "select", "server_rank": 0, "kind": "rpc_sync"}
    return [
        call(number, at, at + 9, served_ms=(at + 1, at + 8), server_rank=1, function="run"),
        call(
            number + 1, at + 0.1, at + 8, served_ms=(at + 1, at + 7.5), server_rank=2,
            function="run",
        ),
        call(
            number + 2, at + 2, at + 7, served_ms=(at + 2.5, at + 2.6), client_rank=1,
            parent_call=number, done_ns=round((at + 6.5) * 1e6), **asks,
        ),
        call(
            number + 3, at + 6, at + 7, served_ms=(at + 6.2, at + 6.6), client_rank=2,
            parent_call=number + 1, done_ns=round((at + 6.6) * 1e6), **asks,
        ),
    ]  # fmt: skip


def on_a_thread_of_its_own(at: float, number: int) -> Rows:
    """The served function leaves its work to another thread, which calls worker2."""
    return [
        call(
            number, at, at + 9, served_ms=(at + 1, at + 1.2), done_ns=round((at + 8) * 1e6),
            function="train",
        ),
        call(
            number + 1, at + 4, at + 7, served_ms=(at + 5, at + 6), client_rank=1, server_rank=2,
            client_thread=99, function="report",
        ),
    ]  # fmt: skip


def a_remote_value(at: float, number: int) -> Rows:
    """`remote`, and `to_here`, which waits until the value is made."""
    return [
        call(number, at, at + 7, served_ms=(at + 1, at + 6), kind="rpc_remote", function="make"),
        call(number + 1, at + 0.5, at + 8, kind="to_here", body="fetch", function=""),
    ]


def beside_an_operator(at: float, number: int) -> Rows:
    """A call that ends while the caller computes, and one that it waits for after that."""
    return [
        call(number, at, at + 4, served_ms=(at + 1, at + 3)),
        call(number + 1, at + 0.1, at + 9, served_ms=(at + 1, at + 8), server_rank=2),
    ]


def the_callers_operator(at: float) -> Rows:
    """The caller computes from 1 ms to 6 ms; an operator in an operator counts once."""
    return [
        operator("aten::mm", at + 1, at + 6, rank=0, thread=1),
        operator("aten::mul", at + 2, at + 3, rank=0, thread=1),
    ]


def of_four_quarters(at: float, number: int) -> Rows:
    """A step that waits for 2.5 ms each for itself, the way, a computation, and a sleep."""
    return [
        call(number, at + 2.5, at + 6.25, served_ms=(at + 3.75, at + 6.25), cpu_ms=2.5,
             run_queue_ms=0),
        call(number + 1, at + 6.25, at + 10, served_ms=(at + 7.5, at + 10), server_rank=2,
             function="sleep", cpu_ms=0, run_queue_ms=0),
    ]  # fmt: skip


def two_functions(at: float, number: int) -> Rows:
    """Each on a server of its own."""
    return [
        call(number + i, begun, begun + 5, served_ms=(begun, begun + 5), server_rank=1 + i,
             function=f"f{i}")
        for i, begun in enumerate((at, at + 5))
    ]  # fmt: skip


def callers_operators(at: float) -> Rows:
    outer = operator("aten::linear", at + 2, at + 8, rank=0, thread=1)
    inner = operator("aten::addmm", at + 2.1, at + 7.9, rank=0, thread=1)
    return [outer, inner, operator("aten::mul", at + 1, at + 2, rank=0, thread=1)]


def waits_for_a_cpu(
    share: float, *, off: float = 0.0, cpu_s: float | None = None, size: int = 2
) -> Trace:
    """A second of calls, one by one, that wait for a CPU, and are off it, for these shares."""
    calls = [
        call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10),
             cpu_ms=10 * (1 - share - off), run_queue_ms=10 * share)
        for i in range(100)
    ]  # fmt: skip
    return trace(calls, processes=ranks(size, threads=1, cpu_count=2, cpu_s=cpu_s))


def serves(
    service: Sequence[Part], threads: int, at_once: int, **facts: Any
) -> Callable[[], Trace]:
    """A simulated server with so many threads, and a caller that makes so many calls at once."""
    return partial(simulate, service, threads=threads, at_once=at_once, **facts)
