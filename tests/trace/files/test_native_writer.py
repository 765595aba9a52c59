import json
from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import Any

import msgspec
import pandas as pd

from tests.trace.golden_files import rows
from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.recordings import MAIN, client_span, operator, recording, server_span
from tuner.trace.files.native_reader import trace_of
from tuner.trace.files.native_writer import trace_document
from tuner.trace.model.spans import MergedOperator, MergedTrace, OperatorSpan
from tuner.trace.model.trace import CALL_COLUMNS
from tuner.trace.record.clock import SAME_CLOCK
from tuner.trace.record.merge import merge

BASE_NS = 1_700_000_000_123_456_789


def trace(**facts: Any) -> MergedTrace:
    """Three ranks with overlapping calls: nested, failed, builtin, late, and one without an end."""
    zero, late = BASE_NS, BASE_NS + 10**15 + 7
    first = client_span(0, start_ns=zero + 1001, issued_ns=zero + 1500, end_ns=zero + 9_000_003)
    second = client_span(
        1, start_ns=zero + 2000, issued_ns=zero + 2500, end_ns=zero + 8_000_000, status="raised",
        error='ValueError("no \N{SNOWMAN}\\n")', timeout_s=0.1, request_bytes=2**40,
    )  # fmt: skip
    builtin = client_span(2, start_ns=zero + 3000, end_ns=zero + 9999, body="builtin",
                          function="aten::add")  # fmt: skip
    hanging = client_span(
        3, start_ns=zero + 4000, end_ns=None, status="unfinished", kind="rpc_sync"
    )
    fetch = client_span(4, start_ns=late, body="fetch", function="", kind="to_here")
    nested = client_span(
        0, client=1, server=2, thread=2001, parent_call=first.call_id, start_ns=zero + 1700,
        end_ns=zero + 2900,
    )  # fmt: skip
    recordings = [
        recording(0, client_spans=[first, second, builtin, hanging, fetch]),
        recording(
            1,
            client_spans=[nested],
            server_spans=[
                server_span(
                    first, start_ns=zero + 1600, end_ns=zero + 7_777_777, answered_ns=zero + 7777778
                ),
                server_span(second, thread=2002, run_queue_ns=None, cpu_ns=2**40),
                server_span(hanging, thread=2003, end_ns=None, cpu_ns=None, run_queue_ns=None),
            ],
            done_ns={first.call_id: zero + 8_888_888},
            operators=[
                operator(zero + 2950, zero + 3950),
                operator(zero + 3050, zero + 3950, "aten::empty"),
                operator(zero + 4000, zero + 5000, "aten::add", thread=2004),
                operator(late, late + 333, "aten::neg", thread=MAIN + 1),
            ],
            threads=((MAIN + 1, "main"), *((2000 + n, "RPC worker") for n in (1, 2, 3, 4))),
        ),
        recording(2, server_spans=[server_span(nested)], threads=((2001, "RPC worker"),)),
    ]
    clocks = {each.name: SAME_CLOCK for each in recordings}
    return merge(recordings, clocks, (zero, zero + 10_000_000), **facts)


def events(document: dict[str, Any], phase: str) -> list[Any]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_each_call_is_an_async_event_with_an_arrow_to_its_server() -> None:
    document = msgspec.json.decode(trace_document(trace()))
    assert broken_rules(document) == []
    begun, ended = events(document, "b"), events(document, "e")
    assert len(begun) == 6
    assert len(ended) == 5  # one call never ended
    first = next(event for event in begun if event["id"] == 0)
    assert (first["pid"], first["tid"], first["ts"]) == (0, MAIN, 1.001)
    assert first["name"] == "rpc_async#work(worker0 -> worker1)"
    starts = {event["id"]: event for event in events(document, "s")}
    ends = {event["id"]: event for event in events(document, "f")}
    assert len(starts) == len(ends) == 5  # all but the fetch
    assert (starts[0]["pid"], starts[0]["tid"]) == (0, MAIN)
    assert (ends[0]["pid"], ends[0]["tid"], ends[0]["ts"]) == (1, 2001, 1.6)


def test_calls_and_facts_are_read_as_they_were_written() -> None:
    written = trace(steps=3, tracing_overhead=1.25)
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
            **{name: there[name] for name in ("answered_ns", "cpu_ns", "run_queue_ns")},
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


def test_operators_are_written_as_json_writes_them() -> None:
    """Any name, and times of more digits than a float has."""
    names = ["aten::mul", 'a "quoted" \\ name\n', "no \N{SNOWMAN}", "\x7f\0", ""]
    times = [0, 1, 1000, 1001, 999_999_999, 10**15 + 7, 2**53 + 1, 10**19, -1]
    lasts = (0, 12, 1_234_567)
    calls: Any = ((None, ""), (2**40, "inferred"))
    operators = [
        MergedOperator(1, OperatorSpan(name, 2001, start_ns, start_ns + lasted_ns, True), *call)
        for name, start_ns, lasted_ns, call in product(names, times, lasts, calls)
    ]
    content = trace_document(replace(trace(), operators=operators)).decode()
    written = json.loads(content)
    assert json.dumps(written, ensure_ascii=False, separators=(",", ":")) == content
    found = [each for each in written["traceEvents"] if each.get("cat") == "cpu_op"]
    assert [
        (each["ph"], each["name"], each["pid"], each["tid"], each["ts"], each["dur"],
         *each.get("args", {"call": None, "link": ""}).values())
        for each in found
    ] == [
        ("X", span.name, rank, span.thread, span.start_ns / 1e3,
         (span.end_ns - span.start_ns) / 1e3, call_id, link)
        for rank, span, call_id, link in operators
    ]  # fmt: skip
