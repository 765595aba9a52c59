"""The recipe's table: time by call and by operator, in the terms of PyTorch's profiler."""

from typing import Any

import numpy as np
import pandas as pd

from tuner.trace.analyze.time_spans import Spans, group_codes, parents, summed, united
from tuner.trace.model.spans import REMOTE_OPERATOR
from tuner.trace.model.trace import BoolArray, FloatArray, IntArray, Trace

RECIPE_COLUMNS = (
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
    "Node ID",
)  # fmt: skip


def recipe_table(trace: Trace) -> pd.DataFrame:
    """The table of PyTorch's RPC profiling recipe, from any trace.

    As in PyTorch's profiler, "CPU total" is wall time from start to end, of a call on its client.
    "Self CPU" is the part of it that no other row counts: of an operator, without the operators and
    the calls directly inside it; of a call, without its remote operators (time in which several ran
    counts once), the calls made inside it, and what the client's thread ran while it issued the
    call, or in foreign traces until the call ended. A call that never ended is left out, and where
    operators are left out from some time on, all that had not ended by then.

    Returns:
        RECIPE_COLUMNS, one row per name and rank, the largest "CPU total" first. Times are in
        microseconds; percentages are of the sum of "Self CPU". A remote operator has the name
        `call#remote_op: operator` and its server's rank as "Node ID".
    """
    trace = trace.with_operators()
    calls, operators = trace.calls[trace.calls["end_ns"].notna()], trace.operators
    spans, above = _on_threads(calls, operators)
    lasted_ns = (calls["end_ns"] - calls["start_ns"]).to_numpy(dtype=np.int64)
    own_ns = lasted_ns - _counted_elsewhere(calls, operators, spans, above)
    names = {"client_rank": "Node ID", "rank": "Node ID"}
    of_calls = _sums(calls[["name", "client_rank"]].rename(columns=names), lasted_ns, own_ns)
    inside = np.flatnonzero(above >= 0)
    outside = above[inside]
    overlap = np.minimum(spans.end[inside], spans.end[outside]) - spans.start[inside]
    ran_ns = spans.end - spans.start
    # Rounded times can make operators cross: no time below zero, which would lessen others.
    own_ns = np.maximum(ran_ns - summed(outside, overlap, len(above)), 0.0)
    ran = operators[["rank", "name", "call_name"]].rename(columns=names)
    of_operators = _sums(ran, ran_ns[len(calls) :], own_ns[len(calls) :])
    called, name = (of_operators[column].astype("str") for column in ("call_name", "name"))
    of_operators["Name"] = name.where(called == "", called + REMOTE_OPERATOR + name)
    of_calls["Name"] = of_calls["name"].astype("str")
    table = pd.concat((of_calls, of_operators), ignore_index=True)
    everything_us = table["Self CPU"].sum()
    percent = 100.0 / everything_us if everything_us > 0 else np.nan
    table["Self CPU %"] = table["Self CPU"] * percent
    table["CPU total %"] = table["CPU total"] * percent
    return _finished(table)


def of_all_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """A recipe table with one row per name, whose "Node ID" is the number of its ranks."""
    sums = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "# of Calls"]
    groups = table.groupby("Name", sort=False)
    merged = groups[sums].sum().assign(**{"Node ID": groups["Node ID"].nunique()})
    return _finished(merged.reset_index())


def _finished(table: pd.DataFrame) -> pd.DataFrame:
    table["CPU time avg"] = table["CPU total"] / table["# of Calls"]
    table = table.sort_values("CPU total", ascending=False, kind="stable", ignore_index=True)
    return table[list(RECIPE_COLUMNS)]


def format_table(table: pd.DataFrame, row_limit: int | None = None) -> str:
    """A recipe table as text, as PyTorch's profiler lays it out; the total is of all its rows."""
    shown = table.head(row_limit) if row_limit is not None else table
    values = shown[list(RECIPE_COLUMNS)].itertuples(index=False, name=None)
    rows = [RECIPE_COLUMNS, *map(_cells, values)]
    widths = [max(12, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
    total = f"Self CPU time total: {_time(float(table['Self CPU'].sum()))}"
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, total])


def _on_threads(calls: pd.DataFrame, operators: pd.DataFrame) -> tuple[Spans, IntArray]:
    """What each thread was in, and the parent of each: calls first, then operators.

    Of equal spans the first contains the others.
    """
    # A thread is in a call to its end, but in an asynchronous one only until that was issued. Where
    # that is not known, such calls may cross on a thread, and what runs is in none of them alone.
    issued = calls["issued_ns"].fillna(calls["start_ns"])
    left = calls["end_ns"].where(_waits(calls), issued).to_numpy(dtype=np.int64)
    rank, thread, start = (
        np.concatenate((calls[of_call].to_numpy(), operators[name].to_numpy()))
        for of_call, name in (
            ("client_rank", "rank"), ("client_thread", "thread"), ("start_ns", "start_ns"),
        )
    )  # fmt: skip
    end = np.concatenate((left, operators["end_ns"].to_numpy()))
    spans = Spans(group_codes((rank, thread)), start, end)
    above = parents(spans)
    # One that an operator makes is inside of that, as long as both last.
    made = np.flatnonzero(_is_beside(calls) & (above[: len(calls)] >= 0))
    if len(made):
        end[made] = np.minimum(calls["end_ns"].to_numpy(np.int64)[made], end[above[made]])
        above = parents(spans)
    return spans, above


def _sums(frame: pd.DataFrame, total_ns: IntArray, own_ns: FloatArray) -> pd.DataFrame:
    """By the columns of the frame: Self CPU, CPU total, # of Calls."""
    columns: list[IntArray] = [
        np.asarray(column.cat.codes if column.dtype == "category" else column, np.int64)
        for _, column in frame.items()
    ]
    # Faster than groupby, which shows in large traces.
    code, distinct = pd.factorize(group_codes(columns))
    first = np.empty(len(distinct), np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    sums = {
        "Self CPU": summed(code, own_ns) / 1e3, "CPU total": summed(code, total_ns) / 1e3,
        "# of Calls": np.bincount(code),
    }  # fmt: skip
    return frame.iloc[first].reset_index(drop=True).assign(**sums)


def _counted_elsewhere(
    calls: pd.DataFrame, operators: pd.DataFrame, spans: Spans, above: IntArray
) -> FloatArray:
    """Per call, the nanoseconds of its client span that other rows of the table count."""
    if calls.empty:
        return np.zeros(0)
    row_of, own = pd.Index(calls["call_id"]), Spans.of(calls)
    # The operators of each call, without those inside another operator of the same call.
    ran_for = np.concatenate((np.full(len(calls), -1), _rows(row_of, operators["call_id"])))
    is_outer = (ran_for >= 0) & ((above < 0) | (ran_for[above] != ran_for))
    made_in = _rows(row_of, calls["parent_call"])
    # What each call's client thread ran in it: to issue it, such as the copy of a tensor. Calls
    # that a thread makes while an asynchronous one is under way are beside it, not in it.
    is_inside = (above >= 0) & (above < len(calls))
    is_call = np.arange(len(above)) < len(calls)
    is_inside &= ~is_call | _waits(calls)[np.where(is_inside, above, 0)]
    pieces = [
        spans._replace(group=ran_for).take(is_outer),
        own._replace(group=made_in).take(made_in >= 0),
        spans._replace(group=above).take(is_inside),
    ]
    group, begin, finish = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    begin, finish = np.maximum(begin, own.start[group]), np.minimum(finish, own.end[group])
    elsewhere = united(Spans(group, begin, finish).take(finish > begin))
    beside_ns = np.zeros(len(calls))
    if _is_beside(calls).any() and len(operators):
        beside_ns = _ran_beside(own, _is_beside(calls), spans, elsewhere)
    return elsewhere.by_group_ns(len(calls)) + beside_ns


def _ran_beside(own: Spans, is_beside: BoolArray, spans: Spans, elsewhere: Spans) -> FloatArray:
    """Per call of the mask, what its client's thread ran until its end, and is not `elsewhere`.

    Of a call that an operator made, since the outermost such operator ended.
    """
    count = len(own.start)
    busy = united(spans.take(np.arange(len(spans.start)) >= count))
    own = own._replace(group=spans.group[:count])
    is_made = spans.end[:count] > own.start
    last = _begun(busy, own.group, own.start) - 1
    since = np.where(is_made & (last >= 0), np.maximum(busy.end[last], own.start), own.start)
    own = own._replace(start=np.minimum(since, own.end))
    beside_ns: FloatArray = np.where(is_beside, _inside(busy, own), 0.0)
    known = elsewhere.take(is_beside[elsewhere.group])
    start = np.clip(own.start[known.group], known.start, known.end)
    also = _inside(busy, Spans(own.group[known.group], start, known.end))
    beside_ns -= summed(known.group, also, count)
    return beside_ns


def _inside(apart: Spans, spans: Spans) -> FloatArray:
    """How many nanoseconds of each span are in those that are apart, of its group."""
    before = np.concatenate(([0], np.cumsum(apart.end - apart.start)))
    until = []
    for time in (spans.start, spans.end):
        begun = _begun(apart, spans.group, time)
        last = np.maximum(begun - 1, 0)
        is_of_group = (begun > 0) & (apart.group[last] == spans.group)
        rest = np.where(is_of_group, np.maximum(apart.end[last] - time, 0), 0)
        until.append(before[begun] - rest)
    inside: FloatArray = (until[1] - until[0]).astype(np.float64)
    return inside


def _begun(apart: Spans, group: IntArray, time: IntArray) -> IntArray:
    """How many of the spans, by group and start, are of an earlier group or have begun by then."""
    is_time = np.arange(len(apart.start) + len(time)) >= len(apart.start)
    of_group, at = np.append(apart.group, group), np.append(apart.start, time)
    order = np.lexsort((is_time, at, of_group))
    begun = np.empty(len(order), np.int64)
    begun[order] = np.cumsum(~is_time[order])
    return begun[len(apart.start) :]


def _is_beside(calls: pd.DataFrame) -> BoolArray:
    """Whether the client's thread may run anything until the call ends: it is asynchronous."""
    return calls["issued_ns"].isna().to_numpy() & ~_waits(calls)


def _waits(calls: pd.DataFrame) -> BoolArray:
    """Whether the client's thread is in the call until it ends."""
    return calls["kind"].isin(["rpc_sync", "to_here"]).to_numpy(dtype=bool)


def _rows(row_of: pd.Index, call_id: pd.Series) -> IntArray:
    row = row_of.get_indexer(pd.Index(call_id.to_numpy(dtype=np.int64, na_value=0)))
    return np.where(call_id.isna().to_numpy(), -1, row)


def _cells(row: tuple[Any, ...]) -> tuple[str, ...]:
    name, own_percent, own, percent, total, mean, count, node = row
    own_share, share = f"{own_percent:.2f}%", f"{percent:.2f}%"
    return str(name), own_share, _time(own), share, _time(total), _time(mean), str(count), str(node)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"
