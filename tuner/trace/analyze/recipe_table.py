"""The recipe's table: time by call and by operator, in the terms of PyTorch's profiler."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.analyze.time_spans import (
    FloatArray,
    IntArray,
    Spans,
    group_codes,
    parents,
    summed,
    united,
)
from tuner.trace.model.spans import REMOTE_OPERATOR
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
    """The table of PyTorch's RPC profiling recipe, from any trace.

    As in PyTorch's profiler, "CPU total" is wall time from start to end; for a call, it is the time
    of the client's span. "Self CPU" is the part of it that no other row counts: for an operator,
    without the operators and the calls directly inside it; for a call, without its remote operators
    (time in which several ran counts once), without the calls made inside it, and without what the
    client's thread ran while it issued the call. Foreign traces do not have when a call was issued:
    there that is all that the thread ran until the call ended. Calls beside an asynchronous one,
    which is under way meanwhile, are not inside it.

    Args:
        trace: Any trace. A call that never ended has no duration and is left out; `latency` counts
            such calls.

    Returns:
        RECIPE_COLUMNS, one row per name and rank, the largest "CPU total" first. Times are in
        microseconds; percentages are of the sum of "Self CPU". A remote operator has the name
        `call#remote_op: operator` and its server's rank as "Node ID".
    """
    table = pd.concat(_recipe_rows(trace), ignore_index=True)
    everything_us = table["Self CPU"].sum()
    percent = 100.0 / everything_us if everything_us > 0 else np.nan
    table["Self CPU %"] = table["Self CPU"] * percent
    table["CPU total %"] = table["CPU total"] * percent
    table["CPU time avg"] = table["CPU total"] / table["# of Calls"]
    table = table.sort_values("CPU total", ascending=False, kind="stable", ignore_index=True)
    return table[list(RECIPE_COLUMNS)]


def of_all_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """A recipe table with one row per name, whose "Node ID" is the number of its ranks."""
    sums = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "# of Calls"]
    groups = table.groupby("Name", sort=False)
    merged = groups[sums].sum().assign(**{"Node ID": groups["Node ID"].nunique()}).reset_index()
    merged["CPU time avg"] = merged["CPU total"] / merged["# of Calls"]
    merged = merged.sort_values("CPU total", ascending=False, kind="stable", ignore_index=True)
    return merged[list(RECIPE_COLUMNS)]


def format_table(table: pd.DataFrame, row_limit: int | None = None) -> str:
    """A recipe table as text, in the layout of PyTorch's profiler, but with names in full.

    Args:
        table: What `recipe_table` returns.
        row_limit: How many rows to show at most; None for all of them.

    Returns:
        Lines of equal width, and last the total of "Self CPU" over all rows, shown or not.
    """
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


def _recipe_rows(trace: Trace) -> list[pd.DataFrame]:
    """The rows of calls and of operators: Name, Self CPU, CPU total, # of Calls, Node ID."""
    calls = trace.calls[trace.calls["end_ns"].notna()]
    operators = trace.operators
    spans = _on_threads(calls, operators)
    above = parents(spans)
    return [
        _call_rows(calls, _counted_elsewhere(calls, operators, spans, above)),
        _operator_rows(operators, spans, above),
    ]


def _on_threads(calls: pd.DataFrame, operators: pd.DataFrame) -> Spans:
    """What ran on each thread: the calls, as far as their clients' threads were in them; operators.

    Calls come first: of equal spans, the first contains the others.
    """
    columns = [[_int(operators, name) for name in ("rank", "thread", "start_ns", "end_ns")]]
    if len(calls):
        columns.insert(0, _on_client_threads(calls))
    rank, thread, start, end = (
        np.concatenate(each) if len(each) > 1 else each[0] for each in zip(*columns, strict=True)
    )
    return Spans(group_codes((rank, thread)), start, end)


def _on_client_threads(calls: pd.DataFrame) -> list[IntArray]:
    """Rank and thread of each call's client, its start, and until when that thread was in it.

    That is until its end, or until it was issued if it is asynchronous. Foreign traces do not have
    the latter: the annotation of a call, which is a block of its thread, lasts until the end.
    """
    issued = calls["issued_ns"].fillna(calls["end_ns"])
    left = calls["end_ns"].where(_waits(calls), issued).to_numpy(dtype=np.int64)
    return [*(_int(calls, name) for name in ("client_rank", "client_thread", "start_ns")), left]


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
    calls = len(above) - len(operators)
    children = summed(outside, overlap, len(above))[calls:]
    duration = (spans.end - spans.start)[calls:]
    rank = _int(operators, "rank")
    name, caller = _codes(operators["name"]), _codes(operators["call_name"])
    names, callers = operators["name"].cat.categories, operators["call_name"].cat.categories
    key = group_codes((rank, name, caller))
    # Rounded times can make operators cross: no time below zero, which would lessen others.
    first, sums = _summed(key, duration, np.maximum(duration - children, 0))
    sums["Name"] = [
        f"{called}{REMOTE_OPERATOR}{operator}" if called else operator
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
    if calls.empty:
        return np.zeros(0)
    row_of = pd.Index(calls["call_id"])
    start, end = _int(calls, "start_ns"), _int(calls, "end_ns")
    pieces = [
        _remote_pieces(row_of, operators, spans, above),
        _nested_pieces(row_of, calls),
        _client_pieces(calls, spans, above),
    ]
    group, begin, finish = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    begin, finish = np.maximum(begin, start[group]), np.minimum(finish, end[group])
    counted = united(Spans(group, begin, finish).take(finish > begin))
    return summed(counted.group, counted.end - counted.start, len(calls))


def _remote_pieces(
    row_of: pd.Index, operators: pd.DataFrame, spans: Spans, above: IntArray
) -> Spans:
    """The operators of each call, without those inside another operator of the same call."""
    # The rows of calls come first in `spans` and `above`: they ran for none here.
    row = np.concatenate((np.full(len(row_of), -1), _rows(row_of, operators["call_id"])))
    outer = (row >= 0) & ((above < 0) | (row[above] != row))
    return Spans(row[outer], spans.start[outer], spans.end[outer])


def _nested_pieces(row_of: pd.Index, calls: pd.DataFrame) -> Spans:
    """The calls that were made inside each call."""
    row = _rows(row_of, calls["parent_call"])
    return Spans(row, _int(calls, "start_ns"), _int(calls, "end_ns")).take(row >= 0)


def _client_pieces(calls: pd.DataFrame, spans: Spans, above: IntArray) -> Spans:
    """What each call's client thread ran in it: to issue it, such as the copy of a tensor.

    Calls that a thread makes while an asynchronous one is under way are beside it, not in it.
    """
    inside = np.flatnonzero((above >= 0) & (above < len(calls)))
    is_beside = (inside < len(calls)) & ~_waits(calls)[above[inside]]
    inside = inside[~is_beside]
    return Spans(above[inside], spans.start[inside], spans.end[inside])


def _waits(calls: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the client's thread is in the call until it ends."""
    waits: NDArray[np.bool_] = calls["kind"].isin(["rpc_sync", "to_here"]).to_numpy(dtype=bool)
    return waits


def _rows(row_of: pd.Index, call_id: pd.Series) -> IntArray:
    """The row of each call id; -1 for null and for unknown ids."""
    row = row_of.get_indexer(pd.Index(call_id.to_numpy(dtype=np.int64, na_value=0)))
    return np.where(call_id.isna().to_numpy(), -1, row)


def _cells(row: tuple[Any, ...]) -> tuple[str, ...]:
    """The cells of a row as PyTorch formats them."""
    name, own_percent, own, percent, total, mean, count, node = row
    percents = [f"{value:.2f}%" for value in (own_percent, percent)]
    times = [_time(value) for value in (own, total, mean)]
    return str(name), percents[0], times[0], percents[1], *times[1:], str(count), str(node)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _int(frame: pd.DataFrame, column: str) -> IntArray:
    """A column without nulls."""
    return frame[column].to_numpy(dtype=np.int64)


def _codes(column: pd.Series) -> IntArray:
    """The codes of a categorical column."""
    return column.cat.codes.to_numpy().astype(np.int64)
