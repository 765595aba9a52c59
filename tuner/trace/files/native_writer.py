"""Writes our own trace files; Perfetto (ui.perfetto.dev) opens them.

They are Chrome trace events, with facts about the trace before them. A call is an async event on
its client, since calls overlap, with a slice for the moment in which it is issued; a slice on the
server's thread; and an arrow from the one slice to the other. Every traced process imports this:
standard library only.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

from tuner.trace.model.spans import (
    CallbackSpan,
    MergedCall,
    MergedCallback,
    MergedOperator,
    MergedTrace,
    ServerSpan,
)

_HALF = re.compile("[\ud800-\udfff]")
FORMAT = 2  # rises with every change that a reader of the version before would get wrong
MARK = b'{"rpc_tuner":'  # what every file begins with
# Categories of events.
CALL: Literal["rpc"] = "rpc"
"""The client's span: `b` and `e`, the `b` with what is known of the call; and the arrow."""
ISSUE: Literal["rpc_issue"] = "rpc_issue"
"""A slice on the client's thread while it issues the call; the arrow starts there."""
SERVED: Literal["rpc_served"] = "rpc_served"
"""A slice on the server's thread, with what the server measured."""
CALLBACK: Literal["rpc_callback"] = "rpc_callback"
"""A slice on the thread that ran a callback."""
OPERATOR: Literal["cpu_op"] = "cpu_op"  # Kineto's name of this category


def trace_document(trace: MergedTrace) -> bytes:
    """The content of a trace file; `tuner.trace.files.native_reader` reads it without loss."""
    events = [*_names(trace)]
    for call in trace.calls:
        events += _client_events(call)
        events += _server_events(call)
    events += map(_callback_event, trace.callbacks)
    header = {"format": FORMAT, **asdict(trace.facts)}
    document = {"rpc_tuner": header, "displayTimeUnit": "ns", "traceEvents": events}
    text = ",".join([_json(document)[:-2], *_operator_texts(trace.operators)]) + "]}"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character, from a program's own text: no reader takes it
        return _HALF.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text).encode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _names(trace: MergedTrace) -> Iterator[dict[str, Any]]:
    for rank in trace.facts.ranks:
        process = {"ph": "M", "pid": rank.rank}
        yield {**process, "name": "process_name", "args": {"name": rank.name}}
        yield {**process, "name": "process_sort_index", "args": {"sort_index": rank.rank}}
        for thread, name in rank.threads:
            yield {**process, "name": "thread_name", "tid": thread, "args": {"name": name}}


def _client_events(call: MergedCall) -> Iterator[dict[str, Any]]:
    span = call.span
    here = {"name": call.name, "pid": call.client_rank, "tid": span.thread}
    facts = {
        "call": span.call_id, "kind": span.kind, "body": span.body, "function": span.function,
        "client": call.client, "server": span.server, "client_rank": call.client_rank,
        "server_rank": span.server_rank, "issued_ns": span.issued_ns, "status": span.status,
        "error": span.error, "timeout_s": span.timeout_s, "request_bytes": span.request_bytes,
        "parent": span.parent_call, "link": call.link, "received_ns": span.received_ns,
        "site": span.site, "defined": span.defined, "request_tensors": span.request_tensors,
        "same_as": span.same_as,
    }  # fmt: skip
    spans = {**here, "cat": CALL, "id": span.call_id}
    yield {**spans, "ph": "b", "ts": span.start_ns / 1e3, "args": facts}
    if span.end_ns is not None:
        yield {**spans, "ph": "e", "ts": span.end_ns / 1e3}
    if call.served is not None:
        # An arrow must start at a slice, and async events are no slices.
        yield {
            **here, "name": f"issue {call.name}", "cat": ISSUE, "ph": "X",
            "ts": span.start_ns / 1e3, "dur": (span.issued_ns - span.start_ns) / 1e3,
            "args": {"call": span.call_id},
        }  # fmt: skip
        yield {**spans, "ph": "s", "ts": span.start_ns / 1e3}


def _server_events(call: MergedCall) -> Iterator[dict[str, Any]]:
    served = call.served
    if served is None:
        return
    here = {"name": call.name, "pid": call.span.server_rank, "tid": served.thread}
    facts = {
        "call": served.call_id, "cpu_ns": served.cpu_ns, "run_queue_ns": served.run_queue_ns,
        "answered_ns": served.answered_ns, "done_ns": call.done_ns, "slices": served.slices,
        "answer_tensors": served.answer_tensors, "arrived_ns": served.arrived_ns,
        "unpickled_ns": served.unpickled_ns, "answer_bytes": served.answer_bytes,
    }  # fmt: skip
    event = {**here, "cat": SERVED, "ts": served.start_ns / 1e3, "args": facts}
    yield event | _lasting(served)
    yield {**here, "cat": CALL, "id": served.call_id, "ph": "f", "bp": "e", "ts": event["ts"]}


def _callback_event(callback: MergedCallback) -> dict[str, Any]:
    rank, span = callback
    facts = {
        "call": span.call_id, "holds_thread": span.holds_thread, "cpu_ns": span.cpu_ns,
        "run_queue_ns": span.run_queue_ns,
    }  # fmt: skip
    return {
        "name": span.function, "pid": rank, "tid": span.thread, "cat": CALLBACK,
        "ts": span.start_ns / 1e3, "args": facts, **_lasting(span),
    }  # fmt: skip


def _lasting(span: ServerSpan | CallbackSpan) -> dict[str, Any]:
    """A slice from start to end; of what has none, its begin."""
    if span.end_ns is None:
        return {"ph": "B"}
    return {"ph": "X", "dur": (span.end_ns - span.start_ns) / 1e3}


def _operator_texts(operators: Sequence[MergedOperator]) -> Iterator[str]:
    """Their events as `_json` writes them: there may be millions, and few names."""
    names = {name: _json(name) for name in {operator.span.name for operator in operators}}
    for rank, (name, thread, start_ns, end_ns, _), call_id, link in operators:
        args = "" if call_id is None else f',"args":{{"call":{call_id},"link":"{link}"}}'
        yield (
            f'{{"ph":"X","cat":"{OPERATOR}","name":{names[name]},"pid":{rank},"tid":{thread},'
            f'"ts":{start_ns / 1e3},"dur":{(end_ns - start_ns) / 1e3}{args}}}'
        )
