"""Parallelism: calls, or remote operators, that a server ran at once.

It is counted in threads, each of which runs one call at a time. A thread is at work from
`server_start_ns` to `server_end_ns` of each call that it runs, or to the end of the window if the
call never left it. Then it pickles the answer: it is not free (`threads_taken`), but that is
none of the work that is counted. If operators are counted, it is at work while it is
inside one. Spans that overlap on one thread, as those of nested operators do, are united first, so
no thread counts twice.
With L(t) the number of a server's threads at work at the time t, in a window of length W:

    mean            = integral of L over the window / W
    busy_fraction   = time with L > 0 / W
    mean_while_busy = integral of L over the window / time with L > 0
    max             = largest L
    efficiency      = mean_while_busy / num_worker_threads

Two spans do not overlap if one ends in the nanosecond in which the other starts.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.analyze.time_spans import (
    IntArray,
    Spans,
    Steps,
    group_codes,
    open_over_time,
    summed,
    united,
)
from tuner.trace.model.trace import UNKNOWN_RANK, Trace

Source = Literal["calls", "operators"]
"""What shows that a thread is at work: served calls, or remote operators. In a trace that links no
operator to a call, such as one of Kineto, all operators of the servers count; without calls, or if
a server's rank is not known, every rank is a server."""

PARALLELISM_COLUMNS = {
    "server": "str",
    "rank": "int64",
    "threads": "Int64",  # num_worker_threads; null where not known
    "mean": "float64",
    "busy_fraction": "float64",
    "mean_while_busy": "float64",
    "max": "int64",
    "efficiency": "float64",
    "calls": "int64",  # from which the numbers are
}
LEVEL_COLUMNS = {"server": "str", "level": "int64", "share": "float64"}
THREAD_COLUMNS = {"server": "str", "thread": "int64", "busy_fraction": "float64", "calls": "int64"}


class _Work(NamedTuple):
    """One row per served call or remote operator; times in nanoseconds."""

    rank: IntArray
    thread: IntArray
    """The kernel's thread id; if it is unknown, a negative number of the row's own."""
    start: IntArray
    end: IntArray
    call: IntArray
    """The call's id; -1 for none."""

    def take(self, where: NDArray[np.bool_]) -> "_Work":
        return _Work(*(values[where] for values in self))


def window(trace: Trace) -> tuple[int, int]:
    """Start and end of the trace in nanoseconds, widened to contain all its events."""
    calls, operators = trace.calls, trace.operators
    of_calls = ("start_ns", "end_ns", "server_start_ns", "server_end_ns", "answered_ns", "done_ns")
    times = [calls[column].dropna() for column in of_calls]
    times += [operators[column] for column in ("start_ns", "end_ns")]
    edges = list(trace.window_ns) if trace.window_ns[1] > trace.window_ns[0] else []
    for known in times:
        if len(known):
            edges += [int(known.min()), int(known.max())]
    return (min(edges), max(edges)) if edges else (0, 0)


def threads_at_work(trace: Trace, source: Source = "calls") -> dict[int, Steps]:
    """How many threads of each server are at work over time, by the server's rank."""
    work = _work(trace, source)
    return {rank: _steps(work.take(work.rank == rank)) for rank in _servers(work)}


def threads_taken(trace: Trace) -> dict[int, Steps]:
    """How many threads of each server are not free: at work, or pickling the answer of a call."""
    work = _served_calls(trace, with_answer=True)
    return {rank: _steps(work.take(work.rank == rank)) for rank in _servers(work)}


def parallelism(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """The parallelism of each server, by the formulas of this module.

    Args:
        trace: Any trace.
        source: Whether to count calls or remote operators.

    Returns:
        PARALLELISM_COLUMNS, one row per server, by rank. `mean_while_busy` is the mean while any
        call, or operator, ran; `mean` is over the whole window; `busy_fraction` and `efficiency`
        are fractions. `efficiency` is the share of its threads that a busy server kept at work; it
        is also low if there are more threads than the callers can fill, though those cost little.
    """
    work = _work(trace, source)
    opened, closed = window(trace)
    rows = []
    for rank in _servers(work):
        own = work.take(work.rank == rank)
        total_ns, busy_ns, highest = _extent(_steps(own))
        process = trace.process(rank)
        threads = process.num_worker_threads if process else None
        while_busy = _ratio(total_ns, busy_ns)
        mean, busy = _ratio(total_ns, closed - opened), _ratio(busy_ns, closed - opened)
        efficiency = _ratio(while_busy, threads or 0)
        calls = len(pd.unique(own.call[own.call >= 0]))
        name = server_name(trace, rank)
        rows.append((name, rank, threads, mean, busy, while_busy, highest, efficiency, calls))
    return _frame(rows, PARALLELISM_COLUMNS)


def levels(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """How long each server had how many threads at work.

    Args:
        trace: Any trace.
        source: Whether to count calls or remote operators.

    Returns:
        LEVEL_COLUMNS, one row per server and level, from 0 to the server's highest. `level` is the
        number of threads at work, `share` the fraction of the window at that level.
    """
    opened, closed = window(trace)
    rows = []
    for rank, steps in threads_at_work(trace, source).items():
        time_ns = steps.time_at_level()
        time_ns[0] = (closed - opened) - time_ns[1:].sum()
        name = server_name(trace, rank)
        rows += [(name, level, _ratio(ns, closed - opened)) for level, ns in enumerate(time_ns)]
    return _frame(rows, LEVEL_COLUMNS)


def thread_use(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """How busy each thread of each server was.

    Args:
        trace: Any trace.
        source: Whether to count calls or remote operators.

    Returns:
        THREAD_COLUMNS, one row per thread: the kernel's id, the fraction of the window in which it
        was at work, and its number of calls. RPC threads that were never at work are included if
        the trace names them.
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
    """The parallelism of all servers together.

    Args:
        trace: Any trace. Calls are counted if servers' spans are known, else remote operators.

    Returns:
        The mean of `mean_while_busy`, weighted by the servers' busy times, and the largest `max`;
        NaN where the trace shows neither calls nor operators on a server.
    """
    source: Source = "calls" if trace.calls["server_start_ns"].notna().any() else "operators"
    extents = [_extent(steps) for steps in threads_at_work(trace, source).values()]
    if not extents:
        return (float("nan"), float("nan"))
    total_ns, busy_ns, highest = zip(*extents, strict=True)
    return (_ratio(sum(total_ns), sum(busy_ns)), float(max(highest)))


def server_name(trace: Trace, rank: int) -> str:
    """A rank's RPC name; `rank N` if the trace does not say."""
    process = trace.process(rank)
    return process.name if process else f"rank {rank}"


def _work(trace: Trace, source: Source) -> _Work:
    return _served_calls(trace) if source == "calls" else _remote_operators(trace)


def _served_calls(trace: Trace, *, with_answer: bool = False) -> _Work:
    calls = trace.calls[trace.calls["server_start_ns"].notna()]
    nowhere = -1 - np.arange(len(calls))
    thread = calls["server_thread"]
    end = calls["server_end_ns"].to_numpy(dtype=np.int64, na_value=window(trace)[1])
    if with_answer:
        # The answer of an async_execution function is pickled by the thread that completes it.
        answered = calls["answered_ns"].where(calls["done_ns"].isna())
        end = np.maximum(end, answered.to_numpy(dtype=np.int64, na_value=0))
    return _Work(
        calls["server_rank"].to_numpy(),
        np.where(thread.isna(), nowhere, thread.to_numpy(dtype=np.int64, na_value=0)),
        calls["server_start_ns"].to_numpy(dtype=np.int64),
        end,
        calls["call_id"].to_numpy(),
    )


def _remote_operators(trace: Trace) -> _Work:
    calls, operators = trace.calls, trace.operators
    called = (operators["call_name"] != "").to_numpy()
    if called.any() or calls["server_start_ns"].notna().any():
        operators = operators[called]
    elif len(calls) and (calls["server_rank"] != UNKNOWN_RANK).all():
        operators = operators[operators["rank"].isin(calls["server_rank"]).to_numpy()]
    return _Work(
        operators["rank"].to_numpy(),
        operators["thread"].to_numpy(),
        operators["start_ns"].to_numpy(),
        operators["end_ns"].to_numpy(),
        operators["call_id"].to_numpy(dtype=np.int64, na_value=-1),
    )


def _servers(work: _Work) -> list[int]:
    """The ranks that ran something."""
    return [int(rank) for rank in sorted(pd.unique(work.rank))]


def _steps(work: _Work) -> Steps:
    """How many threads of one rank are at work over time."""
    busy = united(Spans(group_codes((work.thread,)), work.start, work.end))
    return open_over_time(busy.start, busy.end)


def _extent(steps: Steps) -> tuple[float, float, int]:
    """The integral of the level over time, the time above level 0, and the highest level."""
    time_ns = steps.time_at_level()
    return float(time_ns @ np.arange(len(time_ns))), float(time_ns[1:].sum()), len(time_ns) - 1


def _rpc_threads(trace: Trace, rank: int) -> list[int]:
    """The RPC threads of a rank that the trace names."""
    process = trace.process(rank)
    named = process.threads if process else ()
    return [thread for thread, role in named if role.startswith("RPC worker")]


def _frame(rows: Sequence[tuple[object, ...]], columns: dict[str, str]) -> pd.DataFrame:
    """A frame of rows, each column of its declared type."""
    return pd.DataFrame(rows, columns=pd.Index(columns)).astype(columns)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")
