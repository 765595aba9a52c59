"""Reads our own trace files, as `tuner.trace.files.native_writer` writes them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from tuner.errors import UsageError
from tuner.text import plural, shortened
from tuner.trace.files.event_spans import IntArray, categorical
from tuner.trace.files.native_events import Args, Document, Event
from tuner.trace.files.native_writer import CALL, FORMAT, OPERATOR, READ_FORMATS, SERVED
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.trace import Trace, make_calls, make_operators

_Groups = defaultdict[tuple[str, str], list[Event]]
"""Events by category and phase."""
_NO_CALL = -(2**63)
"""Beyond the numbers of calls."""

_CARRIED = (
    *("kind", "body", "function", "client", "server", "client_rank", "server_rank"),
    *("issued_ns", "error", "timeout_s", "request_bytes", "link"),
)
"""The columns that the arguments of a call's first event hold, with equal names."""
_SORTED = {*_CARRIED, "status"}
"""The columns whose categories are in their own order, not in that of their first use."""


class _Format(msgspec.Struct):
    format: int


class _AnyVersion(msgspec.Struct):
    """A file of any format, of which only the format's version is read."""

    rpc_tuner: _Format


def trace_of(document_bytes: bytes, subject: str) -> Trace:
    """The trace in the content of one of our files; `subject` is its name in messages."""
    return read_native([TraceText(subject=subject, content=document_bytes)])


def read_native(parts: Iterable[TraceText]) -> Trace:
    """The trace in one of our files. UsageError if it is damaged, or of a newer format."""
    frames: list[_Frames] = []
    count = 0
    for text in parts:
        try:
            document, whole = text.decode(Document)
        except msgspec.ValidationError as error:
            raise _not_ours(text, error) from None
        facts = document.rpc_tuner
        if facts.format not in READ_FORMATS:
            raise _unknown_format(text, facts.format)
        if facts.window_ns[0] > facts.window_ns[1]:
            raise text.refused("damaged: its window ends before it begins")
        count += len(document.traceEvents)
        with _reporting_damage(text):
            frames.append(_frames(document.traceEvents))
    with _reporting_damage(text):
        calls, losses = _calls(frames, text)
        operators = _operators(frames, calls)
    return Trace(
        calls=calls,
        operators=operators,
        ranks=facts.ranks,
        source="rpc-tuner",
        base_time_ns=facts.base_time_ns,
        window_ns=facts.window_ns,
        operators_recorded=facts.operators_recorded,
        steps=facts.steps,
        clock_error_ns=facts.clock_error_ns,
        tracing_overhead=(facts.observer_effect if facts.format == 1 else facts.tracing_overhead),
        losses=(*facts.losses, *([] if whole else [text.broken_off(count)]), *losses),
    )


def _not_ours(text: TraceText, problem: msgspec.ValidationError) -> UsageError:
    """The error for a file with our mark but another layout: it may be of a newer format."""
    try:
        version = text.decode(_AnyVersion)[0].rpc_tuner.format
    except msgspec.ValidationError:
        version = FORMAT
    if version not in READ_FORMATS:
        return _unknown_format(text, version)
    return text.refused(f"not as rpc-tuner writes its traces: {problem}")


def _unknown_format(text: TraceText, version: int) -> UsageError:
    if version > FORMAT:
        return text.refused(
            f"a newer rpc-tuner wrote it, in format {version}; this one reads formats up to "
            f"{FORMAT}: upgrade rpc-tuner"
        )
    return text.refused(f"damaged: there is no format {version}")


class _DamageError(Exception):
    """An event lacks a field that every event of its kind has, or ends before it begins."""


@contextmanager
def _reporting_damage(text: TraceText) -> Iterator[None]:
    try:
        yield
    except _DamageError as damage:
        raise text.refused(f"damaged: {damage}") from None


def _times_ns(us: Sequence[float | None], what: str) -> IntArray:
    if None in us:
        raise _DamageError(f"{what} has no time")
    return np.rint(np.array(us, dtype=np.float64) * 1e3).astype(np.int64)


def _integers(numbers: Sequence[int | None], what: str) -> IntArray:
    try:
        return np.array(numbers, dtype=np.int64)
    except (TypeError, OverflowError):
        raise _DamageError(f"{what} lacks its number, rank or thread") from None


class _Frames(NamedTuple):
    """The events of one part, which take a tenth of the memory as columns."""

    calls: pd.DataFrame
    """As far as their clients recorded how they began; with the status of those that ended."""
    ended: pd.DataFrame
    served: pd.DataFrame
    operators: pd.DataFrame
    """Without the names of their calls."""


def _frames(events: Iterable[Event]) -> _Frames:
    groups: _Groups = defaultdict(list)
    for event in events:
        groups[event.cat, event.ph].append(event)
    return _Frames(
        calls=_begun(groups[CALL, "b"]),
        ended=_ended(groups[CALL, "e"]),
        served=_served(groups[SERVED, "X"] + groups[SERVED, "B"]),
        operators=_run(groups[OPERATOR, "X"]),
    )


def _begun(begun: Sequence[Event]) -> pd.DataFrame:
    facts = [event.args for event in begun if event.args]
    if len(facts) < len(begun):
        raise _DamageError("a call lacks its facts")
    return make_calls(
        {
            **{name: [_bounded(getattr(fact, name)) for fact in facts] for name in _CARRIED},
            "call_id": _integers([event.id for event in begun], "a call"),
            "name": categorical(event.name for event in begun),
            "client_thread": _integers([event.tid for event in begun], "a call"),
            "start_ns": _times_ns([event.ts for event in begun], "a call"),
            "status": [fact.status for fact in facts],
            "parent_call": [fact.parent for fact in facts],
        }
    )


def _bounded(value: object) -> object:
    return shortened(value) if isinstance(value, str) else value


def _ended(ended: Sequence[Event]) -> pd.DataFrame:
    """Columns call_id, end_ns."""
    ids = _integers([event.id for event in ended], "the end of a call")
    times_ns = _times_ns([event.ts for event in ended], "the end of a call")
    return pd.DataFrame({"call_id": ids, "end_ns": times_ns})


def _served(served: Sequence[Event]) -> pd.DataFrame:
    """Columns call_id, and those of a calls frame that the servers recorded."""
    facts = [event.args or Args() for event in served]
    starts_ns = _times_ns([event.ts for event in served], "a served call")
    ends_ns = [
        None if event.dur is None else start + round(event.dur * 1e3)
        for start, event in zip(starts_ns.tolist(), served, strict=True)
    ]
    columns = {
        "call_id": _integers([fact.call for fact in facts], "a served call"),
        "server_thread": [event.tid for event in served],
        "server_start_ns": starts_ns,
        "server_end_ns": ends_ns,
        "answered_ns": [fact.answered_ns for fact in facts],
        "done_ns": [fact.done_ns for fact in facts],
        "cpu_ns": [fact.cpu_ns for fact in facts],
        "run_queue_ns": [fact.run_queue_ns for fact in facts],
    }
    return pd.DataFrame(columns, dtype="Int64")


def _run(events: Sequence[Event]) -> pd.DataFrame:
    facts = [event.args or Args() for event in events]
    start_ns = _times_ns([event.ts for event in events], "an operator")
    return make_operators(
        {
            "rank": _integers([event.pid for event in events], "an operator"),
            "thread": _integers([event.tid for event in events], "an operator"),
            "name": categorical(event.name for event in events),
            "start_ns": start_ns,
            "end_ns": start_ns + _times_ns([event.dur for event in events], "an operator"),
            "call_id": pd.array([fact.call for fact in facts], dtype="Int64"),
            "link": categorical(fact.link for fact in facts),
        }
    )


def _together(frames: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """The columns of all parts; pd.concat would make text of categories that differ."""
    some, *others = frames
    filled = [frame for frame in (some, *others) if len(frame)] or [some]
    return {
        name: union_categoricals(parts, sort_categories=name in _SORTED)
        if isinstance(parts[0].dtype, pd.CategoricalDtype)
        else pd.concat(parts, ignore_index=True)
        for name in some.columns
        for parts in [[frame[name] for frame in filled]]
    }


def _calls(frames: Sequence[_Frames], text: TraceText) -> tuple[pd.DataFrame, list[str]]:
    """The calls frame, and the losses."""
    begun = _together(part.calls for part in frames)
    ids = pd.Index(begun["call_id"])
    _unique(ids, "repeated")
    ended = pd.DataFrame(_together(part.ended for part in frames)).astype("Int64")
    end_ns = ended.drop_duplicates("call_id", keep="last").set_index("call_id")["end_ns"]
    served = pd.DataFrame(_together(part.served for part in frames)).set_index("call_id")
    _unique(served.index, "served twice")
    has_ended = ids.isin(end_ns.index)
    status = np.where(has_ended, np.asarray(begun["status"]), "unfinished")
    calls = make_calls(
        {
            **begun,
            **{str(name): column.array for name, column in served.reindex(ids).items()},
            "end_ns": end_ns.reindex(ids).array,
            "status": status,
        }
    )
    is_backwards = (calls["end_ns"] < calls["start_ns"]).fillna(False)
    if backwards := calls.loc[is_backwards, "call_id"].tolist():
        raise _DamageError(f"call {backwards[0]} ends before it begins")
    losses = []
    # A file that breaks off may lack the end of a call that ended.
    if cut := int((status != np.asarray(begun["status"])).sum()):
        losses.append(f"Missing from {text.subject}: the end of {plural(cut, 'call')}.")
    if orphans := len(served.index.difference(ids)):
        losses.append(text.left_out(orphans, "served call", "without its client's side"))
    return calls, losses


def _unique(ids: pd.Index, what: str) -> None:
    if ids.has_duplicates:
        raise _DamageError(f"call {ids.value_counts().index[0]} is {what}")


def _operators(frames: Sequence[_Frames], calls: pd.DataFrame) -> pd.DataFrame:
    columns = _together(part.operators for part in frames)
    called = columns["call_id"].to_numpy(dtype=np.int64, na_value=_NO_CALL)
    caller = pd.Index(calls["call_id"]).get_indexer(called)
    # The last name is empty: the index -1, of no call, takes it.
    names = union_categoricals([calls["name"].array, categorical([""])])
    return make_operators({**columns, "call_name": names.take(caller)})
