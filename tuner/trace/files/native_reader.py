"""Reads our own trace files, as `tuner.trace.files.native_writer` writes them."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd

from tuner.errors import UsageError
from tuner.text import plural, shortened
from tuner.trace.files.chrome_events import IntArray, categorical
from tuner.trace.files.native_events import Args, Document, Event
from tuner.trace.files.native_format import CALL, FORMAT, OPERATOR, READ_FORMATS, SERVED
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.columns import make_calls, make_operators
from tuner.trace.model.trace import Trace

_Groups = defaultdict[tuple[str, str], list[Event]]
"""Events by category and phase."""

_CARRIED = (
    *("kind", "body", "function", "client", "server", "client_rank", "server_rank"),
    *("issued_ns", "error", "link"),
)
"""The columns that the arguments of a call's first event hold, with equal names."""


class _Format(msgspec.Struct):
    format: int


class _AnyVersion(msgspec.Struct):
    """A file of any format, of which only the format's version is read."""

    rpc_tuner: _Format


def trace_of(document_bytes: bytes, subject: str) -> Trace:
    """The trace in the content of one of our files; `subject` is its name in messages."""
    return read_native(TraceText(subject=subject, content=document_bytes))


def read_native(text: TraceText) -> Trace:
    """The trace in one of our files. UsageError if it is damaged, or of a newer format."""
    try:
        document, whole = text.decode(Document)
    except msgspec.ValidationError as error:
        raise _not_ours(text, error) from None
    facts = document.rpc_tuner
    if facts.format not in READ_FORMATS:
        raise _unknown_format(text, facts.format)
    if facts.window_ns[0] > facts.window_ns[1]:
        raise text.refused("damaged: its window ends before it begins")
    groups: _Groups = defaultdict(list)
    for event in document.traceEvents:
        groups[event.cat, event.ph].append(event)
    try:
        calls, losses = _calls(groups, text)
        operators = _operators(groups)
    except _DamageError as damage:
        raise text.refused(f"damaged: {damage}") from None
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
        losses=(
            *facts.losses,
            *([] if whole else [text.broken_off(len(document.traceEvents))]),
            *losses,
        ),
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


def _times_ns(us: Sequence[float | None], what: str) -> IntArray:
    if None in us:
        raise _DamageError(f"{what} has no time")
    return np.rint(np.array(us, dtype=np.float64) * 1e3).astype(np.int64)


def _integers(numbers: Sequence[int | None], what: str) -> IntArray:
    try:
        return np.array(numbers, dtype=np.int64)
    except (TypeError, OverflowError):
        raise _DamageError(f"{what} lacks its number, rank or thread") from None


def _calls(groups: _Groups, text: TraceText) -> tuple[pd.DataFrame, list[str]]:
    """The calls frame, and the losses."""
    begun = groups[CALL, "b"]
    ids = _integers([event.id for event in begun], "a call").tolist()
    if len(set(ids)) < len(ids):
        raise _DamageError(f"call {Counter(ids).most_common(1)[0][0]} is repeated")
    facts = [event.args for event in begun if event.args]
    if len(facts) < len(begun):
        raise _DamageError("a call lacks its facts")
    ends_ns = _ends_ns(groups[CALL, "e"])
    servers = _servers(groups[SERVED, "X"] + groups[SERVED, "B"])
    calls = make_calls(
        {
            **{name: [_bounded(getattr(fact, name)) for fact in facts] for name in _CARRIED},
            **{str(name): column.array for name, column in servers.reindex(ids).items()},
            "call_id": ids,
            "name": categorical(event.name for event in begun),
            "client_thread": _integers([event.tid for event in begun], "a call"),
            "start_ns": _times_ns([event.ts for event in begun], "a call"),
            "end_ns": [ends_ns.get(call) for call in ids],
            "status": [
                fact.status if call in ends_ns else "unfinished"
                for call, fact in zip(ids, facts, strict=True)
            ],
            "parent_call": [fact.parent for fact in facts],
        }
    )
    is_backwards = (calls["end_ns"] < calls["start_ns"]).fillna(False)
    if backwards := calls.loc[is_backwards, "call_id"].tolist():
        raise _DamageError(f"call {backwards[0]} ends before it begins")
    losses = []
    # A file that breaks off may lack the end of a call that ended.
    if cut := int((calls["status"] == "unfinished").sum()) - sum(
        fact.status == "unfinished" for fact in facts
    ):
        losses.append(f"Missing from {text.subject}: the end of {plural(cut, 'call')}.")
    if orphans := len(servers.index.difference(ids)):
        losses.append(text.left_out(orphans, "served call", "without its client's side"))
    return calls, losses


def _bounded(value: object) -> object:
    return shortened(value) if isinstance(value, str) else value


def _ends_ns(ended: Sequence[Event]) -> dict[int, int]:
    """When each call ended, by its id; calls that did not end are left out."""
    ids = _integers([event.id for event in ended], "the end of a call")
    times_ns = _times_ns([event.ts for event in ended], "the end of a call")
    return dict(zip(ids.tolist(), times_ns.tolist(), strict=True))


def _servers(served: Sequence[Event]) -> pd.DataFrame:
    """The servers' columns of a calls frame, indexed by the call's id."""
    facts = [event.args or Args() for event in served]
    calls = _integers([fact.call for fact in facts], "a served call")
    if len(set(calls.tolist())) < len(calls):
        raise _DamageError(f"call {Counter(calls.tolist()).most_common(1)[0][0]} is served twice")
    starts_ns = _times_ns([event.ts for event in served], "a served call")
    ends_ns = [
        None if event.dur is None else start + round(event.dur * 1e3)
        for start, event in zip(starts_ns.tolist(), served, strict=True)
    ]
    columns = {
        "server_thread": [event.tid for event in served],
        "server_start_ns": starts_ns,
        "server_end_ns": ends_ns,
        "done_ns": [fact.done_ns for fact in facts],
        "cpu_ns": [fact.cpu_ns for fact in facts],
        "run_queue_ns": [fact.run_queue_ns for fact in facts],
    }
    return pd.DataFrame(columns, index=calls, dtype="Int64")


def _operators(groups: _Groups) -> pd.DataFrame:
    events, begun = groups[OPERATOR, "X"], groups[CALL, "b"]
    facts = [event.args or Args() for event in events]
    start_ns = _times_ns([event.ts for event in events], "an operator")
    called = [fact.call for fact in facts]
    place = {event.id: index for index, event in enumerate(begun)}
    # The last name is empty: the index -1, of no call, takes it.
    names = categorical([*(event.name for event in begun), ""])
    caller = np.array([place.get(call, -1) for call in called], dtype=np.int64)
    return make_operators(
        {
            "rank": _integers([event.pid for event in events], "an operator"),
            "thread": _integers([event.tid for event in events], "an operator"),
            "name": categorical(event.name for event in events),
            "start_ns": start_ns,
            "end_ns": start_ns + _times_ns([event.dur for event in events], "an operator"),
            "call_id": pd.array(called, dtype="Int64"),
            "call_name": names.take(caller),
            "link": categorical(fact.link for fact in facts),
        }
    )
