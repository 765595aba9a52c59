"""Reads the JSON arrays that `torch.autograd.profiler_legacy` exports.

They hold the operators and the calls of the process that profiled, and of the other processes the
operators that ran within those calls, each with the name of its call. Threads are numbered within
each process.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec
import numpy as np
import pandas as pd

from tuner.text import plural
from tuner.trace.files.chrome_events import (
    UNKNOWN_CLOCKS,
    EventCount,
    EventId,
    SpanColumns,
    thread_numbers,
)
from tuner.trace.files.named_calls import calls_by_name
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.call_names import REMOTE_OPERATOR, read_call_name
from tuner.trace.model.columns import UNKNOWN_RANK, make_operators
from tuner.trace.model.facts import TraceRank
from tuner.trace.model.trace import Trace

PROCESS = "CPU functions"
"""What the legacy profiler writes for the process of every event."""

KNOWN_LOSS = (
    "The legacy profiler shows overlapping calls of one function as a single call. From the "
    "second call that a server's thread serves, it leaves out the call's remote operators, or "
    "repeats them."
)

_REMOTE_THREAD = re.compile(r"\s*node_id:(\d{1,9}), thread_id:(\d{1,18})\s*")


@dataclass(frozen=True)
class _Name:
    """The parts of an event's name."""

    own: str
    """The name of the operator or the call itself."""
    call: str
    """The name of the call that ran it; empty if none did."""

    @classmethod
    def read(cls, name: str) -> "_Name":
        """`call#remote_op: call#remote_op: aten::mul`: a call may run calls."""
        *calls, own = name.split(REMOTE_OPERATOR)
        return cls(own, calls[-1] if calls else "")


def read_legacy(parts: Iterable[TraceText]) -> Trace:
    """The trace in a file of the legacy profiler, whose base time is unknown.

    UsageError if it is no such file.
    """
    columns, count = SpanColumns(), EventCount()
    for text in parts:
        raw, whole = text.decode(msgspec.Raw)
        events = count.events_in(raw, text)
        columns.add([event for event in events if event.ph == "X" and event.pid == PROCESS])
    losses = count.losses(text, whole)
    rows = _rows(columns)
    losses += [text.left_out(number, "span", why) for why, number in columns.lost.items()]
    if rows.empty:
        number = plural(count.read, "event")
        raise text.refused(f"JSON, but no trace: no span of the legacy profiler in {number}")
    if repeated := int(rows.duplicated().sum()):
        rows = rows.drop_duplicates(ignore_index=True)
        why = "repeated with equal thread, name, start and end"
        losses.append(text.left_out(repeated, "span", why))
    ranks, profiling = _ranks(rows)
    rows["rank"] = rows["rank"].replace(UNKNOWN_RANK, profiling)
    return Trace(
        calls=_calls(rows, {name: rank for rank, name in ranks.items()}),
        operators=_operators(rows),
        ranks=tuple(TraceRank(rank=rank, name=name) for rank, name in sorted(ranks.items())),
        source="legacy",
        window_ns=(int(rows["start_ns"].min()), int(rows["end_ns"].max())),
        losses=(*losses, KNOWN_LOSS, *([UNKNOWN_CLOCKS] if len(ranks) > 1 else [])),
    )


def _rows(columns: SpanColumns) -> pd.DataFrame:
    """Columns rank, thread, own, call, is_call, start_ns, end_ns.

    The process that profiled has UNKNOWN_RANK.
    """
    threads = columns.threads
    spans = columns.spans({thread: place for place, thread in enumerate(threads)})
    local = thread_numbers(threads)
    located = np.array(
        [_remote(thread) or (UNKNOWN_RANK, local[thread]) for thread in threads], dtype=np.int64
    ).reshape(-1, 2)[spans.threads]
    names = [_Name.read(name) for name in spans.names.categories]
    is_call = np.array([bool(read_call_name(name.own)) for name in names], dtype=bool)
    codes = spans.names.codes
    return pd.DataFrame(
        {
            "rank": located[:, 0],
            "thread": located[:, 1],
            "own": pd.Series([name.own for name in names], dtype="category").array.take(codes),
            "call": pd.Series([name.call for name in names], dtype="category").array.take(codes),
            "is_call": is_call[codes],
            "start_ns": spans.start_ns,
            "end_ns": spans.end_ns,
        }
    )


def _remote(thread: EventId) -> tuple[int, int] | None:
    """Rank and thread of a remote operator."""
    found = _REMOTE_THREAD.fullmatch(thread) if isinstance(thread, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _ranks(rows: pd.DataFrame) -> tuple[dict[int, str], int]:
    """The name of each rank, and the rank that profiled: the lowest free one if no name tells."""
    names: dict[int, str] = {}
    remote = rows.loc[rows["rank"] != UNKNOWN_RANK, ["rank", "call"]].drop_duplicates()
    for rank, call in remote.itertuples(index=False):
        name = read_call_name(call)
        names.setdefault(rank, name.server if name else f"rank {rank}")
    free = next(rank for rank in count() if rank not in names)
    called = rows.loc[(rows["rank"] == UNKNOWN_RANK) & rows["is_call"], "own"]
    name = read_call_name(called.iloc[0]) if len(called) else None
    if name is None:
        return {free: f"rank {free}", **names}, free
    profiling = next((rank for rank, own in names.items() if own == name.client), free)
    return {**names, profiling: name.client}, profiling


def _calls(rows: pd.DataFrame, ranks: Mapping[str, int]) -> pd.DataFrame:
    calls = rows[rows["is_call"]]
    return calls_by_name(
        calls["own"].array,
        client_rank=calls["rank"].to_numpy(),
        client_thread=calls["thread"].to_numpy(),
        start_ns=calls["start_ns"].to_numpy(),
        end_ns=calls["end_ns"].to_numpy(),
        ranks=ranks,
    )


def _operators(rows: pd.DataFrame) -> pd.DataFrame:
    operators = rows[~rows["is_call"]]
    return make_operators(
        {
            "rank": operators["rank"].to_numpy(),
            "thread": operators["thread"].to_numpy(),
            "name": operators["own"].array.remove_unused_categories(),
            "start_ns": operators["start_ns"].to_numpy(),
            "end_ns": operators["end_ns"].to_numpy(),
            "call_name": operators["call"].array.remove_unused_categories(),
        }
    )
