"""Reads our own trace files, as `tuner.trace.files.native_writer` writes them."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from tuner.text import plural, shortened
from tuner.trace.files.chrome_events import categorical
from tuner.trace.files.native_writer import CALL, CALLBACK, FORMAT, OPERATOR, SERVED
from tuner.trace.files.trace_text import Number, TraceText
from tuner.trace.model.spans import Facts
from tuner.trace.model.trace import (
    IntArray,
    Trace,
    make_callbacks,
    make_calls,
    make_operators,
)

Lasting = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]  # nanoseconds that something takes
Time = Annotated[float, msgspec.Meta(gt=-(2.0**52), lt=2.0**52)]
Length = Annotated[float, msgspec.Meta(ge=0, lt=2.0**52)]
"""Microseconds: no more than fit into an int64 as nanoseconds."""
_FORMAT = re.compile(rb'\{"rpc_tuner":\s*\{"format":\s*(-?\d{1,9})\s*[,}]')
_NO_CALL = -(2**63)  # beyond the numbers of calls
_WORDS = ("kind", "body", "function", "site", "defined", "client", "server", "status", "link")
"""The columns of words in the arguments of a call's first event; their categories are sorted."""
_NUMBERS = (
    "client_rank", "server_rank", "issued_ns", "timeout_s", "request_bytes", "received_ns",
    "request_tensors", "same_as",
)  # fmt: skip
_BOUNDS: dict[tuple[str, ...], tuple[float, float]] = {  # the least, and what is too much
    ("rank", "num_worker_threads", "intra_op_threads", "cpu_count", "steps"): (0, 2**31),
    ("cpu_s", "rpc_timeout_s", "main_cpu_s", "main_run_queue_s"): (0, 2**32),
    ("others_cpu_s", "others_run_queue_s", "pool_cpu_s", "pool_run_queue_s"): (0, 2**32),
    ("switch_interval_s",): (1e-6, 2**32),
    ("tracing_overhead",): (sys.float_info.min, 1e9),
    ("others_share",): (0, 1 + sys.float_info.epsilon),
    # The sum of two times fits into an int64.
    ("pid", "base_time_ns", "clock_error_ns", "operators_until_ns"): (-(2**62), 2**62),
}


class Args(msgspec.Struct, gc=False):
    """The arguments of our events."""

    call: Number | None = None  # the call's id, on every event that belongs to one
    kind: str = ""
    body: str = ""
    function: str = ""
    site: str = ""
    defined: str = ""
    client: str = ""
    server: str = ""
    client_rank: Number = 0
    server_rank: Number = 0
    issued_ns: Number | None = None
    status: str = ""
    error: str = ""
    parent: Number | None = None
    link: str = ""
    timeout_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    request_bytes: Lasting | None = None
    request_tensors: Lasting | None = None
    same_as: Number | None = None
    answered_ns: Number | None = None
    done_ns: Number | None = None
    cpu_ns: Lasting | None = None
    run_queue_ns: Lasting | None = None
    holds_thread: bool = False
    slices: Lasting | None = None
    answer_tensors: Lasting | None = None
    answer_bytes: Lasting | None = None
    arrived_ns: Number | None = None
    unpickled_ns: Number | None = None
    received_ns: Number | None = None


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds since the base, with three decimals."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: Time | None = None
    dur: Length | None = None
    pid: Number | None = None  # the rank
    tid: Number | None = None
    id: Number | None = None  # the call's id, on async events and arrows
    args: Args | None = None


@dataclass(frozen=True, kw_only=True)
class Header(Facts):
    """The facts about the trace, and the version of the file's format."""

    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)]

    def __post_init__(self) -> None:
        for facts in (*self.ranks, self):
            for names, (least, below) in _BOUNDS.items():
                for name in names:
                    value = getattr(facts, name, None)
                    if value is not None and not least <= value < below:
                        raise ValueError(f"{name} cannot be {value}")
        sampled = [value for rank in self.ranks for wait in rank.gil for value in wait]
        sampled += [pause.at_ns for rank in self.ranks for pause in rank.pauses]
        if not all(-(2**62) <= value < 2**62 for value in sampled):
            raise ValueError("gil has times that cannot be")
        if not all(-(2**62) <= edge < 2**62 for edge in self.window_ns):
            raise ValueError(f"window_ns cannot be {list(self.window_ns)}")


class Document(msgspec.Struct):
    """A whole file."""

    rpc_tuner: Header
    traceEvents: list[Event]  # noqa: N815 - the format's own name


def trace_of(document_bytes: bytes, subject: str) -> Trace:
    """The trace in the content of one of our files; `subject` is its name in messages."""
    return read_native([TraceText(subject=subject, content=document_bytes)])


def read_native(parts: Iterable[TraceText]) -> Trace:
    """The trace in one of our files. UsageError if it is damaged, or of another format."""
    frames: list[_Frames] = []
    count = 0
    try:
        for text in parts:
            _check_format(text)
            try:
                document, whole = text.decode(Document)
            except msgspec.ValidationError as error:
                raise text.refused(f"not as rpc-tuner writes its traces: {error}") from None
            header = document.rpc_tuner
            if header.window_ns[0] > header.window_ns[1]:
                raise _DamageError("its window ends before it begins")
            count += len(document.traceEvents)
            frames.append(_frames(document.traceEvents))
        calls, losses = _calls(frames, text)
        operators = _operators(frames, calls)
        callbacks = make_callbacks(_together(part.callbacks for part in frames))
    except _DamageError as damage:
        raise text.refused(f"damaged: {damage}") from None
    facts = {field.name: getattr(header, field.name) for field in fields(Facts)}
    facts["losses"] = (*header.losses, *([] if whole else [text.broken_off(count)]), *losses)
    return Trace(calls=calls, operators=operators, callbacks=callbacks, source="rpc-tuner", **facts)


def _check_format(text: TraceText) -> None:
    """UsageError if the text says that it is of another format, which may have another layout."""
    said = _FORMAT.match(text.content)
    version = int(said[1]) if said else FORMAT
    if version < 1:
        raise text.refused(f"damaged: there is no format {version}")
    if version != FORMAT:
        older = version < FORMAT
        age, cure = ("an older", "record it again") if older else ("a newer", "upgrade rpc-tuner")
        raise text.refused(
            f"{age} rpc-tuner wrote it, in format {version}; this one reads format {FORMAT}: {cure}"
        )


class _DamageError(Exception):
    """An event lacks a field that every event of its kind has, or the like."""


def _times_ns(us: Sequence[float | None], what: str) -> IntArray:
    if None in us:
        raise _DamageError(f"{what} has no time")
    return np.rint(np.array(us, dtype=np.float64) * 1e3).astype(np.int64)


def _integers(numbers: Sequence[int | None], what: str) -> IntArray:
    if None in numbers:
        raise _DamageError(f"{what} lacks its number, rank or thread")
    return np.array(numbers, dtype=np.int64)


class _Frames(NamedTuple):
    """The events of one part, which take a tenth of the memory as columns."""

    calls: pd.DataFrame  # how they began, with the status of those that ended
    ended: pd.DataFrame  # columns call_id, end_ns
    served: pd.DataFrame  # columns call_id, and those that servers recorded
    operators: pd.DataFrame  # without the names of their calls
    callbacks: pd.DataFrame


def _frames(events: Iterable[Event]) -> _Frames:
    groups = defaultdict[tuple[str, str], list[Event]](list)
    for event in events:
        groups[event.cat, event.ph].append(event)
    ended, what = groups[CALL, "e"], "the end of a call"
    call_ids = _integers([event.id for event in ended], what)
    ends_ns = _times_ns([event.ts for event in ended], what)
    return _Frames(
        calls=_begun(groups[CALL, "b"]),
        ended=pd.DataFrame({"call_id": call_ids, "end_ns": ends_ns}),
        served=_served(groups[SERVED, "X"] + groups[SERVED, "B"]),
        operators=_run(groups[OPERATOR, "X"]),
        callbacks=_called_back(groups[CALLBACK, "X"] + groups[CALLBACK, "B"]),
    )


def _begun(begun: Sequence[Event]) -> pd.DataFrame:
    facts = [event.args for event in begun if event.args]
    if len(facts) < len(begun):
        raise _DamageError("a call lacks its facts")
    return make_calls(
        {
            **{name: categorical(getattr(fact, name) for fact in facts) for name in _WORDS},
            **{name: [getattr(fact, name) for fact in facts] for name in _NUMBERS},
            "call_id": _integers([event.id for event in begun], "a call"),
            "name": categorical(event.name for event in begun),
            "client_thread": _integers([event.tid for event in begun], "a call"),
            "start_ns": _times_ns([event.ts for event in begun], "a call"),
            "error": [shortened(fact.error) for fact in facts],
            "parent_call": [fact.parent for fact in facts],
        }
    )


def _served(served: Sequence[Event]) -> pd.DataFrame:
    facts = [event.args or Args() for event in served]
    starts_ns = _times_ns([event.ts for event in served], "a served call")
    measured = (
        "answered_ns", "done_ns", "cpu_ns", "run_queue_ns", "slices", "answer_tensors",
        "arrived_ns", "unpickled_ns", "answer_bytes",
    )  # fmt: skip
    columns = {
        "call_id": _integers([fact.call for fact in facts], "a served call"),
        "server_thread": [event.tid for event in served],
        "server_start_ns": starts_ns,
        "server_end_ns": _ends_ns(starts_ns, served),
        **{name: [getattr(fact, name) for fact in facts] for name in measured},
    }
    return pd.DataFrame(columns, dtype="Int64")


def _ends_ns(starts_ns: IntArray, events: Sequence[Event]) -> list[int | None]:
    return [
        None if event.dur is None else start + round(event.dur * 1e3)
        for start, event in zip(starts_ns.tolist(), events, strict=True)
    ]


def _called_back(events: Sequence[Event]) -> pd.DataFrame:
    facts, what = [event.args or Args() for event in events], "a callback"
    start_ns = _times_ns([event.ts for event in events], what)
    return make_callbacks(
        {
            "rank": _integers([event.pid for event in events], what),
            "thread": _integers([event.tid for event in events], what),
            "function": categorical(event.name for event in events),
            "call_id": pd.array([fact.call for fact in facts], dtype="Int64"),
            "holds_thread": [fact.holds_thread for fact in facts],
            "start_ns": start_ns,
            "end_ns": pd.array(_ends_ns(start_ns, events), dtype="Int64"),
            "cpu_ns": pd.array([fact.cpu_ns for fact in facts], dtype="Int64"),
            "run_queue_ns": pd.array([fact.run_queue_ns for fact in facts], dtype="Int64"),
        }
    )


def _run(events: Sequence[Event]) -> pd.DataFrame:
    facts, what = [event.args or Args() for event in events], "an operator"
    start_ns = _times_ns([event.ts for event in events], what)
    return make_operators(
        {
            "rank": _integers([event.pid for event in events], what),
            "thread": _integers([event.tid for event in events], what),
            "name": categorical(event.name for event in events),
            "start_ns": start_ns,
            "end_ns": start_ns + _times_ns([event.dur for event in events], what),
            "call_id": pd.array([fact.call for fact in facts], dtype="Int64"),
            "link": categorical(fact.link for fact in facts),
        }
    )


def _together(frames: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """The columns of all parts; pd.concat would make text of categories that differ."""
    some, *others = frames
    filled = [frame for frame in (some, *others) if len(frame)] or [some]
    return {
        name: union_categoricals(parts, sort_categories=name in _WORDS)
        if isinstance(parts[0].dtype, pd.CategoricalDtype)
        else pd.concat(parts, ignore_index=True)
        for name in some.columns
        for parts in [[frame[name] for frame in filled]]
    }


def _calls(frames: Sequence[_Frames], text: TraceText) -> tuple[pd.DataFrame, list[str]]:
    begun = _together(part.calls for part in frames)
    ids = pd.Index(begun["call_id"])
    ended = pd.DataFrame(_together(part.ended for part in frames)).astype("Int64")
    end_ns = ended.drop_duplicates("call_id", keep="last").set_index("call_id")["end_ns"]
    served = pd.DataFrame(_together(part.served for part in frames)).set_index("call_id")
    for index, what in ((ids, "repeated"), (served.index, "served twice")):
        if index.has_duplicates:
            raise _DamageError(f"call {index.value_counts().index[0]} is {what}")
    status = np.where(ids.isin(end_ns.index), np.asarray(begun["status"]), "unfinished")
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


def _operators(frames: Sequence[_Frames], calls: pd.DataFrame) -> pd.DataFrame:
    columns = _together(part.operators for part in frames)
    called = columns["call_id"].to_numpy(dtype=np.int64, na_value=_NO_CALL)
    caller = pd.Index(calls["call_id"]).get_indexer(called)
    # The last name is empty: the index -1, of no call, takes it.
    names = union_categoricals([calls["name"].array, categorical([""])])
    return make_operators({**columns, "call_name": names.take(caller)})
