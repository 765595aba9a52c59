"""The tables of a trace, frame to frame. Times are float microseconds; nothing loops over rows."""

from typing import Any

import numpy as np
import pandas as pd

from tuner.trace.analyze.intervals import (
    FloatArray,
    IntArray,
    Spans,
    group_codes,
    parents,
    summed,
    united,
)
from tuner.trace.model.trace import Trace

RECIPE_COLUMNS = (
    "Name",
    "Self CPU %",
    "Self CPU",
    "CPU total %",
    "CPU total",
    "CPU time avg",
    "# of Calls",
    "Node ID",
)


def recipe_table(trace: Trace) -> pd.DataFrame:
    """The recipe's table, RECIPE_COLUMNS: a row per call key and per operator, longest first.

    As in PyTorch's profiler, "CPU total" is wall time from start to end (of a call: of the client's
    span), and percentages are of the sum of "Self CPU". "Self CPU" is the part of it that no other
    row counts: of an operator, without the operators directly inside it; of a call, without its
    remote operators (united over threads), the calls made inside it, and what the client's thread
    ran while it handed the call over. A remote operator is named `call#remote_op: operator`, with
    its server as Node ID. Times in microseconds. A call that never ended has no duration and is
    left out; `latency` counts those.
    """
    table = pd.concat(_recipe_rows(trace), ignore_index=True)
    everything_us = table["Self CPU"].sum()
    percent = 100.0 / everything_us if everything_us > 0 else np.nan
    table["Self CPU %"] = table["Self CPU"] * percent
    table["CPU total %"] = table["CPU total"] * percent
    table["CPU time avg"] = table["CPU total"] / table["# of Calls"]
    table = table.sort_values("CPU total", ascending=False, kind="stable", ignore_index=True)
    return table[list(RECIPE_COLUMNS)]


def format_table(table: pd.DataFrame, row_limit: int | None = None) -> str:
    """A recipe table as text, laid out as PyTorch's profiler prints its own, names in full."""
    shown = table.head(row_limit) if row_limit is not None else table
    values = shown[list(RECIPE_COLUMNS)].itertuples(index=False, name=None)
    rows = [RECIPE_COLUMNS, *map(_cells, values)]
    widths = [max(12, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    total = f"Self CPU time total: {_time(float(table['Self CPU'].sum()))}"
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, total])


def latency(calls: pd.DataFrame) -> pd.DataFrame:
    """Per name: calls, p50_us, p90_us, p99_us, max_us, total_us, failed, unfinished; by total.

    A call's latency is from its client's start to the completion of its future. `calls` counts the
    calls that ended, `failed` those of them that raised or timed out, `unfinished` the others.
    """
    took_us = (_ns(calls, "end_ns") - _ns(calls, "start_ns")) / 1e3
    ended = ~np.isnan(took_us)
    failed = calls["status"].isin(["raised", "timed-out"]).to_numpy(dtype=bool)
    frame = pd.DataFrame({"us": took_us, "failed": failed & ended, "unfinished": ~ended})
    groups = frame.groupby(calls["name"].array, observed=True)
    times = groups["us"]
    columns = {
        "calls": times.count(),
        "p50_us": times.quantile(0.5),
        "p90_us": times.quantile(0.9),
        "p99_us": times.quantile(0.99),
        "max_us": times.max(),
        "total_us": times.sum(),
        "failed": groups["failed"].sum(),
        "unfinished": groups["unfinished"].sum(),
    }
    return _by_name(pd.DataFrame(columns), "total_us")


def call_times(calls: pd.DataFrame, clock_error_ns: int = 0) -> pd.DataFrame:
    """Where the time of each call goes, indexed as `calls`, in microseconds; NaN where unknown.

    - latency_us: client's start to its end.
    - wire_us: latency minus serving, which lasts from server_start_ns to server_end_ns, or to
      done_ns of an async_execution function. Client to server and back, waiting for a server
      thread included; needs no common clock. Unknown where the client gave up before the end.
    - to_server_us, to_client_us: the two ways apart. A time smaller than `clock_error_ns` could be
      all error, and is not shown.
    - queue_us: an estimate. Assumed is that the fastest request of the same name met a free
      thread, and that the way itself takes each request of that name as long; what a request takes
      beyond the fastest one's client-to-server time, it waited for a server thread. A constant
      clock offset cancels. Too low where every request waited.
    - on_cpu_us, run_queue_us, off_cpu_us: the server's wall time, split. What the kernel's clocks
      say beyond the wall time is cut, so that the three always add up to it.
    - pending_us: server_end_ns to done_ns; 0 for a function that returned its result itself.
    """
    start, end = _ns(calls, "start_ns"), _ns(calls, "end_ns")
    server_start, server_end = _ns(calls, "server_start_ns"), _ns(calls, "server_end_ns")
    # The answer leaves when the function has returned and its future is complete.
    served_until = np.fmax(server_end, _ns(calls, "done_ns"))
    wire = (end - start) - (served_until - server_start)
    to_server = server_start - start
    fastest = pd.Series(to_server).groupby(calls["name"].array, observed=True).transform("min")
    wall = server_end - server_start
    on_cpu = np.minimum(_ns(calls, "cpu_ns"), wall)
    run_queue = np.minimum(_ns(calls, "run_queue_ns"), wall - on_cpu)
    times = {
        "latency_us": end - start,
        "wire_us": np.where(wire >= 0, wire, np.nan),
        "to_server_us": _beyond(to_server, clock_error_ns),
        "to_client_us": _beyond(end - served_until, clock_error_ns),
        "queue_us": to_server - fastest.to_numpy(),
        "on_cpu_us": on_cpu,
        "run_queue_us": run_queue,
        "off_cpu_us": wall - on_cpu - run_queue,
        "pending_us": served_until - server_end,
    }
    return pd.DataFrame({name: ns / 1e3 for name, ns in times.items()}, index=calls.index)


def breakdown(calls: pd.DataFrame) -> pd.DataFrame:
    """Per name the means of where the time of a call goes, in microseconds; longest first.

    latency_us = transport_us (the wire without the queue) + queue_us + served_us + pending_us;
    served_us, the server's wall time, = on_cpu_us + run_queue_us + off_cpu_us. `calls` is the
    number of calls that it rests on: those that ended and whose serving is known; where a server
    measured CPU time for some calls of a name, only those. A name without any has no row.
    """
    times = call_times(calls)
    parts = times.drop(columns=["wire_us", "to_server_us", "to_client_us"])
    parts.insert(1, "transport_us", times["wire_us"] - times["queue_us"])
    parts.insert(
        3, "served_us", (_ns(calls, "server_end_ns") - _ns(calls, "server_start_ns")) / 1e3
    )
    known = times["wire_us"].notna()
    measured = known & times["off_cpu_us"].notna()
    rests_on = known & (measured | ~measured.groupby(calls["name"], observed=True).transform("any"))
    groups = parts[rests_on].groupby(calls.loc[rests_on, "name"], observed=True)
    table = groups.mean()
    table.insert(0, "calls", groups.size())
    return _by_name(table, "latency_us")


def outermost(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls that no other call contains."""
    return calls[calls["parent_call"].isna()]


def rpc_cpu_total_ms(trace: Trace) -> float:
    """The sum the recipe reads: "CPU total" of all outermost calls, per step; NaN without steps."""
    if not trace.steps:
        return float("nan")
    return float(np.nansum(_outermost_us(trace))) / 1e3 / trace.steps


def rpc_p99_ms(trace: Trace) -> float:
    """The 99th percentile latency of the outermost calls; NaN if none ended."""
    took_ms = outermost_ms(trace)
    return float(np.quantile(took_ms, 0.99)) if len(took_ms) else float("nan")


def outermost_ms(trace: Trace) -> FloatArray:
    """The latencies of the outermost calls of the window that ended, in milliseconds."""
    took_us = _outermost_us(trace)
    return took_us[~np.isnan(took_us)] / 1e3


def _outermost_us(trace: Trace) -> FloatArray:
    """The durations of the outermost calls that began in the window; NaN for one without end."""
    calls = outermost(trace.calls)
    start, end = _ns(calls, "start_ns"), _ns(calls, "end_ns")
    opened, closed = trace.window_ns
    counted = (
        (opened <= start) & (start <= closed) if closed > opened else np.full(len(start), True)
    )
    return (end - start)[counted] / 1e3


def _recipe_rows(trace: Trace) -> list[pd.DataFrame]:
    """The rows of calls and of operators: Name, Self CPU, CPU total, # of Calls, Node ID."""
    calls = trace.calls[trace.calls["end_ns"].notna()]
    operators = trace.operators
    thread = group_codes((_int(operators, "rank"), _int(operators, "thread")))
    spans = Spans(thread, _int(operators, "start_ns"), _int(operators, "end_ns"))
    above = parents(spans)
    return [
        _call_rows(calls, _counted_elsewhere(calls, operators, spans, above)),
        _operator_rows(operators, spans, above),
    ]


def _call_rows(calls: pd.DataFrame, counted_elsewhere: FloatArray) -> pd.DataFrame:
    name, rank = _codes(calls["name"]), _int(calls, "client_rank")
    duration = _int(calls, "end_ns") - _int(calls, "start_ns")
    key = group_codes((name, rank))
    first, sums = _summed(key, duration, duration - counted_elsewhere)
    sums["Name"] = calls["name"].cat.categories[name[first]].astype("str")
    sums["Node ID"] = rank[first]
    return sums


def _operator_rows(operators: pd.DataFrame, spans: Spans, above: IntArray) -> pd.DataFrame:
    inside = np.flatnonzero(above >= 0)
    outside = above[inside]
    overlap = np.minimum(spans.end[inside], spans.end[outside]) - spans.start[inside]
    children = summed(outside, overlap, len(above))
    duration = spans.end - spans.start
    rank = _int(operators, "rank")
    name, caller = _codes(operators["name"]), _codes(operators["call_name"])
    names, callers = operators["name"].cat.categories, operators["call_name"].cat.categories
    key = group_codes((rank, name, caller))
    # Operators that cross, as rounded times can make them, must not take from others.
    first, sums = _summed(key, duration, np.maximum(duration - children, 0))
    sums["Name"] = [
        f"{called}#remote_op: {operator}" if called else operator
        for called, operator in zip(callers[caller[first]], names[name[first]], strict=True)
    ]
    sums["Node ID"] = rank[first]
    return sums


def _summed(key: IntArray, total_ns: IntArray, own_ns: FloatArray) -> tuple[IntArray, pd.DataFrame]:
    """The first row of each key, and per key: Self CPU, CPU total, # of Calls."""
    code, distinct = pd.factorize(key)
    first = np.empty(len(distinct), np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    sums = {
        "Self CPU": summed(code, own_ns, len(distinct)) / 1e3,
        "CPU total": summed(code, total_ns, len(distinct)) / 1e3,
        "# of Calls": np.bincount(code, minlength=len(distinct)),
    }
    return first, pd.DataFrame(sums)


def _counted_elsewhere(
    calls: pd.DataFrame, operators: pd.DataFrame, spans: Spans, above: IntArray
) -> FloatArray:
    """Per call, the nanoseconds of its client span that other rows of the table count."""
    row_of = pd.Index(calls["call_id"])
    start, end = _int(calls, "start_ns"), _int(calls, "end_ns")
    pieces = [
        _remote_pieces(row_of, operators, spans, above),
        _nested_pieces(row_of, calls),
        _handover_pieces(calls, operators, np.flatnonzero(above < 0)),
    ]
    group, begin, finish = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    begin, finish = np.maximum(begin, start[group]), np.minimum(finish, end[group])
    counted = united(Spans(group, begin, finish).take(finish > begin))
    return summed(counted.group, counted.end - counted.start, len(calls))


def _remote_pieces(
    row_of: pd.Index, operators: pd.DataFrame, spans: Spans, above: IntArray
) -> Spans:
    """What ran for each call: its operators, those inside another of the same call left out."""
    row = _rows(row_of, operators["call_id"])
    outer = (row >= 0) & ((above < 0) | (row[above] != row))
    return Spans(row[outer], spans.start[outer], spans.end[outer])


def _nested_pieces(row_of: pd.Index, calls: pd.DataFrame) -> Spans:
    """The calls made within each call."""
    row = _rows(row_of, calls["parent_call"])
    return Spans(row, _int(calls, "start_ns"), _int(calls, "end_ns")).take(row >= 0)


def _handover_pieces(calls: pd.DataFrame, operators: pd.DataFrame, outer: IntArray) -> Spans:
    """What the client's thread ran while it handed each call over, as a copy of a tensor."""
    handed = calls[calls["issued_ns"].notna()]
    handovers = pd.DataFrame(
        {
            "rank": _int(handed, "client_rank"),
            "thread": _int(handed, "client_thread"),
            "start_ns": _int(handed, "start_ns"),
            "issued_ns": handed["issued_ns"].to_numpy(dtype=np.int64),
            "row": np.flatnonzero(calls["issued_ns"].notna()),
        }
    )
    ran = operators.iloc[outer][["rank", "thread", "start_ns", "end_ns"]]
    ran = ran[ran["thread"].isin(handovers["thread"].unique())]
    pairs = pd.merge_asof(
        ran.sort_values("start_ns"), handovers, on="start_ns", by=["rank", "thread"]
    )
    pairs = pairs[pairs["start_ns"] < pairs["issued_ns"]]
    return Spans(_int(pairs, "row"), _int(pairs, "start_ns"), _int(pairs, "end_ns"))


def _rows(row_of: pd.Index, call_id: pd.Series) -> IntArray:
    """The row of each call id; -1 for null and for a call that is not there."""
    row = row_of.get_indexer(pd.Index(call_id.to_numpy(dtype=np.int64, na_value=0)))
    return np.where(call_id.isna().to_numpy(), -1, row)


def _by_name(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A table by name, the largest of the column first, its index plain text."""
    table.index = table.index.astype("str").rename("name")
    return table.sort_values(column, ascending=False, kind="stable")


def _cells(row: tuple[Any, ...]) -> tuple[str, ...]:
    """A row of a recipe table as PyTorch writes it."""
    name, own_percent, own, percent, total, mean, count, node = row
    percents = [f"{value:.2f}%" for value in (own_percent, percent)]
    times = [_time(value) for value in (own, total, mean)]
    return str(name), percents[0], times[0], percents[1], *times[1:], str(count), str(node)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _beyond(ns: FloatArray, error_ns: int) -> FloatArray:
    """Times, those unknown that the clock error could be all of."""
    return np.where(ns < error_ns, np.nan, ns) if error_ns > 0 else ns


def _ns(frame: pd.DataFrame, column: str) -> FloatArray:
    """A column of nanoseconds; NaN for null. Exact for the 104 days that a float's 53 bits hold."""
    return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def _int(frame: pd.DataFrame, column: str) -> IntArray:
    """A column without nulls."""
    return frame[column].to_numpy(dtype=np.int64)


def _codes(column: pd.Series) -> IntArray:
    """The codes of a categorical column."""
    return column.cat.codes.to_numpy().astype(np.int64)
