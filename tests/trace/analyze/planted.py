"""Steps with a known critical path, repeated."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from testing.synthetic import Part, call, ns, operator, ranks, simulate, trace
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.model.spans import GilWait
from tuner.trace.model.trace import Trace

COMPUTE = [Part("cpu", 5)]
SLEEP = [Part("sleep", 5)]
Rows = list[dict[str, Any]]
Step = Callable[[float, int], Rows]
"""The calls of a step, by its begin and the first free id of a call."""
TIMES = {"issued_ms": "issued_ns", "answered_ms": "answered_ns", "done_ms": "done_ns"}


def step(*calls: tuple[float, float, tuple[float, float] | None, dict[str, Any]]) -> Step:
    """A step of these calls: when each begins and ends, when it is served, and its columns.

    Times are ms since the step's begin, and `parent` is the place of another call.
    """

    def planted(at: float, number: int) -> Rows:
        found = []
        for place, (start, end, served, columns) in enumerate(calls):
            known = {name: value for name, value in columns.items() if name not in TIMES}
            if "parent" in known:
                known["parent_call"] = number + known.pop("parent")
            known |= {TIMES[name]: ns(at + columns[name]) for name in TIMES if name in columns}
            there = served and (at + served[0], at + served[1])
            found.append(call(number + place, at + start, at + end, served_ms=there, **known))
        return found

    return planted


def repeated(
    of: Step, steps: int = 10, operators: Callable[[float], Rows] | None = None,
    step_ms: float = 10.0, **facts: Any,
) -> Trace:  # fmt: skip
    """A trace of so many steps."""
    rows = [row for i in range(steps) for row in of(step_ms * i, 100 * i)]
    ran = [row for i in range(steps) for row in operators(step_ms * i)] if operators else []
    known: dict[str, Any] = {"window_ms": (0, step_ms * steps), "steps": steps}
    return trace(rows, ran, **({"processes": ranks(5)} | known | facts))


def shares(taken: Trace) -> dict[tuple[str, str, str], float]:
    """The share of each part, process and function; to a millionth."""
    table = critical_path(taken).set_index(["part", "process", "function"])["share"]
    return dict(table.round(6).items())  # type: ignore[arg-type]


# 0.5 ms to issue it, 2.5 ms there, 5 ms served, 2 ms back. It is on the CPU for 2 ms and waits for
# one for 1; or its thread pickles the answer for 1.5 ms.
one_measured_call = step((0, 10, (3, 8), {"issued_ms": 0.5, "cpu_ms": 2, "run_queue_ms": 1}))
one_answered_call = step((0, 10, (3, 8), {"issued_ms": 0.5, "answered_ms": 9.5}))
# A call of 10 ms, and another one that is issued when half of it is over.
half_a_call = step((0, 10, (0, 10), {"cpu_ms": 4, "run_queue_ms": 2}), (5, 5.5, (5, 5.5), {}))
# worker0 waits for worker1, which waits for worker2, which waits for worker3.
a_chain_of_three = step(
    (0, 10, (1, 9), {"cpu_ms": 1, "run_queue_ms": 0}),
    (1.5, 8.5, (2, 8), {"cpu_ms": 1, "run_queue_ms": 0, "client_rank": 1, "server_rank": 2,
                        "parent": 0, "function": "middle"}),
    (2.5, 7.5, (3, 7), {"cpu_ms": 0, "run_queue_ms": 0, "client_rank": 2, "server_rank": 3,
                        "parent": 1, "function": "last"}),
)  # fmt: skip
# Three calls at once; the second one is the last to end.
in_parallel = step(
    (0, 5, (1, 4), {}), (0.1, 10, (1, 9), {"server_rank": 2}), (0.2, 7, (1, 6), {"server_rank": 3})
)
# Two observers ask the agent, which answers both when the second one has asked.
ASKS = {"function": "select", "server_rank": 0, "kind": "rpc_sync"}
a_batch = step(
    (0, 9, (1, 8), {"function": "run"}),
    (0.1, 8, (1, 7.5), {"server_rank": 2, "function": "run"}),
    (2, 7, (2.5, 2.6), {"client_rank": 1, "parent": 0, "done_ms": 6.5, **ASKS}),
    (6, 7, (6.2, 6.6), {"client_rank": 2, "parent": 1, "done_ms": 6.6, **ASKS}),
)
# The served function leaves its work to another thread, which calls worker2.
on_a_thread_of_its_own = step(
    (0, 9, (1, 1.2), {"done_ms": 8, "function": "train"}),
    (4, 7, (5, 6), {"client_rank": 1, "server_rank": 2, "client_thread": 99, "function": "report"}),
)
# `remote`, and `to_here`, which waits until the value is made.
a_remote_value = step(
    (0, 7, (1, 6), {"kind": "rpc_remote", "function": "make"}),
    (0.5, 8, None, {"kind": "to_here", "body": "fetch", "function": ""}),
)
# A call that ends while the caller computes, and one that it waits for after that.
beside_an_operator = step((0, 4, (1, 3), {}), (0.1, 9, (1, 8), {"server_rank": 2}))
# A step that waits for 2.5 ms each for itself, the way, a computation, and a sleep.
of_four_quarters = step(
    (2.5, 6.25, (3.75, 6.25), {"cpu_ms": 2.5, "run_queue_ms": 0}),
    (6.25, 10, (7.5, 10), {"server_rank": 2, "function": "sleep", "cpu_ms": 0, "run_queue_ms": 0}),
)
# Each on a server of its own.
two_functions = step(
    (0, 5, (0, 5), {"function": "f0"}), (5, 10, (5, 10), {"server_rank": 2, "function": "f1"})
)


def in_operators(at: float) -> Rows:
    """The caller computes from 1 ms to 8 ms; an operator in an operator counts once."""
    times = (("aten::linear", 2, 8), ("aten::addmm", 2.1, 7.9), ("aten::mul", 1, 2))
    return [operator(name, at + a, at + b, rank=0, thread=1) for name, a, b in times]


def waits_for_a_cpu(
    share: float, *, off: float = 0.0, cpu_s: float | None = None, size: int = 2
) -> Trace:
    """A second of calls, one by one, that wait for a CPU, and are off it, for these shares."""
    spent: dict[str, Any] = {"cpu_ms": 10 * (1 - share - off), "run_queue_ms": 10 * share}
    calls = [
        call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10), **spent) for i in range(100)
    ]
    return trace(calls, processes=ranks(size, threads=1, cpu_count=2, cpu_s=cpu_s))


def with_pools(
    taken: Trace, *, threads: Sequence[int | None], on_cpu: float = 0.8, waiting: float = 1.6
) -> Trace:
    """The ranks have so many intra-op threads each. Of the threads that operators have started, so
    many are on a CPU on average, and wait for one; none where a rank has one thread."""
    seconds = (taken.window_ns[1] or 10**9) / 1e9
    computing = max(1, sum((number or 2) > 1 for number in threads))
    processes = [
        replace(
            rank,
            intra_op_threads=number,
            pool_cpu_s=0.0 if number == 1 else on_cpu * seconds / computing,
            pool_run_queue_s=0.0 if number == 1 else waiting * seconds / computing,
        )
        for rank, number in zip(taken.ranks, threads, strict=True)
    ]
    return replace(taken, ranks=tuple(processes))


def serves(
    service: Sequence[Part], threads: int, at_once: int, **facts: Any
) -> Callable[[], Trace]:
    """A simulated server with so many threads, and a caller that makes so many calls at once."""
    return partial(simulate, service, threads=threads, at_once=at_once, **facts)


def sampled(
    taken: Trace, is_held: Callable[[float], bool], *, main_cpu_s: float | None = None
) -> Trace:
    """With samples of the GIL of worker1, every 5 ms; `is_held` at so many ms."""
    last_ms = taken.window_ns[1] / 1e6
    waits = tuple(
        GilWait(ns(at), ns(2.2) if is_held(at) else 0, ns(2.8))
        for at in (5.0 * number + 1.7 for number in range(int(last_ms / 5)))
    )
    process = replace(taken.ranks[1], gil=waits, main_cpu_s=main_cpu_s)
    return replace(taken, ranks=tuple(process if rank.rank == 1 else rank for rank in taken.ranks))


def one_at_a_time(threads: int = 16) -> Trace:
    """Eight calls at once that compute in Python from their first line to the last."""
    return simulate(
        [Part("cpu", 4.4)], threads=threads, at_once=8, steps=20, cpus=2, gil_throughout=True
    )
