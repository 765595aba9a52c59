"""Latencies of calls, and where their time goes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tuner.trace.analyze.time_spans import Spans, floats, united
from tuner.trace.model.trace import FloatArray, Trace

BLOCKING = ("rpc_sync", "to_here")
WAITED_FOR = (*BLOCKING, "rpc_async")
"""The kinds of calls that a function waits for: at once, or after it did other things."""
NEVER_NS = np.iinfo(np.int64).max  # the end of what did not end


def latency(calls: pd.DataFrame) -> pd.DataFrame:
    """The latencies of the calls of a frame with CALL_COLUMNS, by name.

    Returns:
        One row per name, the index, the largest total first. p50_us, p90_us, p99_us, max_us and
        total_us are of latencies, from the client's start to the completion of its future. `calls`
        counts the calls that ended, `raised` and `timed_out` those of them that did so, `failed`
        both, `unfinished` the calls that did not end.
    """
    took_us = (floats(calls, "end_ns") - floats(calls, "start_ns")) / 1e3
    ended, status = ~np.isnan(took_us), calls["status"].astype(str).to_numpy()
    raised, timed_out = (ended & (status == outcome) for outcome in ("raised", "timed-out"))
    counted = {
        "failed": raised | timed_out, "raised": raised, "timed_out": timed_out,
        "unfinished": ~ended,
    }  # fmt: skip
    groups = pd.DataFrame({"us": took_us, **counted}).groupby(calls["name"].array, observed=True)
    times = groups["us"]
    columns = {
        "calls": times.count(),
        **{f"p{percentile}_us": times.quantile(percentile / 100) for percentile in (50, 90, 99)},
        "max_us": times.max(),
        "total_us": times.sum(),
        **{name: groups[name].sum() for name in counted},
    }
    return _by_name(pd.DataFrame(columns), "total_us")


def main_sites(calls: pd.DataFrame) -> "pd.Series[str]":
    """The site whose calls took the most time, by their name; no row where none is known."""
    known = calls.loc[(calls["site"] != "").to_numpy(), ["name", "site"]].astype("str")
    known["ns"] = (floats(calls, "end_ns") - floats(calls, "start_ns"))[known.index]
    totals = known.groupby(["name", "site"], sort=False)["ns"].sum().sort_values(kind="stable")
    longest = totals.reset_index().drop_duplicates("name", keep="last")
    return longest.set_index("name")["site"]


def call_times(calls: pd.DataFrame, clock_error_ns: int = 0) -> pd.DataFrame:
    """Where the time of each call goes; times of different ranks may be `clock_error_ns` apart.

    Returns:
        One row per call. All columns are microseconds, NaN where unknown:

        - latency_us: from the client's start to its end.
        - wire_us: latency minus serving, from server_start_ns to server_end_ns, or to done_ns of an
          async_execution function: the way to the server and back, with the wait for a server
          thread. It needs no common clock. Unknown if the client gave up first.
        - to_server_us, to_client_us: the way there, and back. Unknown if smaller than
          `clock_error_ns`: it could be all error.
        - queue_us: an estimate of the wait for a server thread: how much later the function began
          than that of the fastest request of the same name, which is taken to have met a free
          thread. It is too low where every request waited. A constant clock offset cancels out.
        - served_us, and its parts on_cpu_us, run_queue_us, off_cpu_us: the server's wall time. CPU
          and run queue times beyond it are cut, so the three always add up to it.
        - pending_us: server_end_ns to done_ns; 0 for a function that returned its result itself.
    """
    start, end = floats(calls, "start_ns"), floats(calls, "end_ns")
    server_start, server_end = floats(calls, "server_start_ns"), floats(calls, "server_end_ns")
    # The answer leaves once the function has returned and its future is complete.
    served_until = np.fmax(server_end, floats(calls, "done_ns"))
    wire = (end - start) - (served_until - server_start)
    to_server = server_start - start
    fastest = pd.Series(to_server).groupby(calls["name"].array, observed=True).transform("min")
    wall = server_end - server_start
    on_cpu = np.minimum(floats(calls, "cpu_ns"), wall)
    run_queue = np.minimum(floats(calls, "run_queue_ns"), wall - on_cpu)
    times = {
        "latency_us": end - start,
        "wire_us": np.where(wire >= 0, wire, np.nan),
        "to_server_us": _beyond(to_server, clock_error_ns),
        "to_client_us": _beyond(end - served_until, clock_error_ns),
        # Where a client gave up, the clocks of two hosts may make it longer than the way.
        "queue_us": np.fmin(to_server - fastest.to_numpy(), np.where(wire >= 0, wire, np.nan)),
        "served_us": wall,
        "on_cpu_us": on_cpu,
        "run_queue_us": run_queue,
        "off_cpu_us": wall - on_cpu - run_queue,
        "pending_us": served_until - server_end,
    }
    return pd.DataFrame({name: ns / 1e3 for name, ns in times.items()}, index=calls.index)


def as_waited_for(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls as their clients waited for them: what a server did for a call after its client had
    given up is no part of the call's latency, and how much of it was on the CPU is not known."""
    end = floats(calls, "end_ns")
    until = np.fmax(floats(calls, "server_end_ns"), floats(calls, "done_ns"))
    begun = floats(calls, "server_start_ns")
    has_failed = calls["status"].isin(["timed-out", "raised"]).to_numpy()
    # What begins later never ends for the client; what has no end yet goes on after it.
    is_late = has_failed & ~(until <= end) & ~np.isnan(begun) & ~np.isnan(end)
    seen = calls.copy()
    for name in ("server_start_ns", "server_end_ns", "done_ns"):
        ns = calls[name].fillna(calls["end_ns"]) if name == "server_end_ns" else calls[name]
        is_after = (ns > calls["end_ns"]).fillna(False)
        seen[name] = calls[name].mask(is_late, ns.mask(is_after, calls["end_ns"]))
    for name in ("cpu_ns", "run_queue_ns"):
        seen[name] = calls[name].mask(is_late)
    return seen


def breakdown(calls: pd.DataFrame) -> pd.DataFrame:
    """Where the time of a call goes on average, by name, from a frame with CALL_COLUMNS.

    Returns:
        One row per name, the index, the longest latency first. Means in microseconds: latency_us =
        transport_us (the wire without the queue) + queue_us + served_us + pending_us, and served_us
        = on_cpu_us + run_queue_us + off_cpu_us. `calls` is how many calls they are of: those that
        ended and whose serving is known, until the client gave up if it did; if CPU time was
        measured for some, only those.
    """
    times = call_times(as_waited_for(calls))
    parts = times.drop(columns=["wire_us", "to_server_us", "to_client_us"])
    parts.insert(1, "transport_us", times["wire_us"] - times["queue_us"])
    known = times["wire_us"].notna()
    measured = known & times["off_cpu_us"].notna()
    rests_on = known & (measured | ~measured.groupby(calls["name"], observed=True).transform("any"))
    groups = parts[rests_on].groupby(calls.loc[rests_on, "name"], observed=True)
    table = groups.mean()
    table.insert(0, "calls", groups.size())
    return _by_name(table, "latency_us")


def outermost(calls: pd.DataFrame) -> pd.DataFrame:
    """The rows of a calls frame whose calls were not made inside another call."""
    return calls[calls["parent_call"].isna()]


def nested_waits(calls: pd.DataFrame, kinds: Sequence[str] = WAITED_FOR) -> Spans:
    """When served calls waited for calls of their own; the group is the served call's id."""
    served = calls[calls["body"] != "fetch"]
    outer = served.set_index("call_id")["server_end_ns"].fillna(NEVER_NS)
    inner = calls[calls["parent_call"].isin(outer.index) & calls["kind"].isin(kinds)]
    parent = inner["parent_call"].to_numpy(np.int64)
    left = outer.loc[parent].to_numpy(np.int64)
    answered = inner["end_ns"].to_numpy(np.int64, na_value=NEVER_NS)
    spans = Spans(parent, inner["start_ns"].to_numpy(), np.minimum(answered, left))
    # A function that ended before the answer came did not wait for it.
    return united(spans.take((answered <= left) | (inner["kind"] != "rpc_async").to_numpy()))


def rpc_cpu_total_ms(trace: Trace) -> float:
    """The RPC CPU total: "CPU total" of all outermost calls, in ms per step; NaN without steps."""
    return float(outermost_ms(trace).sum()) / trace.steps if trace.steps else float("nan")


def rpc_p99_ms(trace: Trace) -> float:
    """The 99th percentile of the outermost calls' latencies, in ms; NaN if none ended."""
    took_ms = outermost_ms(trace)
    return float(np.quantile(took_ms, 0.99)) if len(took_ms) else float("nan")


def outermost_ms(trace: Trace) -> FloatArray:
    """The latencies, in ms, of the outermost calls that began in the window and ended."""
    calls = outermost(trace.calls)
    opened, closed = trace.window_ns
    if closed > opened:
        calls = calls[calls["start_ns"].between(opened, closed)]
    took_us = (floats(calls, "end_ns") - floats(calls, "start_ns")) / 1e3
    return took_us[~np.isnan(took_us)] / 1e3


def _by_name(table: pd.DataFrame, column: str) -> pd.DataFrame:
    table.index = table.index.astype("str").rename("name")
    return table.sort_values(column, ascending=False, kind="stable")


def _beyond(ns: FloatArray, error_ns: int) -> FloatArray:
    return np.where(ns < error_ns, np.nan, ns) if error_ns > 0 else ns
