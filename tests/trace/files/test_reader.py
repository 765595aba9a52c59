"""Files of our own, of other programs, and of every version of PyTorch: read, or what was found."""

import gzip
import json
import os
import re
import tracemalloc
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from testing.golden_files import KINETO, LEGACY, NATIVE, operator, write_kineto
from tuner.errors import UsageError
from tuner.trace.analyze.recipe_table import recipe_table
from tuner.trace.files import reader
from tuner.trace.files.chrome_events import EventParts
from tuner.trace.files.kineto_join import NO_CALLS
from tuner.trace.files.reader import read_trace, read_traces
from tuner.trace.files.trace_text import READ, TraceText
from tuner.trace.model.trace import CALL_COLUMNS, OPERATOR_COLUMNS

SPAN = {"ph": "X", "tid": 1, "pid": "CPU functions", "args": {}}
"""As the legacy profiler writes it."""


ARGS: tuple[object, ...] = (None, 3, "text", [], {"External id": "1"}, {"a": {"b": [None, "x"]}})
"""Arguments may be anything."""


def op(name: str, ts: Any, dur: Any, **changes: Any) -> dict[str, Any]:
    return operator(name=name, ts=ts, dur=dur, args=None, **changes)


def trace(*events: Any, **header: Any) -> bytes:
    return json.dumps({**header, "traceEvents": events}).encode()


def array(*events: Any) -> bytes:
    return json.dumps(events).encode()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("path", [KINETO[0], LEGACY, NATIVE])
def test_frames_have_the_declared_columns(path: Path) -> None:
    found = read_trace(path)
    for frame, declared in ((found.calls, CALL_COLUMNS), (found.operators, OPERATOR_COLUMNS)):
        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == declared
        assert list(frame) == list(declared)


@pytest.mark.parametrize(
    ("content", "own_us", "losses"),
    [
        (trace(*({**op("a", 10 * place, 2), "args": args} for place, args in enumerate(ARGS))),
         {"a": 12}, (NO_CALLS,)),
        # As libtorch writes it.
        (array({**SPAN, "name": "a", "pid": "CPU Functions", "ts": 1.0, "dur": 5.0}), {"a": 5}, ()),
    ],
)  # fmt: skip
def test_the_values_are_right(
    content: bytes, own_us: dict[str, float], losses: tuple[str, ...], tmp_path: Path
) -> None:
    found = read_trace(write(tmp_path / "trace.json", content))
    assert recipe_table(found).set_index("Name")["Self CPU"].to_dict() == own_us
    assert found.losses == losses


@pytest.mark.parametrize(
    "bad",
    [
        *('{"a": NaN, "b": [{"}": 1}, {}]}', '{"name": "a\\d},{"}', '{"name": "\\ud800"}', "01"),
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "args": {"bandwidth": Infinity}}',
    ],
)
def test_every_event_but_the_bad_ones_is_read(bad: str, tmp_path: Path) -> None:
    """Also after the text breaks off: what is left out is counted, with the first one's place."""
    events = [json.dumps(op(f"op{number}", number, 1)) for number in range(9)]
    text = ",\n".join([*events[:4], bad, *events[4:6], bad, bad, *events[6:]])
    for layout in ("[%s]", '{"traceEvents": [%s], "other": [{}, {}]}', "[%s", "[%s, {"):
        path = write(tmp_path / "trace.json", (layout % text).encode())
        found = read_trace(path)
        assert sorted(found.operators["name"]) == [f"op{number}" for number in range(9)]
        # What is no object at all counts once between two that are.
        number = 2 if bad == "01" else 3
        # Without what stands between them.
        why = f"not valid as JSON ({3 * len(bad) + 2 * (bad == '01')} bytes), first event 4: "
        assert found.losses[0].startswith(f"Left out of {path}: {number} events {why}")
        assert ("breaks off" in found.losses[1]) == ("]" not in layout)


LAYOUTS = (
    ("[", ", ", "]"),
    ("[", ",\n", "]"),
    ('{"traceEvents": [', ",", "]}"),
    ('{"a": [{}], "traceEvents": [\n', ",\n", '], "b": [{"ph": "X"}, {}], "c": 1}'),
)


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize(("before", "between", "after"), LAYOUTS)
@pytest.mark.parametrize("odd", ['"', "\\", "\\q", '"",', "]", "}", "{"])
def test_what_one_event_has_too_much_loses_no_other(
    odd: str, before: str, between: str, after: str, place: int
) -> None:
    """Wherever it stands in the event."""
    events = [json.dumps(op(f"op{number}", number, 1)) for number in range(5)]
    others = [f"op{number}" for number in range(5) if number != place]
    broken = events[place]
    for at in range(1, len(broken)):
        events[place] = broken[:at] + odd + broken[at:]
        content = (before + between.join(events) + after).encode()
        text, parts = TraceText(subject="odd", content=content), EventParts()
        names = [event.name for event in parts.read_part(text)]
        losses = parts.losses(text)
        assert [name for name in names if name in others] == others, events[place]
        assert not any("breaks off" in loss for loss in losses), events[place]
        assert len(names) >= 5 or losses[0].startswith("Left out of odd: "), events[place]


ODD_HEADERS = {
    # A device's name, and a path of Windows.
    "before": ('"deviceProperties": [{"name": "5" disk"}], ', ""),
    "after": ("", ', "traceName": "C:\\dir\\x.json"'),
    "both": ('"deviceProperties": [{"name": "5" disk"}], ', ', "traceName": "C:\\dir\\x.json"'),
}


@pytest.mark.parametrize("part_bytes", [100, reader.PART_BYTES])
@pytest.mark.parametrize(("before", "after"), ODD_HEADERS.values(), ids=ODD_HEADERS)
def test_what_is_wrong_beside_the_events_loses_none(
    before: str, after: str, part_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PART_BYTES", part_bytes)
    events = ",".join(json.dumps(op(f"op{number}", number, 1)) for number in range(5))
    said = '"distributedInfo": {"rank": 3}, "host_name": "a", '
    base = ', "baseTimeNanoseconds": 1700000000000000000'
    path = write(
        tmp_path / "trace.json",
        f'{{{before}{said}"traceEvents": [{events}]{after}{base}}}'.encode(),
    )
    found = read_trace(path)
    assert len(found.operators) == 5
    ((rank, host),) = ((each.rank, each.host) for each in found.ranks)
    assert (rank, host, found.base_time_ns) == (3, "a", 1_700_000_000_000_000_000)
    problem = f"{path} is not valid JSON beside its events: JSON is malformed: "
    assert found.losses[0].startswith(problem)
    at = re.search(r"byte (\d+)", found.losses[0])
    wrong = path.read_text()[: int(at[1])] if at else ""
    assert wrong.endswith('{"name": "5" ' if before else "C:\\")
    assert "breaks off" not in " ".join(found.losses)


# Compressed files, and other wrappings.


def test_reads_gzip_of_several_members_and_skips_a_byte_order_mark(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + LEGACY.read_bytes()
    packed = gzip.compress(content[:300]) + gzip.compress(content[300:])
    found = read_trace(write(tmp_path / "trace.gz", packed))
    assert found.operators.equals(read_trace(LEGACY).operators)


def test_reads_what_a_truncated_gzip_file_holds(tmp_path: Path) -> None:
    packed = gzip.compress(trace(*(operator(name=f"aten::op_{n}") for n in range(2000))))
    path = write(tmp_path / "trace.gz", packed[: len(packed) // 2])
    found = read_trace(path)
    assert 0 < len(found.operators) < 2000
    assert found.losses[0].startswith(f"{path} breaks off at byte ")
    count = len(found.operators)
    assert found.losses[0].endswith(f" of its unpacked text, after {count} complete events.")


def test_a_gzip_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_BYTES", 40 * 2**20)
    path = write(tmp_path / "bomb.json.gz", gzip.compress(b" " * 400 * 2**20, 1))
    tracemalloc.start()
    with pytest.raises(UsageError, match=r"bomb\.json\.gz: more than 40 MB, once it is unpacked,"):
        read_trace(path)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 40 * 2**20


# Refusals.


NO_EVENT = f"no event that can be read; {READ}\n  - Left out of {{path}}: "
BAD_EVENT = f"{NO_EVENT}1 event not valid as JSON ({{bytes}} bytes), first event 0: "
NO_JSON = "not JSON, so no trace: JSON is malformed: "
OTHERS = "not of torch.profiler: no operator and no call in it, but"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", f"empty; {READ}"),
        (b" \n ", "empty"),
        (b"{}", 'JSON, but no trace: an object, without "traceEvents"; rpc-tuner reads its own '),
        (b"[]", f"a trace without events; {READ}"),
        (b'{"traceEvents": 3}', "JSON, but no trace: its events: Expected `array`, got `int`"),
        (b"hello", f"{NO_JSON}invalid character (byte 0); rpc-tuner "),
        (b'{"traceEvents": []} and more', f"{NO_JSON}trailing characters (byte 21)"),
        (b'{"traceEvents": [{"ph": "\\ud800", "name": "x"}], "a": 1}',
         f"{BAD_EVENT}JSON is malformed: unexpected end of escaped utf-16 surrogate pair (byte 3"),
        ("\ufeff[]".encode("utf-16-le"), "not UTF-8 text: byte 0 is 0xff; rpc-tuner reads "),
        (b'{"traceEvents": [{"ph": "X", "name": "caf\xe9"}]}',
         f"{BAD_EVENT}not UTF-8 text: byte 41 is 0xe9"),
        (b'{"deviceProperties": [{}], "traceEvents": [{"ph": "X", "args": {"a": 1}',
         "breaks off at byte 71, before any event in it is complete"),
        (b"[" * 20_000, "not JSON, so no trace: nested too deeply"),
        (b'{"traceEvents": [{"args": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}]}",
         f"{BAD_EVENT}nested too deeply"),
        (b"[" + b"0," * 110_000 + b"0]", "JSON, but no trace: its events are no objects"),
        (b"\x1f\x8b\x08\x00 rubbish rubbish",
         "a damaged gzip file: Error -3 while decompressing data"),
        (b"PK\x03\x04\x14", f"a zip archive: unpack it; {READ}"),
        (bytes.fromhex("0a0e50015a0a0a08080610c4d8f0d737"),
         f"a protobuf, as Perfetto writes it, not JSON; {READ}"),
        (b"\n\x1c\x08\x01\x12\x09/host:CPU\x1a\x0d\n\x06python",
         f"an XPlane protobuf of TensorFlow's or JAX's profiler, not JSON; {READ}"),
        (array(*(op("f", 1, 1, cat=f"c{n}") for n in range(7)), op("g", 1, 1, cat="c0")),
         f"{OTHERS} 8 events of other categories (c0, c1, c2, c3, c4, 2 more); {READ}"),
        (b'{"tool": {"records": [1]}}',
         f'JSON, but no trace: an object that begins with "tool", without "traceEvents"; {READ}'),
        (b'{"traceEvents": ["x", 5]}', f"{NO_EVENT}2 events not in the Chrome trace format, first "
         "event 0: Expected `object`, got `str`."),
        (array({**SPAN, "name": "aten::add"}, 5),
         f"no span of the legacy profiler in 1 event; {READ}\n  - Left out of {{path}}: 1 event "
         "not in the Chrome trace format, first event 1: Expected `object`, got `int`.\n  - Left "
         "out of {path}: 1 span without a time stamp."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_wrong_and_where(
    content: bytes, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_EVENT_BYTES", 2**15)
    path = write(tmp_path / "trace.json", content)
    with pytest.raises(UsageError) as refused:
        read_trace(path)
    said = str(refused.value).replace(str(path), "{path}")
    said = re.sub(r"\([\d,]+ bytes\)", "({bytes} bytes)", said)
    assert said.startswith(f"{{path}}: {found}")


def test_too_many_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_OBJECTS", 1000)
    with pytest.raises(UsageError, match=r"more than 1,000 JSON objects"):
        read_trace(write(tmp_path / "trace.json", trace(*[{}] * 1001)))


def test_lists_every_file_that_cannot_be_read(tmp_path: Path) -> None:
    empty, gone = write(tmp_path / "empty.json", b""), tmp_path / "gone.json"
    other = write_kineto(tmp_path / "other.json", [operator(cat="fee")])
    with pytest.raises(UsageError, match=r"^4 traces cannot be read\n") as refused:
        read_traces([empty, KINETO[0], gone, tmp_path, other])
    assert refused.value.problems == (
        f"{empty}: empty; {READ}",
        f"{gone}: there is no such file",
        f"{tmp_path}: a folder, not a trace; name the files in it",
        f"{other}: {OTHERS} 1 event of other categories (fee); {READ}",
    )


def test_a_file_cannot_be_named_twice(tmp_path: Path) -> None:
    same = tmp_path / ".." / tmp_path.name / "one.json"
    with pytest.raises(UsageError, match=rf"^named more than once: {tmp_path / 'one.json'}$"):
        read_traces([tmp_path / "one.json", same])


@pytest.mark.parametrize("paths", [(NATIVE, KINETO[0]), (KINETO[0], LEGACY), (NATIVE, LEGACY)])
def test_a_trace_of_all_ranks_is_read_alone(paths: tuple[Path, ...]) -> None:
    with pytest.raises(UsageError, match=r"^these traces do not belong together: ") as refused:
        read_traces(paths)
    for path in set(paths) - {KINETO[0]}:
        assert f"{path} is from " in str(refused.value)
    assert "writes all ranks to one file: read it alone" in str(refused.value)


# Files of other kinds.


def test_a_loop_of_links_is_told(tmp_path: Path) -> None:
    loop = tmp_path / "a.json"
    loop.symlink_to(tmp_path / "b.json")
    (tmp_path / "b.json").symlink_to(loop)
    why = "cannot be read: Too many levels of symbolic links"
    with pytest.raises(UsageError, match=rf"^{loop}: {why}$"):
        read_trace(loop)


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_fifo_without_a_writer_is_told_of(
    has_writer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, told = tmp_path / "trace.json", Event()
    os.mkfifo(fifo)
    content = trace(op("a", 1, 1))
    monkeypatch.setattr(reader, "_WAIT_S", 60.0 if has_writer else 0.01)

    def write() -> None:
        assert has_writer or told.wait(60)
        fifo.write_bytes(content)

    writing = Thread(target=write)
    writing.start()
    found = read_traces([fifo], lambda waiting: told.set() if waiting == fifo else None)
    writing.join()
    assert len(found.operators) == 1
    assert told.is_set() is not has_writer
