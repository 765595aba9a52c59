"""Generates a Kineto trace of any size, with the layout, order and arguments of a real one."""

import random
from collections.abc import Iterator
from pathlib import Path

PROCESS = 12880
FIRST_THREAD = 13012
BASE_TIME_NS = 1_790_857_026_000_000_000
# Kineto's time stamps are microseconds since a base that is some weeks earlier.
START_US = 4_369_569_181_000.0

HEAD = """ {
    "schemaVersion": 1,
    "deviceProperties": [],

      "trace_id": "A2ECBCE6AA5A46D797751B08D717D40C",
      "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1, "pg_count": 1},
      "host_name": "node",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": %d,
    "traceEvents": [
    """

METADATA = """
  {
    "ph": "M",
    "name": "%s",
    "ts": %.3f,
    "pid": %d,
    "tid": %d,
    "args": {
      "%s": "%s"
    }
  },"""

OPERATOR = """
  {
    "ph": "X",
    "cat": "cpu_op",
    "name": "%s",
    "pid": %d,
    "tid": %d,
    "ts": %.3f,
    "dur": %.3f
    ,
    "args": {
      "External id": %d,"Record function id": 0, %s"Ev Idx": %d
    }
  },"""

TAIL = """
  {
    "ph": "X",
    "cat": "Trace",
    "name": "PyTorch Profiler (0)",
    "pid": "Spans",
    "tid": "PyTorch Profiler",
    "ts": %.3f,
    "dur": %.3f
    ,
    "args": {
      "Op count": 0
    }
  },
  {
    "ph": "i",

    "s": "g",
    "name": "Record Window End",
    "pid": "",
    "tid": "",
    "ts": %.3f

  }
  ],"traceName": "trace.json" }"""

SEQUENCED = '"Sequence number": 0, "Fwd thread id": 0, '

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


def operators(thread: int, first: int, count: int) -> Iterator[tuple[str, float]]:
    """The text of `count` operators of one thread, each with its end."""
    chance = random.Random(thread)
    start_us = START_US + chance.uniform(0, 50)
    spans: list[tuple[float, float]] = []
    for index in range(count):
        place = index % len(LAYER)
        if place == 0:
            start_us += spans[-1][0] + chance.uniform(10, 30) if spans else 0.0
            spans = layer_spans(chance)
        name, _, sequenced = LAYER[place]
        offset_us, dur_us = spans[place]
        arguments = SEQUENCED if sequenced else ""
        text = OPERATOR % (
            *(name, PROCESS, thread, start_us + offset_us, dur_us),
            *(first + index + 1, arguments, first + index),
        )
        yield text, start_us + offset_us + dur_us


def write_trace(path: Path, count: int, threads: int = 8) -> None:
    """Write a trace of one rank with `count` operators, distributed over the threads."""
    ids = [FIRST_THREAD + number for number in range(threads)]
    last_us = START_US
    with path.open("w") as out:
        out.write(HEAD % BASE_TIME_NS)
        out.write(METADATA % ("process_name", START_US, PROCESS, 0, "name", "python"))
        for thread in ids:
            name = f"thread {thread} (python)"
            out.write(METADATA % ("thread_name", START_US, PROCESS, thread, "name", name))
        for number, thread in enumerate(ids):
            first, beyond = (count * n // threads for n in (number, number + 1))
            for text, end_us in operators(thread, first, beyond - first):
                out.write(text)
                last_us = max(last_us, end_us)
        out.write(TAIL % (START_US, last_us - START_US, last_us))
