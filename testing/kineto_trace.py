"""Generates a Kineto trace of any size, with the layout, order and arguments of a real one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

PROCESS, FIRST_THREAD = 12880, 13012
# Kineto's time stamps are microseconds since a base that is some weeks earlier.
START_US = 4_369_569_181_000.0
HEAD: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [],
    "trace_id": "A2ECBCE6AA5A46D797751B08D717D40C",
    "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1, "pg_count": 1},
    "host_name": "node",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1_790_857_026_000_000_000,
}
# One layer of a network as the profiler records it: of each operator the name, its start in the
# layer and how long it lasts, in us, and whether it has a sequence number.
LAYER: tuple[tuple[str, float, float, bool], ...] = (
    ("aten::linear", 0.3, 29.418, True), ("aten::t", 1.117, 6.804, True),
    ("aten::transpose", 2.236, 4.911, False), ("aten::as_strided", 3.402, 2.073, False),
    ("aten::addmm", 8.507, 20.644, True), ("aten::expand", 9.613, 5.208, False),
    ("aten::as_strided", 11.709, 2.106, False), ("aten::copy_", 15.322, 5.017, False),
    ("aten::resolve_conj", 21.204, 0.611, False), ("aten::resolve_conj", 24.318, 0.917, False),
    ("aten::relu", 30.105, 6.713, True), ("aten::clamp_min", 31.419, 4.802, False),
    ("aten::sum", 37.206, 9.918, True), ("aten::sum", 38.317, 7.604, False),
    ("aten::as_strided", 39.401, 1.208, False), ("aten::fill_", 42.119, 2.311, False),
)  # fmt: skip
LAYER_US = 63.777


def operators(thread: int, first: int, count: int) -> Iterator[dict[str, Any]]:
    """The `count` operators of one thread."""
    for index in range(count):
        layer, place = divmod(index, len(LAYER))
        name, offset_us, dur_us, is_sequenced = LAYER[place]
        args = {"External id": first + index + 1, "Record function id": 0}
        if is_sequenced:
            args |= {"Sequence number": 0, "Fwd thread id": 0}
        yield {
            "ph": "X", "cat": "cpu_op", "name": name, "pid": PROCESS, "tid": thread,
            "ts": round(START_US + layer * LAYER_US + offset_us, 3), "dur": dur_us,
            "args": {**args, "Ev Idx": first + index},
        }  # fmt: skip


def events(count: int, threads: int) -> Iterator[dict[str, Any]]:
    named = {"ph": "M", "ts": START_US, "pid": PROCESS}
    yield {**named, "name": "process_name", "tid": 0, "args": {"name": "python"}}
    ids = [FIRST_THREAD + number for number in range(threads)]
    for thread in ids:
        name = f"thread {thread} (python)"
        yield {**named, "name": "thread_name", "tid": thread, "args": {"name": name}}
    last_us = START_US
    for number, thread in enumerate(ids):
        first, beyond = (count * n // threads for n in (number, number + 1))
        for operator in operators(thread, first, beyond - first):
            yield operator
            last_us = max(last_us, operator["ts"] + operator["dur"])
    yield {
        "ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
        "tid": "PyTorch Profiler", "ts": START_US, "dur": round(last_us - START_US, 3),
        "args": {"Op count": 0},
    }  # fmt: skip
    yield {
        "ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": last_us
    }  # fmt: skip


def write_trace(path: Path, count: int, threads: int = 8) -> None:
    """Write a trace of one rank with `count` operators, distributed over the threads."""
    with path.open("wb") as out:
        out.write(_text(HEAD).removesuffix(b"\n}") + b',\n  "traceEvents": [\n')
        for place, event in enumerate(events(count, threads)):
            out.write(b",\n" * bool(place) + _text(event))
        out.write(b'],\n  "traceName": "trace.json"\n}')


def _text(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=4)
