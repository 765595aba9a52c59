"""Texts that break off, and texts in parts: the same trace as that of the whole text."""

import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import Raw

from testing.golden_files import KINETO, KINETO_1_9, LEGACY, NATIVE
from testing.kineto_trace import write_trace
from tuner.errors import UsageError
from tuner.trace.files import reader
from tuner.trace.files.event_places import event_places
from tuner.trace.files.kineto_join import NO_CALLS
from tuner.trace.files.kineto_reader import MOST_PROCESSES
from tuner.trace.files.reader import open_trace, read_trace
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.trace import Trace

FORMATS = pytest.mark.parametrize("path", [NATIVE, KINETO[0], LEGACY], ids=lambda path: path.stem)


def events_of(content: str | bytes) -> Any:
    document = json.loads(content)
    return document if isinstance(document, list) else document["traceEvents"]


@FORMATS
def test_a_text_cut_anywhere_yields_its_complete_events(path: Path) -> None:
    content = path.read_text().rstrip()
    every = events_of(content)
    numbers = []
    for length in range(1, len(content)):
        found, text = [], TraceText(subject="cut", content=content[:length].encode())
        with suppress(UsageError):  # before any event is complete
            document, whole = text.decode(Raw)
            assert not whole
            found = events_of(bytes(document))
        assert found == every[: len(found)]
        numbers.append(len(found))
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(every)


# Parts.

Same = Callable[..., Trace | str]


@pytest.fixture
def same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Same:
    """Reads a text at once and in parts of `size` bytes, compares, and returns what was read."""
    file = tmp_path / "trace.json"

    def outcome() -> Trace | str:
        try:
            return read_trace(file)
        except UsageError as error:
            return str(error)

    def read(content: bytes, size: int) -> Trace | str:
        file.write_bytes(content)
        whole = outcome()
        with monkeypatch.context() as patch:
            patch.setattr(reader, "PART_BYTES", size)
            patch.setattr(reader, "MOST_EVENT_BYTES", 5000)
            parts = outcome()
        if isinstance(whole, str) or isinstance(parts, str):
            assert parts == whole
            return whole
        pd.testing.assert_frame_equal(parts.calls, whole.calls)
        pd.testing.assert_frame_equal(parts.operators, whole.operators)
        pd.testing.assert_frame_equal(parts.callbacks, whole.callbacks)
        frames = {"calls": None, "operators": None, "callbacks": None}
        assert {**vars(parts), **frames} == {**vars(whole), **frames}
        return whole

    return read


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [10, 300])
@pytest.mark.parametrize("path", [NATIVE, *KINETO, KINETO_1_9, LEGACY], ids=lambda path: path.stem)
def test_a_trace_in_parts_is_the_same(
    path: Path, size: int, packed: bool, same: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = path.read_bytes()
    assert isinstance(same(gzip.compress(content) if packed else content, size), Trace)
    monkeypatch.setattr(reader, "PART_BYTES", size)
    assert len([*open_trace(path)]) > 1


@pytest.mark.slow
@FORMATS
def test_a_trace_in_parts_that_breaks_off_anywhere_is_the_same(path: Path, same: Same) -> None:
    content = path.read_bytes()
    for length in range(1, len(content), 97):
        same(content[:length], 120)


def test_spans_that_are_left_out_are_told_in_one_order(same: Same) -> None:
    event = '{"name": "aten::mul", "ph": "X", "pid": "CPU functions", "tid": 1, %s}'
    times = ['"ts": 1', '"ts": 1, "dur": -1', '"dur": 1', '"ts": 1, "dur": 1']
    trace = same(f"[{', '.join(event % each for each in times)}]".encode(), 100)
    assert isinstance(trace, Trace)
    whys = ("without a time stamp.", "without a duration.", "with a negative duration.")
    assert all(map(str.endswith, trace.losses, whys))


BAD = (
    b'{"name": 5}',
    b"7",
    b'"a", 7, {]',
    b'{"name": "caf\xe9"}',
    b"{]",
    b"01",
    b'{"dur": nul}',
    b"[" * 3000,
)


@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_said_with_its_place_in_the_whole_text(bad: bytes, same: Same) -> None:
    event = b'{"name": "aten::mul", "ph": "X", "cat": "cpu_op", "ts": 5, "dur": 1, "pid": 1}'
    for before, after in ((0, 9), (9, 0), (9, 9)):
        events = b" ,\n".join([event] * before + [bad] + [event] * after)
        same(b'{"a": [{}], "traceEvents": [' + events + b'], "b": [{}, {}]}', 100)
        same(b"[" + events + b"]", 100)


def test_a_key_of_that_name_elsewhere_is_not_that_of_the_events(same: Same) -> None:
    begin = b'{"a": {"traceEvents": [{}, {}]}, "b": "\\"traceEvents\\": [", '
    assert isinstance(same(KINETO[0].read_bytes().replace(b"{", begin, 1), 120), Trace)


ENDLESS = {
    b'{"traceEvents": [' + b"0," * 5000: "JSON, but no trace: its events are no objects; ",
    b'{"traceEvents": [{"a": "' + b"0" * 10000: "no trace: no event ends within 0 MB; ",
    b"{" + b'"":[],' * 2000: 'JSON, but no trace: an object, without "traceEvents"; ',
    b'{"a": [' + b'{"traceEvents": []},' * 1000: (
        'JSON, but no trace: an object that begins with "a", without "traceEvents"; '
    ),
    b"{ 0 " * 2000: "not JSON, so no trace: ",
    # White space takes no memory.
    b"[" + b" \n" * 2**14: "breaks off at byte 32769, before any event",
}


@pytest.mark.parametrize(("content", "found"), ENDLESS.items())
def test_a_text_without_the_end_of_an_event_is_refused_before_it_is_long(
    content: bytes, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PART_BYTES", 2**10)
    monkeypatch.setattr(reader, "MOST_EVENT_BYTES", 2**12)
    monkeypatch.setattr(reader, "MOST_BYTES_BESIDE", 2**12)
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_trace(file)
    assert str(refused.value).startswith(f"{file}: {found}")


def test_what_does_not_begin_as_json_is_refused_at_once() -> None:
    chunks = iter([bytes(reader.PART_BYTES)] * 20)
    with pytest.raises(UsageError, match="not JSON, so no trace"):
        list(reader._parts("zeros", False, chunks))
    assert len([*chunks]) > 15


@pytest.mark.parametrize("is_before", [False, True])
def test_what_stands_beside_the_events_may_be_long(
    is_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PART_BYTES", 2**10)
    monkeypatch.setattr(reader, "MOST_EVENT_BYTES", 2**12)
    event = '{"name": "aten::mul", "ph": "X", "cat": "cpu_op", "ts": 5, "dur": 1, "pid": 1}'
    long = f'"stacks": [{{"a": "{"z" * 2**15}"}}, {{}}], "host_name": "a"'
    file = tmp_path / "trace.json"
    members = [f'"traceEvents": [{event}, {event}]', long]
    file.write_text(f"{{{', '.join(members[::-1] if is_before else members)}}}")
    trace = read_trace(file)
    assert (len(trace.operators), trace.ranks[0].host, trace.losses) == (2, "a", (NO_CALLS,))
    monkeypatch.setattr(reader, "MOST_BYTES_BESIDE", 2**13)
    with pytest.raises(UsageError):
        read_trace(file)


def test_processes_without_number_are_refused(same: Same) -> None:
    events = ",".join(f'{{"ph": "X", "pid": {pid}}}' for pid in range(MOST_PROCESSES + 1))
    assert "events of more than 1,000 processes" in str(same(f"[{events}]".encode(), 2**14))


@pytest.mark.parametrize("piece", [b"[", b"{", b'"', b',{"a":', b',{"ph":"', b'{"ph":1},[', b"}\n"])
def test_twice_as_much_that_is_no_event_takes_twice_as_long(piece: bytes) -> None:
    def cpu_s(number: int) -> float:
        began_s = time.process_time()
        event_places(b"[" + piece * number, 1, is_last=True)
        return time.process_time() - began_s

    # Where the work is quadratic, 16 times as much takes 256 times as long, and seconds.
    few, many = min(cpu_s(4_000) for _ in range(3)), min(cpu_s(64_000) for _ in range(3))
    assert many < 64 * max(few, 0.001)


def test_a_large_trace_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PART_BYTES", 2**18)
    file = tmp_path / "trace.json"
    write_trace(file, 30_000)
    read_trace(KINETO[0])  # what is imported late counts for nobody
    tracemalloc.start()
    trace = read_trace(file)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace.operators) == 30_000
    assert most_bytes < file.stat().st_size
