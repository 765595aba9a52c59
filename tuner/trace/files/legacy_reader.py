"""Reads the JSON arrays that `torch.autograd.profiler_legacy` exports.

They hold the operators and the calls of the process that profiled, and the operators that those
calls ran in others, each with the name of its call. Threads are numbered within each process.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import count

import numpy as np
import pandas as pd

from tuner.text import plural
from tuner.trace.files import chrome_events as chrome
from tuner.trace.files.chrome_events import Event, EventParts, SpanColumns, Spans, categorical
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.spans import REMOTE_OPERATOR, TraceRank, read_call_name
from tuner.trace.model.trace import UNKNOWN_RANK, Trace, make_operators

PROCESSES = ("CPU functions", "CPU Functions")  # of every event; the second is from libtorch
OVERLAP_LOSS = "The legacy profiler may show overlapping calls of one function as a single call."
"""Of a trace with calls, unless it has such calls."""
REMOTE_LOSS = (
    "From the second call that a server's thread serves, the legacy profiler leaves out the "
    "call's remote operators, or repeats them."
)
_REMOTE_THREAD = re.compile(r"\s*node_id:(\d{1,9}), thread_id:(\d{1,18})\s*")


def legacy_events(events: Iterable[Event]) -> tuple[list[Event], list[str]]:
    """The spans of the legacy profiler among the events of an array, and the kinds of others."""
    spans, others = [], []
    for event in events:
        if event.ph == "X" and event.pid in PROCESSES:
            spans.append(event)
        elif event.ph != "M":
            others.append(chrome.unread_kind(event))
    return spans, others


def legacy_trace(
    columns: SpanColumns, events: EventParts, unread: Mapping[str, int], last: TraceText
) -> Trace:
    """The trace of a file's spans, once it is read. UsageError if none has proper times."""
    losses = events.losses(last)
    rows = _rows(columns)
    losses += columns.losses(last, "span")
    if rows.empty:
        number = plural(events.read, "event")
        raise last.foreign(f"no span of the legacy profiler in {number}", losses)
    if repeated := int(rows.duplicated().sum()):
        rows = rows.drop_duplicates(ignore_index=True)
        why = "repeated with equal thread, name, start and end"
        losses.append(last.left_out(repeated, "span", why))
    ranks, profiling = _ranks(rows)
    rows["rank"] = rows["rank"].replace(UNKNOWN_RANK, profiling)
    calls = _calls(rows, {name: rank for rank, name in ranks.items()})
    has_calls = rows["is_call"].any() or (rows["call"] != "").any()
    return Trace(
        calls=calls,
        operators=_operators(rows, calls),
        ranks=tuple(TraceRank(rank=rank, name=name) for rank, name in sorted(ranks.items())),
        source="legacy",
        base_time_ns=0,
        window_ns=(int(rows["start_ns"].min()), int(rows["end_ns"].max())),
        losses=(
            *losses,
            *chrome.unread_loss(unread, events.read),
            *([OVERLAP_LOSS] if has_calls and not _overlap(calls) else []),
            *([REMOTE_LOSS] if has_calls else []),
            *([chrome.UNKNOWN_CLOCKS] if len(ranks) > 1 else []),
        ),
    )


def _rows(columns: SpanColumns) -> pd.DataFrame:
    """A row per span: its own name, and that of the call that ran it; UNKNOWN_RANK profiled."""
    threads = columns.threads
    spans = columns.spans({thread: place for place, thread in enumerate(threads)})
    local = chrome.thread_numbers(threads)
    places = [
        (int(found[1]), int(found[2]))
        if isinstance(thread, str) and (found := _REMOTE_THREAD.fullmatch(thread))
        else (UNKNOWN_RANK, local[thread])
        for thread in threads
    ]
    rank, thread = np.array(places, dtype=np.int64).reshape(-1, 2)[spans.threads].T
    # `call#remote_op: call#remote_op: aten::mul`: a call may run calls.
    parts = [["", *name.split(REMOTE_OPERATOR)] for name in spans.names.categories]
    is_call = np.array([bool(read_call_name(part[-1])) for part in parts], dtype=bool)
    codes = spans.names.codes
    return pd.DataFrame(
        {
            "rank": rank,
            "thread": thread,
            "own": categorical(part[-1] for part in parts)[codes],
            "call": categorical(part[-2] for part in parts)[codes],
            "is_call": is_call[codes],
            "start_ns": spans.start_ns,
            "end_ns": spans.end_ns,
        }
    )


def _ranks(rows: pd.DataFrame) -> tuple[dict[int, str], int]:
    """The name of each rank, and the rank that profiled: the lowest free one if no name says it."""
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
    of_calls = rows[rows["is_call"]].sort_values("start_ns", kind="stable", ignore_index=True)
    times = (of_calls[name].to_numpy() for name in ("thread", "start_ns", "end_ns"))
    spans = Spans(of_calls["own"].array, *times)
    calls = chrome.calls_by_name(spans, of_calls["rank"].to_numpy(), ranks)
    calls["parent_call"] = _callers(of_calls, calls, may_be_itself=False)
    return calls


def _overlap(calls: pd.DataFrame) -> bool:
    """Whether calls of one name overlap."""
    times = calls.groupby("name", observed=True)["end_ns"].transform("cummax")
    before = times.groupby(calls["name"], observed=True).shift()
    return bool((calls["start_ns"] < before).fillna(False).any())


def _operators(rows: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    operators = rows[~rows["is_call"]]
    call_id = _callers(operators, calls)
    return make_operators(
        {
            **{
                name: operators[name].to_numpy()
                for name in ("rank", "thread", "start_ns", "end_ns")
            },
            "name": operators["own"].array.remove_unused_categories(),
            "call_id": call_id,
            "call_name": operators["call"].array.remove_unused_categories(),
            "link": np.where(call_id.isna(), "", "inferred"),
        }
    )


def _callers(
    rows: pd.DataFrame, calls: pd.DataFrame, *, may_be_itself: bool = True
) -> pd.arrays.IntegerArray:
    """The id of the call that ran each row: of those of its name, the last that had begun."""
    names = calls["name"].cat.categories.get_indexer(rows["call"].cat.categories)
    of = names[rows["call"].cat.codes].astype(np.int64)
    ran = rows[["start_ns"]].assign(name=of, place=np.arange(len(rows)))
    begun = calls[["start_ns", "call_id"]].assign(
        name=calls["name"].cat.codes.astype(np.int64), end_ns=calls["end_ns"].astype(np.int64)
    )
    ran = ran[ran["name"] >= 0].sort_values("start_ns", kind="stable")
    found = pd.merge_asof(ran, begun, on="start_ns", by="name", allow_exact_matches=may_be_itself)
    found = found[found["end_ns"] >= found["start_ns"]]
    ids = np.zeros(len(rows), dtype=np.int64)
    ids[found["place"]] = found["call_id"]
    return pd.arrays.IntegerArray(ids, ids == 0)
