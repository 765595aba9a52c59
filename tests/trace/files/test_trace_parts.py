"""A file that is read in parts is the same trace as one that is read at once."""

import gzip
import tracemalloc
from pathlib import Path

import pandas as pd
import pytest

from tests.trace.golden_files import KINETO, KINETO_1_9, LEGACY, NATIVE
from tests.trace.kineto_trace import write_trace
from tuner.errors import UsageError
from tuner.trace.files import reader
from tuner.trace.files.kineto_reader import MOST_PROCESSES
from tuner.trace.files.reader import open_trace, read_trace
from tuner.trace.model.trace import Trace

GOLDEN = (NATIVE, *KINETO, KINETO_1_9, LEGACY)
SIZES = (10, 300)


def outcome(path: Path) -> Trace | str:
    try:
        return read_trace(path)
    except UsageError as error:
        return str(error)


def assert_same(one: Trace | str, other: Trace | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    pd.testing.assert_frame_equal(one.calls, other.calls)
    pd.testing.assert_frame_equal(one.operators, other.operators)
    frames = {"calls": None, "operators": None}
    assert {**vars(one), **frames} == {**vars(other), **frames}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_trace_in_parts_is_the_same(
    path: Path, size: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace"
    file.write_bytes(gzip.compress(path.read_bytes()) if packed else path.read_bytes())
    whole = outcome(file)
    monkeypatch.setattr(reader, "PART_BYTES", size)
    assert len([*open_trace(file)]) > 1
    assert_same(outcome(file), whole)


@pytest.mark.slow
@pytest.mark.parametrize("path", [NATIVE, KINETO[0], LEGACY], ids=lambda path: path.stem)
def test_a_trace_in_parts_that_breaks_off_anywhere_is_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace"
    content = path.read_bytes()
    for length in range(1, len(content), 97):
        file.write_bytes(content[:length])
        whole = outcome(file)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "PART_BYTES", 120)
            assert_same(outcome(file), whole)


def test_spans_that_are_left_out_are_told_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = '{"name": "aten::mul", "ph": "X", "pid": "CPU functions", "tid": 1, %s}'
    times = ['"ts": 1', '"ts": 1, "dur": -1', '"dur": 1', '"ts": 1, "dur": 1']
    file = tmp_path / "trace.json"
    file.write_text(f"[{', '.join(event % each for each in times)}]")
    whole = outcome(file)
    assert isinstance(whole, Trace)
    whys = ("without a time stamp.", "without a duration.", "with a negative duration.")
    assert all(map(str.endswith, whole.losses, whys))
    monkeypatch.setattr(reader, "PART_BYTES", 100)
    assert_same(outcome(file), whole)


BAD = (b'{"name": 5}', b"7", b'{"name": "caf\xe9"}', b"{]", b"01", b'{"dur": nul}', b"[" * 3000)


@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_said_with_its_place_in_the_whole_text(
    bad: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = b'{"name": "aten::mul", "ph": "X", "cat": "cpu_op", "ts": 5, "dur": 1, "pid": 1}'
    for before, after in ((0, 9), (9, 0), (9, 9)):
        events = [event] * before + [bad] + [event] * after
        for head, tail in ((b'{"a": [{}], "traceEvents": [', b'], "b": [{}, {}]}'), (b"[", b"]")):
            file = tmp_path / "trace.json"
            file.write_bytes(head + b" ,\n".join(events) + tail)
            whole = outcome(file)
            with monkeypatch.context() as patch:
                patch.setattr(reader, "PART_BYTES", 100)
                patch.setattr(reader, "MOST_EVENT_BYTES", 5000)
                assert_same(outcome(file), whole)


def test_a_key_of_that_name_elsewhere_is_not_that_of_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace.json"
    begin = b'{"a": {"traceEvents": [{}, {}]}, "b": "\\"traceEvents\\": [", '
    file.write_bytes(KINETO[0].read_bytes().replace(b"{", begin, 1))
    whole = outcome(file)
    assert isinstance(whole, Trace)
    monkeypatch.setattr(reader, "PART_BYTES", 120)
    assert_same(outcome(file), whole)


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
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_trace(file)
    assert str(refused.value).startswith(f"{file}: {found}")


def test_processes_without_number_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    events = ",".join(f'{{"ph": "X", "pid": {pid}}}' for pid in range(MOST_PROCESSES + 1))
    file.write_text(f'{{"traceEvents": [{events}]}}')
    with pytest.raises(UsageError, match="events of more than 1,000 processes"):
        read_trace(file)


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
