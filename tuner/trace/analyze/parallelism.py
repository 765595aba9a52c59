"""How many threads of each server were at work at once.

A thread is at work from `server_start_ns` to `server_end_ns` of each call that it serves (of one
that never left it, to the window's end), or, seen from operators, while it is inside one. What
overlaps on one thread, as nested operators do, is united first, so no thread ever counts twice.
With L(t) the number of threads of a server at work at the time t, in a window of length W:

    mean            = integral of L over the window / W
    busy_fraction   = time with L > 0 / W
    mean_while_busy = integral of L over the window / time with L > 0
    max             = largest L
    efficiency      = mean_while_busy / num_worker_threads

A span that ends in the nanosecond in which another starts does not overlap with it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.analyze.intervals import (
    IntArray,
    Spans,
    Steps,
    group_codes,
    open_over_time,
    summed,
    united,
)
from tuner.trace.model.trace import Trace

Source = Literal["calls", "operators"]
"""What shows that a thread is at work: served calls, or the operators that calls ran. In a trace
without calls, as Kineto's are, all operators, and every rank is a server."""

PARALLELISM_COLUMNS = {
    "server": "str",
    "rank": "int64",
    "threads": "Int64",  # num_worker_threads; null where not known
    "mean": "float64",
    "busy_fraction": "float64",
    "mean_while_busy": "float64",
    "max": "int64",
    "efficiency": "float64",
    "calls": "int64",  # that it rests on
}
LEVEL_COLUMNS = {"server": "str", "level": "int64", "share": "float64"}
THREAD_COLUMNS = {"server": "str", "thread": "int64", "busy_fraction": "float64", "calls": "int64"}


class _Work(NamedTuple):
    """A row per span of work, a served call or an operator; times in nanoseconds."""

    rank: IntArray
    thread: IntArray
    """The kernel's thread id; negative, and another for each span, where that is not known."""
    start: IntArray
    end: IntArray
    call: IntArray
    """The call's id; -1 for none."""

    def take(self, where: NDArray[np.bool_]) -> "_Work":
        return _Work(*(values[where] for values in self))


def window(trace: Trace) -> tuple[int, int]:
    """From when to when the trace was taken, in nanoseconds; at least the extent of its events."""
    calls, operators = trace.calls, trace.operators
    of_calls = ("start_ns", "end_ns", "server_start_ns", "server_end_ns", "done_ns")
    times = [calls[column].dropna() for column in of_calls]
    times += [operators[column] for column in ("start_ns", "end_ns")]
    edges = list(trace.window_ns) if trace.window_ns[1] > trace.window_ns[0] else []
    for known in times:
        if len(known):
            edges += [int(known.min()), int(known.max())]
    return (min(edges), max(edges)) if edges else (0, 0)


def threads_at_work(trace: Trace, source: Source = "calls") -> dict[int, Steps]:
    """By the rank of each server, how many of its threads are at work over time."""
    work = _work(trace, source)
    return {rank: _steps(work.take(work.rank == rank)) for rank in _servers(work)}


def parallelism(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """One row per server, PARALLELISM_COLUMNS, by the module's formulas.

    `efficiency` is the share of its threads that a busy server kept at work. It is low also where
    there are more threads than the callers can fill, though those cost little.
    """
    work = _work(trace, source)
    opened, closed = window(trace)
    rows = []
    for rank in _servers(work):
        own = work.take(work.rank == rank)
        total_ns, busy_ns, highest = _extent(_steps(own))
        threads = _num_worker_threads(trace, rank)
        while_busy = _ratio(total_ns, busy_ns)
        mean, busy = _ratio(total_ns, closed - opened), _ratio(busy_ns, closed - opened)
        efficiency = _ratio(while_busy, threads or 0)
        calls = len(pd.unique(own.call[own.call >= 0]))
        name = server_name(trace, rank)
        rows.append((name, rank, threads, mean, busy, while_busy, highest, efficiency, calls))
    return _frame(rows, PARALLELISM_COLUMNS)


def levels(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """Per server and level, from 0 to its highest, the share of the window's time at that level."""
    opened, closed = window(trace)
    rows = []
    for rank, steps in threads_at_work(trace, source).items():
        time_ns = steps.time_at_level()
        time_ns[0] = (closed - opened) - time_ns[1:].sum()
        name = server_name(trace, rank)
        rows += [(name, level, _ratio(ns, closed - opened)) for level, ns in enumerate(time_ns)]
    return _frame(rows, LEVEL_COLUMNS)


def thread_use(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """Per thread of each server, the share of the window that it was at work, and its calls.

    RPC threads that never were at work are there too, where the trace names a server's threads.
    """
    work = _work(trace, source)
    opened, closed = window(trace)
    rows = []
    for rank in _servers(work):
        own = work.take((work.rank == rank) & (work.thread >= 0))
        code, threads = pd.factorize(own.thread)
        busy = united(Spans(code, own.start, own.end))
        busy_ns = summed(busy.group, busy.end - busy.start, len(threads))
        pairs = pd.DataFrame({"code": code, "call": own.call})[own.call >= 0].drop_duplicates()
        calls = np.bincount(pairs["code"], minlength=len(threads))
        use = {int(thread): (0.0, 0) for thread in _rpc_threads(trace, rank)}
        for thread, ns, count in zip(threads, busy_ns, calls, strict=True):
            use[int(thread)] = (_ratio(ns, closed - opened), int(count))
        name = server_name(trace, rank)
        rows += [(name, thread, *use[thread]) for thread in sorted(use)]
    return _frame(rows, THREAD_COLUMNS)


def remote_parallelism(trace: Trace) -> tuple[float, float]:
    """`mean_while_busy` over all servers, weighted by their busy time, and the largest `max`.

    From served calls; from operators where no call's serving is known; NaN where neither is.
    """
    source: Source = "calls" if trace.calls["server_start_ns"].notna().any() else "operators"
    extents = [_extent(steps) for steps in threads_at_work(trace, source).values()]
    if not extents:
        return (float("nan"), float("nan"))
    total_ns, busy_ns, highest = zip(*extents, strict=True)
    return (_ratio(sum(total_ns), sum(busy_ns)), float(max(highest)))


def server_name(trace: Trace, rank: int) -> str:
    """A rank's RPC name."""
    return next((known.name for known in trace.ranks if known.rank == rank), f"rank {rank}")


def _work(trace: Trace, source: Source) -> _Work:
    return _served_calls(trace) if source == "calls" else _remote_operators(trace)


def _served_calls(trace: Trace) -> _Work:
    calls = trace.calls[trace.calls["server_start_ns"].notna()]
    nowhere = -1 - np.arange(len(calls))
    thread = calls["server_thread"]
    return _Work(
        calls["server_rank"].to_numpy(),
        np.where(thread.isna(), nowhere, thread.to_numpy(dtype=np.int64, na_value=0)),
        calls["server_start_ns"].to_numpy(dtype=np.int64),
        calls["server_end_ns"].to_numpy(dtype=np.int64, na_value=window(trace)[1]),
        calls["call_id"].to_numpy(),
    )


def _remote_operators(trace: Trace) -> _Work:
    operators = trace.operators
    if len(trace.calls):
        operators = operators[(operators["call_name"] != "").to_numpy()]
    return _Work(
        operators["rank"].to_numpy(),
        operators["thread"].to_numpy(),
        operators["start_ns"].to_numpy(),
        operators["end_ns"].to_numpy(),
        operators["call_id"].to_numpy(dtype=np.int64, na_value=-1),
    )


def _servers(work: _Work) -> list[int]:
    """The ranks that served something."""
    return [int(rank) for rank in sorted(pd.unique(work.rank))]


def _steps(work: _Work) -> Steps:
    """How many threads are at work over time, of work on one rank."""
    busy = united(Spans(group_codes((work.thread,)), work.start, work.end))
    return open_over_time(busy.start, busy.end)


def _extent(steps: Steps) -> tuple[float, float, int]:
    """The integral of the level over time, the time above level 0, and the highest level."""
    time_ns = steps.time_at_level()
    return float(time_ns @ np.arange(len(time_ns))), float(time_ns[1:].sum()), len(time_ns) - 1


def _num_worker_threads(trace: Trace, rank: int) -> int | None:
    return next((known.num_worker_threads for known in trace.ranks if known.rank == rank), None)


def _rpc_threads(trace: Trace, rank: int) -> list[int]:
    """The RPC threads that the trace names."""
    named = next((known.threads for known in trace.ranks if known.rank == rank), ())
    return [thread for thread, role in named if role.startswith("RPC worker")]


def _frame(rows: Sequence[tuple[object, ...]], columns: dict[str, str]) -> pd.DataFrame:
    """A frame of rows, each column of its declared type."""
    return pd.DataFrame(rows, columns=pd.Index(columns)).astype(columns)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")
