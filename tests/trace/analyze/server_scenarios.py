"""Planted servers: one scenario and more for each rule, and for each knob that may help."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from testing.synthetic import Part, call, ns, operator, ranks, simulate, trace
from tests.trace.analyze.planted import (
    COMPUTE,
    SLEEP,
    Rows,
    one_at_a_time,
    sampled,
    serves,
    waits_for_a_cpu,
    with_pools,
)
from tuner.trace.model.trace import Trace

LOCK = [Part("lock", 5)]
PYTHON = [Part("gil", 0.1)] * 30
"""Short turns with the GIL, as the interpreter gives them."""
MAIN = 77
"""Of rank 0, the thread id of the main thread."""


def with_mains(taken: Trace, *computes: float, run_queue: float = 0.0) -> Trace:
    """The main thread of each rank, the first ones first, is on the CPU for such a share."""
    seconds = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    processes = [
        replace(rank, pid=MAIN + rank.rank, main_cpu_s=share * seconds,
                main_run_queue_s=run_queue * seconds)
        for rank, share in zip(taken.ranks, computes, strict=True)
    ]  # fmt: skip
    return replace(taken, ranks=tuple(processes))


def one_by_one(
    *, there: float, served: float = 0.1, numbers: Sequence[int] = range(40), **columns: Any
) -> Rows:
    """40 calls of 10 ms that take so many ms to begin, and so many to be served."""
    return [
        call(i, 10 * i, 10 * i + 10, served_ms=(10 * i + there, 10 * i + there + served),
             cpu_ms=0.1, run_queue_ms=0, **columns)
        for i in numbers
    ]  # fmt: skip


def beside_a_main(calls: Rows, computes: float = 0.9, operators_ms: float = 0.0) -> Trace:
    """The server's main thread computes, part of it in an operator beside each call."""
    ran = [operator("aten::mm", 10 * i, 10 * i + operators_ms, rank=1, thread=MAIN + 1)
           for i in range(40)]  # fmt: skip
    events = ran if operators_ms else []
    return with_mains(trace(calls, events, processes=ranks(), window_ms=(0, 400)), 0, computes)


def beside_threads(computes: float, operators_ms: float = 0.0) -> Trace:
    """Other threads of the server than the main one compute, which waits."""
    taken = beside_a_main(one_by_one(there=6), 0.02, operators_ms)
    first, server = taken.ranks
    seconds = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    server = replace(server, others_cpu_s=computes * seconds, others_run_queue_s=0.0)
    return replace(taken, ranks=(first, server))


def all_cpus_used(part: Part, threads: int) -> Trace:
    """The main thread computes, all CPUs are in use, and neither is what the calls wait for."""
    taken = simulate([part], threads=threads, at_once=8, cpus=2)
    seconds = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    processes = [replace(rank, cpu_s=seconds) for rank in taken.ranks]
    return with_mains(replace(taken, ranks=tuple(processes)), 0, 0.9)


def a_ready_driver(run_queue: float, cpu_s: float = 0.4) -> Trace:
    """What it waits for lies on the way of its calls: to wake, a thread needs a CPU."""
    calls = one_by_one(there=3, client_thread=MAIN)
    taken = trace(calls, processes=ranks(cpu_count=2, cpu_s=cpu_s), window_ms=(0, 400))
    return with_mains(taken, 0.2, 0, run_queue=run_queue)


def in_python(threads: int) -> Trace:
    """Calls that compute in Python, one at a time, and samples that say so."""
    return sampled(one_at_a_time(threads), lambda at: True)


def short_calls() -> Trace:
    """Calls one after another that take from 0.2 to 6 ms to begin."""
    calls = [
        call(number, 8 * number, 8 * number + 7, served_ms=(8 * number + there, 8 * number + 6.5),
             cpu_ms=6.5 - there, run_queue_ms=0)
        for number in range(60) for there in [0.2 if number % 20 == 0 else 6]
    ]  # fmt: skip
    return trace(calls, processes=ranks(cpu_count=2), window_ms=(0, 480))


def answers(number: int, tensors: int) -> Trace:
    """Calls whose answers take 3 ms to pickle, 4 to arrive and 2 to unpickle."""
    calls = [
        call(each, at, at + 10, served_ms=(at + 0.1, at + 1), cpu_ms=0.9, run_queue_ms=0,
             answered_ns=ns(at + 4), answer_tensors=tensors, received_ns=ns(at + 8))
        for each in range(number) for at in [10.0 * each]
    ]  # fmt: skip
    return trace(calls, processes=ranks(cpu_count=2), window_ms=(0, 10 * number))


def beside_a_caller(calls: int = 100, cpu_s: float | None = None) -> Trace:
    """Calls of a millisecond each, and a second in which the driver's main thread waits for none
    else."""
    rows = [
        call(i, 10 * i, 10 * i + 1, served_ms=(10 * i, 10 * i + 1), cpu_ms=1, run_queue_ms=0,
             client_thread=MAIN)
        for i in range(calls)
    ]  # fmt: skip
    return trace(rows, processes=ranks(cpu_count=2, cpu_s=cpu_s), window_ms=(0, 1000))


SERVERS: dict[str, Callable[[], Trace]] = {
    # Threads that are off the CPU.
    "four threads that sleep and begin together": serves([Part("sleep", 1000)], 4, 8, steps=2),
    "threads that sleep, and no call waits": serves(SLEEP, 4, 4),
    "threads that wait for calls of their own": serves([Part("cpu", 0.1), Part("call", 5)], 2, 8),
    # Full logical CPUs, and the knob cpu_binding.
    "8 threads on 2 CPUs in turns": serves([Part("cpu", 0.1)] * 30, 8, 8, cpus=2),
    "2 threads on 2 CPUs": serves(COMPUTE, 2, 8, cpus=2),
    "ranks that hold all CPUs": partial(waits_for_a_cpu, 0.12, cpu_s=1.0),
    "others that hold the CPUs": partial(waits_for_a_cpu, 0.4, cpu_s=0.4),
    "sleeps for longer than it waits for a CPU": partial(waits_for_a_cpu, 0.25, off=0.4),
    "three ranks on 2 CPUs that poll": partial(waits_for_a_cpu, 0.12, cpu_s=0.7, size=3),
    "three ranks on 2 CPUs whose main threads compute": lambda: with_mains(
        replace(waits_for_a_cpu(0.12, cpu_s=0.7, size=3), window_ns=(0, 10**9)), 0.6, 0, 0.6
    ),
    # Pools of intra-op threads, and the knob intra_op_threads.
    "three ranks on 2 CPUs whose pools compete": lambda: with_pools(
        waits_for_a_cpu(0.12, cpu_s=0.6, size=3), threads=(2, 2, 2)
    ),
    "their pools have room": lambda: with_pools(
        waits_for_a_cpu(0.12, cpu_s=0.6, size=3), threads=(2, 1, 1)
    ),
    "calls sleep, or wait for a pool": lambda: with_pools(
        waits_for_a_cpu(0.02, off=0.9, cpu_s=0.9), threads=(2, 2)
    ),
    "the driver computes with its pool": lambda: with_pools(
        with_mains(beside_a_caller(cpu_s=0.9), 0.3, 0.0), threads=(2, 2)
    ),
    "pools compete beside few calls": lambda: with_pools(
        beside_a_caller(calls=3, cpu_s=0.9), threads=(2, 2)
    ),
    # The GIL, or a lock.
    "Python on 4 threads": serves(PYTHON, 4, 6),
    "Python on 16 threads": serves(PYTHON, 16, 6),
    "Python in 4 calls on 4 threads": serves(PYTHON, 4, 4),
    "Python with short operators": serves([Part("gil", 0.1), Part("operator", 0.02)] * 20, 4, 6),
    "the GIL held throughout": serves(COMPUTE, 16, 4, gil_throughout=True),
    "a lock": serves(LOCK, 4, 8),
    "Python for half of the time": serves([Part("gil", 0.1), Part("cpu", 0.1)] * 20, 4, 6),
    "no operator though they are recorded": serves([Part("cpu", 2)], 1, 4, operators_recorded=True),
    "one thread in Python": serves([Part("gil", 0.08), Part("operator", 0.02)] * 20, 1, 4),
    "four threads that use one CPU by chance": serves([Part("cpu", 1), Part("sleep", 3)], 4, 6),
    "the same with calls of their own": serves([Part("cpu", 1), Part("call", 3)], 4, 4),
    # Who holds the GIL, where samples say so.
    **{
        f"samples of calls in Python on {threads} threads": partial(in_python, threads)
        for threads in (1, 16)
    },
    "samples of a main thread in Python": lambda: sampled(
        short_calls(), lambda at: True, main_cpu_s=0.5
    ),
    "samples of other threads in Python": lambda: sampled(
        short_calls(), lambda at: True, main_cpu_s=0.0
    ),
    "answers of 4,000 tensors": lambda: answers(60, tensors=4000),
    "answers of large objects": lambda: answers(60, tensors=0),
    # Too few threads.
    "one thread that computes": serves(COMPUTE, 1, 4),
    "two threads that compute": serves(COMPUTE, 2, 8),
    "two threads, and the trace says nothing of them": serves(
        COMPUTE, 2, 8, processes=ranks(threads=None)
    ),
    "one thread in long operators": serves([Part("gil", 0.02), Part("operator", 0.08)] * 20, 1, 4),
    "two threads on 4 CPUs": serves(COMPUTE, 2, 8, cpus=4),
    "two threads on 4 CPUs that are full": serves(
        COMPUTE, 2, 8, steps=5, processes=ranks(threads=2, cpu_count=4, cpu_s=0.2)
    ),
    "one thread whose CPU times are unknown": lambda: replace(
        trace(),
        ranks=ranks(threads=1),
        calls=simulate(COMPUTE, threads=1, at_once=4).calls.assign(cpu_ns=None, run_queue_ns=None),
    ),
    # The knob switch_interval: the server's main thread computes.
    "waits for the GIL": partial(beside_a_main, one_by_one(there=6)),
    "waits for the GIL on its way and served": partial(
        beside_a_main, one_by_one(there=4.5, served=4)
    ),
    "the main thread is idle": partial(beside_a_main, one_by_one(there=6), 0.1),
    "a thread beside the main one computes": partial(beside_threads, 0.9),
    "threads beside the main one compute on several CPUs": partial(beside_threads, 3.0),
    "a thread beside the main one hardly computes": partial(beside_threads, 0.2),
    "a thread beside the main one computes in operators": partial(beside_threads, 0.9, 9.0),
    "calls sleep, and the main thread does not": partial(
        beside_a_main, one_by_one(there=0.1, served=9.8)
    ),
    "the GIL is given up sooner": partial(beside_a_main, one_by_one(there=2)),
    "much data": partial(beside_a_main, one_by_one(there=6, request_bytes=1_000_000)),
    "few calls wait": partial(
        beside_a_main,
        one_by_one(there=6, numbers=range(7)) + one_by_one(there=0.1, numbers=range(7, 40)),
    ),
    "waits of any length": partial(
        beside_a_main,
        one_by_one(there=6, numbers=range(29)) + one_by_one(there=2, numbers=range(29, 40)),
    ),
    **{
        f"the main thread is in operators for {ms} ms of 10": partial(
            beside_a_main, one_by_one(there=6), operators_ms=ms
        )
        for ms in (8, 2, 0.02)
    },
    "the main thread may have computed before the first call": lambda: replace(
        beside_a_main(one_by_one(there=6), 1.0), window_ns=(-400_000_000, 400_000_000)
    ),
    **{
        f"the main thread computes, and calls {part.kind} on {threads} threads": partial(
            all_cpus_used, part, threads
        )
        for part, threads in (
            (Part("lock", 5), 4),
            (Part("lock", 5), 16),
            (Part("sleep", 10), 1),
            (Part("cpu", 5), 8),
        )
    },
    "a driver that waits for a CPU": partial(a_ready_driver, 0.2),
    "a driver that hardly waits for a CPU": partial(a_ready_driver, 0.05),
    "a driver that waits though CPUs are free": partial(a_ready_driver, 0.2, cpu_s=0.2),
}
