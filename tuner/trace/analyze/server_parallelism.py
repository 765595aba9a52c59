"""Parallelism: calls, or remote operators, that a server ran at once.

It is counted in threads. One is at work from `server_start_ns` to `server_end_ns` of each call that
it runs, or to the end of the window if the call never left it, and while it runs a callback. Where
it pickles an answer it is not free (`threads_taken`), but that is none of the work that is counted.
If operators are counted, it is at work while it is inside one. With L(t) the number of a server's
threads at work at the time t, in a window of length W:

    mean            = integral of L over the window / W
    busy_fraction   = time with L > 0 / W
    mean_while_busy = integral of L over the window / time with L > 0
    max             = largest L
    efficiency      = mean_while_busy / num_worker_threads
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from tuner.trace.analyze.callbacks import with_callbacks
from tuner.trace.analyze.time_spans import Spans, Steps, group_codes, open_over_time, united
from tuner.trace.model.trace import UNKNOWN_RANK, Trace, make_callbacks

Source = Literal["calls", "operators"]
"""What shows that a thread is at work: served calls, or remote operators. Of a trace that links no
operator to a call, as Kineto's, all operators of the servers; of all ranks if servers are unknown.
"""

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


def window(trace: Trace) -> tuple[int, int]:
    """Start and end of the trace in nanoseconds, widened to contain all its events."""
    calls, operators = trace.calls, trace.operators
    of_calls = ("start_ns", "end_ns", "server_start_ns", "server_end_ns", "answered_ns", "done_ns")
    times = [calls[column].dropna() for column in of_calls]
    times += [operators["start_ns"], operators["end_ns"]]
    edges = list(trace.window_ns) if trace.window_ns[1] > trace.window_ns[0] else []
    edges += [int(edge) for column in times if len(column) for edge in (column.min(), column.max())]
    return (min(edges), max(edges)) if edges else (0, 0)


def window_length_ns(trace: Trace) -> int:
    """How long the `window` is."""
    opened, closed = window(trace)
    return closed - opened


def seen_until_ns(trace: Trace, source: Source = "calls") -> int:
    """To when the trace shows threads at work: to its end, or to where operators are left out, and
    with them the calls that run without Python."""
    until_ns, closed = trace.operators_until_ns, window(trace)[1]
    needs_operators = source == "operators" or trace.calls["body"].isin(["builtin", "script"]).any()
    return closed if until_ns is None or not needs_operators else min(until_ns, closed)


def seen_length_ns(trace: Trace, source: Source = "calls") -> int:
    """How long the trace shows threads at work."""
    return seen_until_ns(trace, source) - window(trace)[0]


def threads_at_work(trace: Trace, source: Source = "calls") -> dict[int, Steps]:
    """How many threads of each server are at work over time, by the server's rank."""
    return {rank: _steps(work) for rank, work in _by_server(_work(trace, source))}


def threads_taken(trace: Trace) -> dict[int, Steps]:
    """How many threads of each server are not free: at work, or pickling the answer of a call."""
    work = _served_calls(trace, with_answer=True)
    return {rank: _steps(own) for rank, own in _by_server(work)}


def parallelism(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """PARALLELISM_COLUMNS, one row per server, by rank; for the formulas see this module."""
    whole_ns = seen_length_ns(trace, source)
    rows = []
    for rank, work in _by_server(_work(trace, source)):
        total_ns, busy_ns, highest = _extent(_steps(work))
        process, while_busy = trace.process(rank), _ratio(total_ns, busy_ns)
        rows.append((
            process.name, rank, process.num_worker_threads, _ratio(total_ns, whole_ns),
            _ratio(busy_ns, whole_ns), while_busy, highest,
            _ratio(while_busy, process.num_worker_threads or 0),
            work.loc[work["call"] >= 0, "call"].nunique(),
        ))  # fmt: skip
    return _frame(rows, PARALLELISM_COLUMNS)


def levels(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """LEVEL_COLUMNS: the share of the window that each server had 0, 1, ... threads at work."""
    whole_ns = seen_length_ns(trace, source)
    rows = []
    for rank, steps in threads_at_work(trace, source).items():
        time_ns = steps.time_at_level()
        time_ns[0] = whole_ns - time_ns[1:].sum()
        name = trace.process(rank).name
        rows += [(name, level, _ratio(ns, whole_ns)) for level, ns in enumerate(time_ns)]
    return _frame(rows, LEVEL_COLUMNS)


def thread_use(trace: Trace, source: Source = "calls") -> pd.DataFrame:
    """THREAD_COLUMNS: how busy each thread of each server was, also a named one without calls."""
    whole_ns = seen_length_ns(trace, source)
    rows = []
    for rank, work in _by_server(_work(trace, source)):
        process, own = trace.process(rank), work[work["thread"] >= 0]
        code, threads = pd.factorize(own["thread"].to_numpy())
        busy = united(Spans(code, own["start"].to_numpy(), own["end"].to_numpy()))
        calls = own["call"].where(own["call"] >= 0).groupby(code).nunique()
        named = [thread for thread, role in process.threads if role.startswith("RPC worker")]
        use = dict.fromkeys(named, (0.0, 0))
        for thread, ns, count in zip(threads, busy.by_group_ns(), calls, strict=True):
            use[int(thread)] = (_ratio(ns, whole_ns), int(count))
        rows += [(process.name, thread, *use[thread]) for thread in sorted(use)]
    return _frame(rows, THREAD_COLUMNS)


def remote_parallelism(trace: Trace) -> tuple[float, float]:
    """The mean of `mean_while_busy`, weighted by the servers' busy times, and the largest `max`.

    Calls are counted if servers' spans are known, else remote operators; NaN without either.
    Callbacks are none of them.
    """
    trace = replace(trace, callbacks=make_callbacks({}))
    source: Source = "calls" if trace.calls["server_start_ns"].notna().any() else "operators"
    extents = np.array([_extent(steps) for steps in threads_at_work(trace, source).values()])
    total_ns, busy_ns, highest = extents.T if len(extents) else (np.array([np.nan]),) * 3
    return _ratio(total_ns.sum(), busy_ns.sum()), float(highest.max())


def _work(trace: Trace, source: Source) -> pd.DataFrame:
    work = _served_calls(trace) if source == "calls" else _remote_operators(trace)
    until_ns = seen_until_ns(trace, source)
    return work[work["start"] < until_ns].assign(end=work["end"].clip(upper=until_ns))


def _served_calls(trace: Trace, *, with_answer: bool = False) -> pd.DataFrame:
    """A row per call; a thread that is not known has a negative number of its own."""
    trace = with_callbacks(trace)
    calls = trace.calls[trace.calls["server_start_ns"].notna()]
    nowhere = -1 - np.arange(len(calls))
    thread = calls["server_thread"]
    end = calls["server_end_ns"].to_numpy(dtype=np.int64, na_value=window(trace)[1])
    if with_answer:
        # The answer of an async_execution function is pickled by the thread that completes it.
        answered = calls["answered_ns"].where(calls["done_ns"].isna())
        end = np.maximum(end, answered.to_numpy(dtype=np.int64, na_value=0))
    return pd.DataFrame(
        {
            "rank": calls["server_rank"].to_numpy(),
            "thread": np.where(thread.isna(), nowhere, thread.to_numpy(dtype=np.int64, na_value=0)),
            "start": calls["server_start_ns"].to_numpy(dtype=np.int64),
            "end": end,
            "call": calls["call_id"].to_numpy(),
        }
    )


def _remote_operators(trace: Trace) -> pd.DataFrame:
    calls, operators = trace.calls, trace.operators
    called = (operators["call_name"] != "").to_numpy()
    if called.any() or calls["server_start_ns"].notna().any():
        operators = operators[called]
    elif len(calls) and (calls["server_rank"] != UNKNOWN_RANK).all():
        operators = operators[operators["rank"].isin(calls["server_rank"]).to_numpy()]
    names = {"start_ns": "start", "end_ns": "end", "call_id": "call"}
    work = operators[["rank", "thread", *names]].rename(columns=names)
    return work.assign(call=work["call"].fillna(-1).astype(np.int64))


def _by_server(work: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    return ((int(str(rank)), own) for rank, own in work.groupby("rank"))


def _steps(work: pd.DataFrame) -> Steps:
    thread, start, end = (work[name].to_numpy() for name in ("thread", "start", "end"))
    busy = united(Spans(group_codes((thread,)), start, end))
    return open_over_time(busy.start, busy.end)


def _extent(steps: Steps) -> tuple[float, float, int]:
    """The integral of the level over time, the time above level 0, and the highest level."""
    time_ns = steps.time_at_level()
    return float(time_ns @ np.arange(len(time_ns))), float(time_ns[1:].sum()), len(time_ns) - 1


def _frame(rows: Sequence[tuple[object, ...]], columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=pd.Index(columns)).astype(columns)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")
