import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trace.golden_files import KINETO, LEGACY, NATIVE
from tuner.errors import UsageError
from tuner.trace.files.trace_text import TraceText


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


def test_a_whole_text_is_whole() -> None:
    assert TraceText(subject="", content=b" [1] ").decode(list[int]) == ([1], True)


def test_json_of_another_type_is_a_validation_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        TraceText(subject="", content=b"[1]").decode(dict[str, int])


@pytest.mark.parametrize(("content", "first"), [(b"", b""), (b" \n", b""), (b"\n [", b"[")])
def test_the_first_character_comes_after_white_space(content: bytes, first: bytes) -> None:
    assert TraceText(subject="", content=content).first == first
