import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trace.golden_files import KINETO, LEGACY, NATIVE
from tuner.errors import UsageError
from tuner.trace.files.trace_text import TraceText, event_places


def event_ends(text: str) -> Iterator[int]:
    """Where each event of a trace ends, by the standard library's parser."""
    position = text.index("[", max(0, text.find('"traceEvents"'))) + 1
    while text[position:].lstrip()[0] == "{":
        position = text.index("{", position)
        _, position = json.JSONDecoder().raw_decode(text, position)
        yield position
        position += text[position:].lstrip().startswith(",")


def events_of(document: Any) -> Any:
    return document if isinstance(document, list) else document["traceEvents"]


@pytest.mark.parametrize("path", [KINETO[0], LEGACY, NATIVE])
def test_a_text_cut_anywhere_yields_its_complete_events(path: Path) -> None:
    content = path.read_text().rstrip()
    ends = list(event_ends(content))
    assert len(ends) == len(events_of(json.loads(content)))
    for length in range(1, len(content)):
        text = TraceText(subject="cut", content=content[:length].encode())
        complete = sum(end <= length for end in ends)
        if complete == 0:
            with pytest.raises(UsageError, match=f"^cut: breaks off at byte {length}, before any"):
                text.decode(msgspec.Raw)
            continue
        document, whole = text.decode(msgspec.Raw)
        assert not whole
        assert len(events_of(json.loads(bytes(document)))) == complete


@pytest.mark.parametrize(
    ("content", "places", "end"),
    [
        (b'[{"a": {}}, {"}": "{"}]', [b'{"a": {}}', b'{"}": "{"}'], b"]"),
        (b'[{"a\\"}": 1}, 5, {"b": [[1], {}]}], "c": [{}]', [b'{"a\\"}": 1}', b'{"b": [[1], {}]}'],
         b'], "c": [{}]'),
        (b'[{"a": "\n}, {"b": 1}, {', [b'{"a": "\n}', b'{"b": 1}'], None),
        (b'[{"a": NaN}', [b'{"a": NaN}'], None),
        (b'[{"a": [NaN}, {"b": 1}]', [b'{"a": [NaN}', b'{"b": 1}'], b"]"),
        (b'[[{"a": 1}, {"b": [2}], {"c": 3}]', [b'{"c": 3}'], b"]"),
        (b"[", [], None),
        (b"[ ]", [], b"]"),
    ],
)  # fmt: skip
def test_objects_have_places_though_they_are_no_json(
    content: bytes, places: list[bytes], end: bytes | None
) -> None:
    found, closed = event_places(content, 1)
    assert [content[begin:after] for begin, after in found] == places
    assert (None if closed is None else content[closed:]) == end
