"""Generates a Kineto trace of any size, with the layout, order and arguments of a real one."""

import random
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
# One layer of a network as the profiler records it: operator, depth, and whether it has a
# sequence number. Each operator runs inside the nearest one above it with a smaller depth.
LAYER: tuple[tuple[str, int, bool], ...] = (
    ("aten::linear", 0, True), ("aten::t", 1, True), ("aten::transpose", 2, False),
    ("aten::as_strided", 3, False), ("aten::addmm", 1, True), ("aten::expand", 2, False),
    ("aten::as_strided", 3, False), ("aten::copy_", 2, False), ("aten::resolve_conj", 2, False),
    ("aten::resolve_conj", 2, False), ("aten::relu", 0, True), ("aten::clamp_min", 1, False),
    ("aten::sum", 0, True), ("aten::sum", 1, False), ("aten::as_strided", 2, False),
    ("aten::fill_", 2, False),
)  # fmt: skip
ENTRY_US = 0.3
"""The time from an operator's start to that of the first one inside it, and between ends."""


def layer_spans(chance: random.Random) -> list[tuple[float, float]]:
    """Start and duration in us of each operator of LAYER, from the layer's start."""
    spans: list[tuple[float, float]] = []
    running: list[int] = []  # the open ones, outermost first
    now_us = 0.0
    for _, depth, _ in (*LAYER, ("", 0, False)):
        while len(running) > depth:
            index = running.pop()
            now_us += ENTRY_US
            spans[index] = (spans[index][0], now_us - spans[index][0])
        now_us += ENTRY_US
        running.append(len(spans))
        spans.append((now_us, 0.0))
        now_us += chance.uniform(0.2, 4.0)
    return spans[: len(LAYER)]


def operators(thread: int, first: int, count: int) -> Iterator[dict[str, Any]]:
    """The `count` operators of one thread."""
    chance = random.Random(thread)
    start_us = START_US + chance.uniform(0, 50)
    spans: list[tuple[float, float]] = []
    for index in range(count):
        place = index % len(LAYER)
        if place == 0:
            start_us += spans[-1][0] + chance.uniform(10, 30) if spans else 0.0
            spans = layer_spans(chance)
        name, _, is_sequenced = LAYER[place]
        offset_us, dur_us = spans[place]
        args = {"External id": first + index + 1, "Record function id": 0}
        if is_sequenced:
            args |= {"Sequence number": 0, "Fwd thread id": 0}
        yield {
            "ph": "X", "cat": "cpu_op", "name": name, "pid": PROCESS, "tid": thread,
            "ts": round(start_us + offset_us, 3), "dur": round(dur_us, 3),
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
        for each in operators(thread, first, beyond - first):
            yield each
            last_us = max(last_us, each["ts"] + each["dur"])
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
        for place, each in enumerate(events(count, threads)):
            out.write(b",\n" * bool(place) + _text(each))
        out.write(b'],\n  "traceName": "trace.json"\n}')


def _text(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=4)
