"""Files of other programs, and of every version of PyTorch: the right values, or what was found."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.trace.golden_files import operator, write_kineto
from tuner.errors import UsageError
from tuner.trace.analyze.recipe_table import recipe_table
from tuner.trace.files import reader
from tuner.trace.files.kineto_join import CLIENTS_ONLY, NO_CALLS
from tuner.trace.files.legacy_reader import KNOWN_LOSS
from tuner.trace.files.reader import read_trace, read_traces
from tuner.trace.files.trace_text import READ

F = "rpc_sync#f(w0 -> w1)"
G = "rpc_sync#g(w1 -> w0)"
LEGACY = {"ph": "X", "tid": 1, "pid": "CPU functions", "args": {}}
REMOTE = {**LEGACY, "tid": " node_id:1, thread_id:2 "}
BASE = 1_700_000_000_000_001
"""Microseconds since 1970."""


def op(name: str, ts: Any, dur: Any, **changes: Any) -> dict[str, Any]:
    return operator(name=name, ts=ts, dur=dur, args=None, **changes)


def trace(*events: Any, **header: Any) -> bytes:
    return json.dumps({**header, "traceEvents": events}).encode()


def array(*events: Any) -> bytes:
    return json.dumps(events).encode()


class Read(NamedTuple):
    """A file that is read, and what the recipe's table has of it."""

    content: bytes
    own_us: dict[str, float]
    """Self CPU by name."""
    ranks: tuple[str, ...] = ("rank 0",)
    loss: str = ""
    """What is lost of this file."""


ADD = {"aten::add": 5.0}
BAD = "Left out of {path}: 1 event not valid as JSON, first event 0: JSON is malformed: "
ADDED = json.dumps(op("aten::add", 10, 5)).encode()
GPU_COPY = b'{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "args": {"bandwidth": %b}}'
READABLE = {
    "touching, since 1970": Read(
        trace(op("parent", BASE, 110), op("a", BASE, 10), op("b", BASE + 10, 100)),
        {"parent": 0, "a": 10, "b": 100},
    ),
    "touching, since a base": Read(
        trace(
            op("parent", 0, 110), op("a", 0, 10), op("b", 10, 100), baseTimeNanoseconds=BASE * 1000
        ),
        {"parent": 0, "a": 10, "b": 100},
    ),
    "operators of 1.8": Read(
        trace(
            op("aten::add", BASE, 50, cat="Operator", tid="7"),
            op("PyTorch Profiler (0)", BASE - 5, 500, cat="Trace", pid="Traces", tid="Trace"),
        ),
        {"aten::add": 50},
    ),
    "an annotated call": Read(
        trace(op(F, 0, 100, cat="user_annotation"), op("aten::add", 10, 50)),
        {F: 50, "aten::add": 50},
        ("w0",),
    ),
    "an annotated asynchronous call": Read(
        trace(op("rpc_async#f(w0 -> w1)", 0, 100, cat="user_annotation"), op("aten::add", 10, 50)),
        {"rpc_async#f(w0 -> w1)": 50, "aten::add": 50},
        ("w0",),
    ),
    "annotated calls, of which one is inside another": Read(
        trace(
            op(F, 0, 100, cat="user_annotation"), op("to_here#(w0)->(w2)", 20, 30, cat="cpu_op"),
            op("aten::add", 25, 5), op("aten::mul", 60, 10),
        ),
        {F: 60, "to_here#(w0)->(w2)": 25, "aten::add": 5, "aten::mul": 10},
        ("w0",),
    ),
    "asynchronous calls, of which one ends within another": Read(
        trace(
            op("rpc_async#f(w0 -> w1)", 0, 100, cat="user_annotation"),
            op("rpc_async#g(w0 -> w1)", 10, 50, cat="user_annotation"),
        ),
        {"rpc_async#f(w0 -> w1)": 100, "rpc_async#g(w0 -> w1)": 50},
        ("w0",),
    ),
    "a call with the category of operators": Read(
        trace(op("ProfilerStep#1", 0, 200), op(F, 0, 100), op("aten::add", 10, 5)),
        {"ProfilerStep#1": 100, F: 95, "aten::add": 5},
        ("w0",),
    ),
    "an annotation of another process": Read(
        trace(
            op("ProfilerStep#1", 5, 50, cat="user_annotation", pid=9), op("aten::add", 10, 5),
            distributedInfo={"backend": "nccl", "rank": 5, "world_size": 8},
        ),
        ADD,
        ("rank 5",),
    ),
    "an array of Kineto's events": Read(
        array(op("aten::add", 10, 5), op("aten::mul", 20, 5)), {**ADD, "aten::mul": 5}
    ),
    "an array with times as text": Read(
        array(
            op("aten::add", "1704161511420306.491", 5.5),
            {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
        ),
        {"aten::add": 5.5},
    ),
    "an object with times as text": Read(
        trace(op("parent", "1704161511420306.491", "10.002"), op("a", "1704161511420306.491", "4"),
              op("b", "1704161511420310.491", "6.002")),
        {"parent": 0, "a": 4, "b": 6.002},
    ),
    "processes with their ranks in text": Read(
        trace(
            op("aten::add", 10, 5, pid="[rank1] 7"), op("aten::mul", 11, 5, pid="[rank0] 7"),
            distributedInfo={"rank": 0, "world_size": 2},
        ),
        {**ADD, "aten::mul": 5},
        ("rank 0", "rank 1"),
    ),
    "a bare backslash": Read(
        b'{"traceEvents": [{"ph": "X", "name": "torch\\cuda\\x.py(2): f"}, %b]}' % ADDED,
        ADD,
        loss=BAD,
    ),
    **{
        f"{number.decode()} in an event": Read(
            b'{"traceEvents": [%b, %b]}' % (GPU_COPY % number, ADDED),
            ADD,
            loss=BAD,
        )
        for number in (b"Infinity", b"inf", b"-inf", b"NaN", b"nan", b"N/A")
    },
    "a call of the legacy profiler and its operator": Read(
        array(
            {**LEGACY, "name": F, "ts": 0.0, "dur": 100.0},
            {**REMOTE, "name": f"{F}#remote_op: aten::add", "ts": 10.0, "dur": 50.0},
            {**LEGACY, "name": "aten::mul", "ts": 70.0, "dur": 5.0},
        ),
        {F: 45, f"{F}#remote_op: aten::add": 50, "aten::mul": 5},
        ("w0", "w1"),
        KNOWN_LOSS,
    ),
    "a call within a call of the legacy profiler": Read(
        array(
            {**LEGACY, "name": F, "ts": 0.0, "dur": 100.0},
            {**REMOTE, "name": f"{F}#remote_op: {G}", "ts": 10.0, "dur": 50.0},
        ),
        {F: 50, G: 50},
        ("w0", "w1"),
        KNOWN_LOSS,
    ),
    "a record of libtorch": Read(
        array({**LEGACY, "name": "aten::add", "pid": "CPU Functions", "ts": 1.0, "dur": 5.0}), ADD
    ),
}  # fmt: skip


@pytest.fixture(params=["at once", "in parts"])
def _reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read at once, or in parts of an event or two."""
    if request.param == "in parts":
        monkeypatch.setattr(reader, "PART_BYTES", 60)


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize("case", READABLE.values(), ids=READABLE)
def test_the_values_are_right(case: Read, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(case.content)
    found = read_trace(path)
    table = recipe_table(found).set_index("Name")["Self CPU"]
    assert table.to_dict() == pytest.approx(case.own_us)
    assert tuple(rank.name for rank in found.ranks) == case.ranks
    known = (NO_CALLS, CLIENTS_ONLY, "How far the clocks")
    others = [loss for loss in found.losses if not loss.startswith(known)]
    assert len(others) == bool(case.loss)
    if case.loss:
        assert others[0].startswith(case.loss.format(path=path))


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trace.json", content)
    return packed.getvalue()


XPLANE = b"\n\x1c\x08\x01\x12\x09/host:CPU\x1a\x0d\n\x06python"
REFUSED = {
    "a zip archive": (zipped(trace(op("a", 1, 1))), f"a zip archive: unpack it; {READ}"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00", f"compressed with zstd: unpack it; {READ}"),
    "a trace of Perfetto": (
        bytes.fromhex("0a0e50015a0a0a08080610c4d8f0d737"),
        f"a protobuf, as Perfetto writes it, not JSON; {READ}",
    ),
    "an XPlane": (
        XPLANE,
        f"an XPlane protobuf of TensorFlow's or JAX's profiler, not JSON; {READ}",
    ),
    "viztracer": (
        trace(op("f (x.py:1)", 10, 5, cat="fee"), viztracer_metadata={"version": "1"}),
        "not of torch.profiler: no operator and no call in it, but 1 event of other categories "
        f"(fee); {READ}",
    ),
    "a browser": (
        array(*(op("f", 1, 1, cat=f"c{number}") for number in range(7)), op("g", 1, 1, cat="c0")),
        "not of torch.profiler: no operator and no call in it, but 8 events of other categories "
        f"(c0, c1, c2, c3, c4, 2 more); {READ}",
    ),
    "only GPUs": (
        trace(op("k", 10, 5, cat="kernel"), op("c", 10, 5, cat="gpu_memcpy"), schemaVersion=1),
        "no operator and no call in it, only 2 events of GPUs (kernel, gpu_memcpy): profile the "
        f"CPU, too; {READ}",
    ),
    "only Python": (
        trace(op("f", 10, 5, cat="python_function")),
        f"no operator and no call in it, but 1 event of other categories (python_function); {READ}",
    ),
    "other JSON": (
        b'{"tool": {"records": [1]}}',
        f'JSON, but no trace: an object that begins with "tool", without "traceEvents"; {READ}',
    ),
    "nothing but wrong events": (
        b'{"traceEvents": ["x", 5]}',
        f"no event that can be read; {READ}\n  - Left out of {{path}}: 2 events not in the Chrome "
        "trace format, first event 0: Expected `object`, got `str`.",
    ),
    "an array of bad events": (
        b'[{"a": NaN}, {"a": inf}]',
        f"no event that can be read; {READ}\n  - Left out of {{path}}: 2 events not valid as JSON, "
        "first event 0: JSON is malformed: invalid character (byte 7).",
    ),
    "the legacy profiler, without times": (
        array({**LEGACY, "name": "aten::add"}, 5),
        f"no span of the legacy profiler in 1 event; {READ}\n  - Left out of {{path}}: 1 event not "
        "in the Chrome trace format, first event 1: Expected `object`, got `int`.\n  - Left out of "
        "{path}: 1 span without a time stamp.",
    ),
}


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize(("content", "found"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_what_was_found(
    content: bytes, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_EVENT_BYTES", 2**12)
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_trace(path)
    assert str(refused.value) == f"{path}: {found.replace('{path}', str(path))}"


def test_a_file_of_another_program_does_not_become_a_rank(tmp_path: Path) -> None:
    ours = write_kineto(tmp_path / "a.json", [operator()])
    other = write_kineto(tmp_path / "b.json", [operator(cat="fee")])
    with pytest.raises(UsageError, match=r"b\.json: not of torch\.profiler: "):
        read_traces([ours, other])


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize(
    "bad",
    ['{"a": NaN, "b": [{"}": 1}, {}]}', '{"name": "a\\d},{"}', '{"name": "\\ud800"}', "01"],
)
def test_every_event_but_the_bad_ones_is_read(bad: str, tmp_path: Path) -> None:
    """Also after the text breaks off: what is left out is counted, with the first one's place."""
    events = [json.dumps(op(f"op{number}", number, 1)) for number in range(9)]
    text = ",\n".join([*events[:4], bad, *events[4:6], bad, bad, *events[6:]])
    for layout in ("[%s]", '{"traceEvents": [%s], "other": [{}, {}]}', "[%s", "[%s, {"):
        path = tmp_path / "trace.json"
        path.write_text(layout % text)
        found = read_trace(path)
        assert sorted(found.operators["name"]) == [f"op{number}" for number in range(9)]
        # What is no object at all counts once between two that are.
        number = 2 if bad == "01" else 3
        loss = f"Left out of {path}: {number} events not valid as JSON, first event 4: "
        assert found.losses[0].startswith(loss)
        assert ("breaks off" in found.losses[1]) == ("]" not in layout)
