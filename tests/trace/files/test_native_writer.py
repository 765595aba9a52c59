from collections import defaultdict
from dataclasses import replace
from typing import Any

import msgspec
import pandas as pd

from testing.golden_files import rows
from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.recordings import MAIN, merged
from tuner.trace.files.native_reader import trace_of
from tuner.trace.files.native_writer import trace_document
from tuner.trace.model.spans import (
    CallbackSpan,
    MergedCallback,
    MergedOperator,
    MergedTrace,
    OperatorSpan,
)
from tuner.trace.model.trace import CALL_COLUMNS, CALLBACK_COLUMNS

NAMES = ('a "quoted" \\ name\n', "no \N{SNOWMAN}", "\x7f\0", "")
SERVED_COLUMNS = (
    "answered_ns", "answer_tensors", "arrived_ns", "unpickled_ns", "cpu_ns", "run_queue_ns",
    "slices", "answer_bytes",
)  # fmt: skip
TIMES = (10**15 + 7, 2**52 + 1, 10_001, 20_000)
"""Nanoseconds, also in microseconds of as many digits as a float has."""


def trace(**facts: Any) -> MergedTrace:
    """The first call lasts while others begin, and has what is hard to write; so have operators."""
    found = merged(**facts)
    call, *others = found.calls
    assert call.served is not None
    span = call.span._replace(
        thread=MAIN + 1, end_ns=5_000_003, status="raised", timeout_s=0.1, request_bytes=2**40,
        error='ValueError("no \N{SNOWMAN}\\n")', parent_call=3, received_ns=4_000_001,
        site="a \N{SNOWMAN}.py:7", defined="pkg/store.py:9", request_tensors=2**33, same_as=3,
    )  # fmt: skip
    served = call.served._replace(
        answered_ns=185, cpu_ns=2**40, run_queue_ns=None, slices=7, arrived_ns=105,
        unpickled_ns=110, answer_tensors=4000, answer_bytes=2**41,
    )  # fmt: skip
    call = replace(call, client="worker1", client_rank=1, span=span, served=served)
    hard = [
        MergedOperator(1, OperatorSpan(name, 2001, at_ns, at_ns + 333, True), None, "")
        for name, at_ns in zip(NAMES, TIMES, strict=True)
    ]
    return replace(found, calls=[call, *others], operators=[*found.operators, *hard])


def events(document: dict[str, Any], phase: str) -> list[Any]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_each_call_is_an_async_event_with_an_arrow_to_its_server() -> None:
    document = msgspec.json.decode(trace_document(trace()))
    assert broken_rules(document) == []
    begun, ended = events(document, "b"), events(document, "e")
    assert len(begun) == 4
    assert len(ended) == 3  # one call never ended
    first = next(event for event in begun if event["id"] == 0)
    assert (first["pid"], first["tid"], first["ts"]) == (1, MAIN + 1, 0.1)
    assert first["name"] == "rpc_async#work(worker0 -> worker1)"
    starts = {event["id"]: event for event in events(document, "s")}
    ends = {event["id"]: event for event in events(document, "f")}
    assert len(starts) == len(ends) == 3  # all but the fetch
    assert (starts[0]["pid"], starts[0]["tid"]) == (1, MAIN + 1)
    assert (ends[0]["pid"], ends[0]["tid"], ends[0]["ts"]) == (1, 2001, 0.12)


def test_calls_and_facts_are_read_as_they_were_written() -> None:
    written = trace(steps=3, tracing_overhead=1.25)
    facts = replace(written.facts, operators_until_ns=1234, others_share=0.25)
    written = replace(written, facts=facts)
    found = trace_of(trace_document(written), "it")
    assert {name: getattr(found, name) for name in vars(written.facts)} == vars(written.facts)
    calls = found.calls.set_index("call_id")
    assert len(calls) == len(written.calls)
    for call in written.calls:
        span, served = call.span, call.served
        there = served._asdict() if served else defaultdict[str, Any](lambda: None)
        expected = {
            **{name: value for name, value in span._asdict().items() if name in CALL_COLUMNS},
            **{f"server_{name}": there[name] for name in ("thread", "start_ns", "end_ns")},
            **{name: there[name] for name in SERVED_COLUMNS},
            "name": call.name, "client": call.client, "client_rank": call.client_rank,
            "client_thread": span.thread, "link": call.link, "done_ns": call.done_ns,
        }  # fmt: skip
        del expected["call_id"]
        assert {*expected, "call_id"} == {*CALL_COLUMNS}
        row = calls.loc[span.call_id].to_dict()
        assert {name: None if pd.isna(row[name]) else row[name] for name in expected} == expected


def test_operators_are_read_as_they_were_written() -> None:
    written = trace()
    names: dict[int | None, str] = {call.span.call_id: call.name for call in written.calls}
    expected = [
        (each.rank, *each.span[:4], each.call_id, names.get(each.call_id, ""), each.link)
        for each in written.operators
    ]
    columns = ("rank", *OperatorSpan._fields[:4], "call_id", "call_name", "link")
    found = rows(trace_of(trace_document(written), "it").operators, *columns)
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_callbacks_are_slices_of_their_threads_and_read_as_they_were_written() -> None:
    spans = [
        CallbackSpan(NAMES[0], 2001, 0, True, 300, 333, 5, None),
        CallbackSpan("post", 2001, None, False, 400_001, None, None, None),
    ]
    written = replace(trace(), callbacks=[MergedCallback(1, span) for span in spans])
    document = msgspec.json.decode(trace_document(written))
    assert broken_rules(document) == []
    slices = [event for event in document["traceEvents"] if event.get("cat") == "rpc_callback"]
    assert [(event["ph"], event["pid"], event["tid"]) for event in slices] == [
        ("X", 1, 2001), ("B", 1, 2001),
    ]  # fmt: skip
    read = trace_of(trace_document(written), "it").callbacks
    assert dict(read.dtypes.astype(str)) == CALLBACK_COLUMNS
    assert rows(read, *CALLBACK_COLUMNS) == [
        (1, 2001, NAMES[0], 0, True, 300, 333, 5, None),
        (1, 2001, "post", None, False, 400_001, None, None, None),
    ]
    assert trace_of(trace_document(trace()), "it").callbacks.empty
