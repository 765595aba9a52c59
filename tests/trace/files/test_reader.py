import gzip
import tracemalloc
import zlib
from pathlib import Path

import pandas as pd
import pytest

from tests.trace.golden_files import KINETO, LEGACY, NATIVE, operator, write_kineto
from tuner.errors import UsageError
from tuner.trace.files import reader
from tuner.trace.files.reader import read_trace, read_traces
from tuner.trace.files.trace_text import READ
from tuner.trace.model.trace import CALL_COLUMNS, OPERATOR_COLUMNS

EVERY_FORMAT = [KINETO[0], LEGACY, NATIVE]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("path", EVERY_FORMAT)
def test_frames_have_the_declared_columns(path: Path) -> None:
    trace = read_trace(path)
    assert list(trace.calls) == list(CALL_COLUMNS)
    assert list(trace.operators) == list(OPERATOR_COLUMNS)
    for frame, declared in ((trace.calls, CALL_COLUMNS), (trace.operators, OPERATOR_COLUMNS)):
        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == declared


def test_reads_a_gzip_file_of_several_members(tmp_path: Path) -> None:
    content = LEGACY.read_bytes()
    packed = gzip.compress(content[:300]) + gzip.compress(content[300:])
    trace = read_trace(write(tmp_path / "trace.gz", packed))
    assert len(trace.operators) == len(read_trace(LEGACY).operators)


def test_reads_what_a_truncated_gzip_file_holds(tmp_path: Path) -> None:
    names = [f"aten::op_{n}" for n in range(2000)]
    whole = write_kineto(tmp_path / "whole", [operator(name=name) for name in names])
    packed = gzip.compress(whole.read_bytes())
    path = write(tmp_path / "trace.gz", packed[: len(packed) // 2])
    trace = read_trace(path)
    assert 0 < len(trace.operators) < 2000
    assert trace.losses[0].startswith(f"{path} breaks off at byte ")
    read = len(trace.operators)
    assert trace.losses[0].endswith(f" of its unpacked text, after {read} complete events.")


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "trace", b"\xef\xbb\xbf" + LEGACY.read_bytes())
    assert read_trace(path).source == "legacy"


NO_EVENT = (
    f"no event that can be read; {READ}\n  - Left out of %s: 1 event not valid as JSON, first "
    "event 0: "
)
NO_JSON = "not JSON, so no trace: JSON is malformed: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"empty; {READ}"),
        (b" \n ", "empty"),
        (b"{}", 'JSON, but no trace: an object, without "traceEvents"; rpc-tuner reads its own '),
        (b"[]", f"a trace without events; {READ}"),
        (b'"""A program."""\nimport os\n', f"{NO_JSON}trailing characters (byte 3)"),
        (b'{"traceEvents": 3}', "JSON, but no trace: its events: Expected `array`, got `int`"),
        (b"hello", f"{NO_JSON}invalid character (byte 0); rpc-tuner "),
        (b'{"traceEvents": []} and more', f"{NO_JSON}trailing characters (byte 21)"),
        (b'{"traceEvents": [{"ph": "\\ud800", "name": "x"}], "a": 1}',
         f"{NO_EVENT}JSON is malformed: unexpected end of escaped utf-16 surrogate pair (byte 31)"),
        ("\ufeff[]".encode("utf-16-le"), "not UTF-8 text: byte 0 is 0xff; rpc-tuner reads "),
        (b'{"traceEvents": [{"ph": "X", "name": "caf\xe9"}]}',
         f"{NO_EVENT}not UTF-8 text: byte 41 is 0xe9"),
        (b'{"deviceProperties": [{}], "traceEvents": [{"ph": "X", "args": {"a": 1}',
         "breaks off at byte 71, before any event in it is complete"),
        (b'{"schemaVersion": 1, "deviceProperties": [{}',
         "breaks off at byte 44, before any event in it is complete"),
        (b"[" * 100_000, "not JSON, so no trace: nested too deeply"),
        (b'{"traceEvents": [{"args": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}]}",
         f"{NO_EVENT}nested too deeply"),
        (b"\x1f\x8b\x08\x00 rubbish rubbish",
         "a damaged gzip file: Error -3 while decompressing data"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_and_where(content: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", content)
    with pytest.raises(UsageError) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}: {message.replace('%s', str(path))}")


def test_a_path_that_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json: there is no such file$"):
        read_trace(tmp_path / "gone.json")
    with pytest.raises(UsageError, match=r"a folder, not a trace; name the files in it$"):
        read_trace(tmp_path)


def test_lists_every_file_that_cannot_be_read(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.json", b"")
    gone = tmp_path / "gone.json"
    with pytest.raises(UsageError, match=r"^2 traces cannot be read\n") as refused:
        read_traces([empty, KINETO[0], gone])
    assert refused.value.problems == (f"{empty}: empty; {READ}", f"{gone}: there is no such file")
    assert refused.value.exit_code == 2


def test_a_file_cannot_be_named_twice(tmp_path: Path) -> None:
    one = write_kineto(tmp_path / "one.json", [operator()])
    same = tmp_path / ".." / tmp_path.name / "one.json"
    with pytest.raises(UsageError, match=rf"^named more than once: {one}$"):
        read_traces([one, same])


@pytest.mark.parametrize("paths", [(NATIVE, KINETO[0]), (KINETO[0], LEGACY), (NATIVE, LEGACY)])
def test_a_trace_of_all_ranks_is_read_alone(paths: tuple[Path, ...]) -> None:
    with pytest.raises(UsageError, match=r"^these traces do not belong together: ") as refused:
        read_traces(paths)
    for path in set(paths) - {KINETO[0]}:
        assert f"{path} is from " in str(refused.value)
    assert "writes all ranks to one file: read it alone" in str(refused.value)


@pytest.mark.parametrize("path", EVERY_FORMAT)
def test_what_a_cut_file_still_holds_is_read(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes().rstrip()
    whole = read_trace(path)
    # The last cut removes only the brackets around the events.
    for length in (*range(content.rindex(b"ts"), len(content), 5), len(content) - 1):
        cut = write(tmp_path / "cut.json", content[:length])
        trace = read_trace(cut)
        broken_off = f"{cut} breaks off at byte {length}, after "
        assert [loss.startswith(broken_off) for loss in trace.losses].count(True) == 1
        assert len(whole.operators) - 1 <= len(trace.operators) <= len(whole.operators)
    pd.testing.assert_frame_equal(trace.operators, whole.operators)
    pd.testing.assert_frame_equal(trace.calls, whole.calls)


def bomb(content: bytes, times: int) -> bytes:
    """A gzip file of a thousandth of what it unpacks to."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(content) for _ in range(times)), packer.flush()])


def test_a_gzip_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_BYTES", 40 * 2**20)
    path = write(tmp_path / "bomb.json.gz", bomb(b" " * 2**20, 400))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    with pytest.raises(UsageError, match=r"bomb\.json\.gz: more than 40 MB, once it is unpacked,"):
        read_trace(path)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 40 * 2**20


def test_too_many_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_OBJECTS", 1000)
    content = b'{"traceEvents": [' + b",".join([b"{}"] * 1001) + b"]}"
    with pytest.raises(UsageError, match=r"more than 1,000 JSON objects"):
        read_trace(write(tmp_path / "trace.json", content))


def test_an_array_of_other_things_than_events_is_refused_as_a_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", b"[" + b"0," * 1_000_000 + b"0]")
    with pytest.raises(UsageError, match="JSON, but no trace: its events are no objects"):
        read_trace(path)
