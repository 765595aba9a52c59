"""Reads our own trace files, as `tuner.trace.files.native_writer` writes them."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd

from tuner.errors import UsageError
from tuner.trace.files.chrome import Ids, categorical
from tuner.trace.files.opening import TraceText, several
from tuner.trace.model.document import CALL, FORMAT, OPERATOR, SERVED, Args, Document, Event
from tuner.trace.model.schema import Trace, make_calls, make_operators

_Groups = defaultdict[tuple[str, str], list[Event]]
"""Events by category and phase."""

MARK = b'{"rpc_tuner":'
"""What our own files begin with."""

_CARRIED = (
    *("kind", "body", "function", "client", "server", "client_rank", "server_rank"),
    *("issued_ns", "error", "link"),
)
"""The columns that a call's first event carries under the same name."""


class _Format(msgspec.Struct):
    format: int


class _AnyVersion(msgspec.Struct):
    """A file of any version, seen only as far as its version."""

    rpc_tuner: _Format


def trace_of(document_bytes: bytes, subject: str) -> Trace:
    """The trace in the bytes of a file of ours; messages call it `subject`."""
    return read_native(TraceText(subject=subject, content=document_bytes))


def read_native(text: TraceText) -> Trace:
    """The trace in a file of ours. UsageError if it is damaged, or of a version not known here."""
    try:
        document, whole = text.decode(Document)
    except msgspec.ValidationError as error:
        raise _not_ours(text, error) from None
    facts = document.rpc_tuner
    if facts.format != FORMAT:
        raise _other_version(text, facts.format)
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
        tracing_overhead=facts.tracing_overhead,
        losses=(
            *facts.losses,
            *([] if whole else [text.broken_off(len(document.traceEvents))]),
            *losses,
        ),
    )


def _not_ours(text: TraceText, problem: msgspec.ValidationError) -> UsageError:
    """What to say of a file that has our mark and another form: it may be of a newer version."""
    try:
        version = text.decode(_AnyVersion)[0].rpc_tuner.format
    except msgspec.ValidationError:
        version = FORMAT
    if version != FORMAT:
        return _other_version(text, version)
    return text.refused(f"not as rpc-tuner writes its traces: {problem}")


def _other_version(text: TraceText, version: int) -> UsageError:
    return text.refused(
        f"a trace of format {version}, and this version of rpc-tuner reads format {FORMAT}"
    )


class _DamageError(Exception):
    """An event lacks what every event of its kind has."""


def _times_ns(us: Sequence[float | None], what: str) -> Ids:
    if None in us:
        raise _DamageError(f"{what} has no time")
    return np.rint(np.array(us, dtype=np.float64) * 1e3).astype(np.int64)


def _integers(numbers: Sequence[int | None], what: str) -> Ids:
    try:
        return np.array(numbers, dtype=np.int64)
    except (TypeError, OverflowError):
        raise _DamageError(f"{what} lacks its number, rank or thread") from None


def _calls(groups: _Groups, text: TraceText) -> tuple[pd.DataFrame, list[str]]:
    """The calls frame, and what was lost."""
    begun = groups[CALL, "b"]
    ids = _integers([event.id for event in begun], "a call").tolist()
    if len(set(ids)) < len(ids):
        raise _DamageError(f"call {Counter(ids).most_common(1)[0][0]} is there more than once")
    facts = [event.args for event in begun if event.args]
    if len(facts) < len(begun):
        raise _DamageError("a call lacks its facts")
    ends_ns = _ends_ns(groups[CALL, "e"])
    servers = _servers(groups[SERVED, "X"] + groups[SERVED, "B"])
    calls = make_calls(
        {
            **{name: [getattr(fact, name) for fact in facts] for name in _CARRIED},
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
    losses = []
    # In a file that breaks off, calls may have ended whose ends are not in it.
    if cut := int((calls["status"] == "unfinished").sum()) - sum(
        fact.status == "unfinished" for fact in facts
    ):
        losses.append(f"Missing from {text.subject}: the end of {several(cut, 'call')}.")
    if orphans := len(servers.index.difference(ids)):
        losses.append(text.left_out(orphans, "served call", "without its client's side"))
    return calls, losses


def _ends_ns(ended: Sequence[Event]) -> dict[int, int]:
    """When each call ended that did."""
    ids = _integers([event.id for event in ended], "the end of a call")
    times_ns = _times_ns([event.ts for event in ended], "the end of a call")
    return dict(zip(ids.tolist(), times_ns.tolist(), strict=True))


def _servers(served: Sequence[Event]) -> pd.DataFrame:
    """The servers' side of calls, by call; the columns of a calls frame, all nullable."""
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
    # One more name than there are calls: -1 takes the last.
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
