"""Files of other programs, and of every version of PyTorch: the right values, or what was found."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.trace.golden_files import operator, write_kineto
from tuner.errors import UsageError
from tuner.trace.analyze.recipe_table import recipe_table
from tuner.trace.files import reader
from tuner.trace.files.kineto_join import CLIENTS_ONLY, NO_CALLS
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


GPU_COPY = '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "args": {"bandwidth": %s}}'


@pytest.fixture(params=["at once", "in parts"])
def _reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read at once, or in parts of an event or two."""
    if request.param == "in parts":
        monkeypatch.setattr(reader, "PART_BYTES", 60)


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize(
    ("content", "own_us", "ranks"),
    [
        # An annotated call; one with the category of operators; an array; a record of libtorch.
        (trace(op(F, 0, 100, cat="user_annotation"), op("aten::add", 10, 50)),
         {F: 50, "aten::add": 50}, ("w0",)),
        (trace(op("ProfilerStep#1", 0, 200), op(F, 0, 100), op("aten::add", 10, 5)),
         {"ProfilerStep#1": 100, F: 95, "aten::add": 5}, ("w0",)),
        (array(op("aten::add", 10, 5), op("aten::mul", 20, 5)), {"aten::add": 5, "aten::mul": 5},
         ("rank 0",)),
        (array({**LEGACY, "name": "aten::add", "pid": "CPU Functions", "ts": 1.0, "dur": 5.0}),
         {"aten::add": 5}, ("rank 0",)),
    ],
)  # fmt: skip
def test_the_values_are_right(
    content: bytes, own_us: dict[str, float], ranks: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    found = read_trace(path)
    assert recipe_table(found).set_index("Name")["Self CPU"].to_dict() == pytest.approx(own_us)
    assert tuple(rank.name for rank in found.ranks) == ranks
    assert all(loss in (NO_CALLS, CLIENTS_ONLY) for loss in found.losses)


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trace.json", content)
    return packed.getvalue()


OTHERS = "not of torch.profiler: no operator and no call in it, but"


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (zipped(trace(op("a", 1, 1))), f"a zip archive: unpack it; {READ}"),
        (b"\x28\xb5\x2f\xfd\x00", f"compressed with zstd: unpack it; {READ}"),
        (bytes.fromhex("0a0e50015a0a0a08080610c4d8f0d737"),
         f"a protobuf, as Perfetto writes it, not JSON; {READ}"),
        (b"\n\x1c\x08\x01\x12\x09/host:CPU\x1a\x0d\n\x06python",
         f"an XPlane protobuf of TensorFlow's or JAX's profiler, not JSON; {READ}"),
        (trace(op("f (x.py:1)", 10, 5, cat="fee"), viztracer_metadata={"version": "1"}),
         f"{OTHERS} 1 event of other categories (fee); {READ}"),
        (array(*(op("f", 1, 1, cat=f"c{n}") for n in range(7)), op("g", 1, 1, cat="c0")),
         f"{OTHERS} 8 events of other categories (c0, c1, c2, c3, c4, 2 more); {READ}"),
        (b'{"tool": {"records": [1]}}',
         f'JSON, but no trace: an object that begins with "tool", without "traceEvents"; {READ}'),
        (b'{"traceEvents": ["x", 5]}',
         f"no event that can be read; {READ}\n  - Left out of {{path}}: 2 events not in the Chrome "
         "trace format, first event 0: Expected `object`, got `str`."),
        (array({**LEGACY, "name": "aten::add"}, 5),
         f"no span of the legacy profiler in 1 event; {READ}\n  - Left out of {{path}}: 1 event "
         "not in the Chrome trace format, first event 1: Expected `object`, got `int`.\n  - Left "
         "out of {path}: 1 span without a time stamp."),
    ],
)  # fmt: skip
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
    [
        *('{"a": NaN, "b": [{"}": 1}, {}]}', '{"name": "a\\d},{"}', '{"name": "\\ud800"}', "01"),
        *(GPU_COPY % number for number in ("Infinity", "inf", "-inf", "N/A")),
    ],
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
