"""The launcher's end of a line never blocks, whatever the other end does."""

import multiprocessing
import os
import struct
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from tuner.world.local import line as lines
from tuner.world.local.line import Line


@pytest.fixture
def both() -> Iterator[tuple[Line, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    line = Line(ours)
    yield line, theirs
    line.close()
    theirs.close()


def test_messages_come_whole_and_in_order(both: tuple[Line, Connection]) -> None:
    line, theirs = both
    assert line.messages() == []
    theirs.send_bytes(b'{"kind": "phase"}')
    theirs.send_bytes(b"[1, 2]")
    assert line.messages() == [{"kind": "phase"}, [1, 2]]
    assert line.is_open


def test_half_a_message_is_waited_for_without_blocking(both: tuple[Line, Connection]) -> None:
    line, theirs = both
    content = b'{"kind": "result"}'
    whole = struct.pack("!i", len(content)) + content
    for cut in (2, 4, 9):
        os.write(theirs.fileno(), whole[:cut])
        assert line.messages() == []
        os.write(theirs.fileno(), whole[cut:])
        assert line.messages() == [{"kind": "result"}]


def test_a_large_message_comes_in_parts(both: tuple[Line, Connection]) -> None:
    line, theirs = both
    content = b"[" + b"1," * 100_000 + b"1]"
    whole = struct.pack("!i", len(content)) + content
    found: list[object] = []
    for start in range(0, len(whole), 50_000):
        assert found == []
        os.write(theirs.fileno(), whole[start : start + 50_000])
        found = line.messages()
    assert found == [[1] * 100_001]


def test_what_came_before_the_end_is_heard(both: tuple[Line, Connection]) -> None:
    line, theirs = both
    theirs.send_bytes(b'"last words"')
    theirs.close()
    found = [*line.messages(), *line.messages()]
    assert found == ["last words"]
    assert not line.is_open
    assert line.messages() == []


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"\x00\x00\x00\x02{}\x00\x00\x00\x01{"])
def test_what_is_no_message_closes_the_line(both: tuple[Line, Connection], garbage: bytes) -> None:
    line, theirs = both
    os.write(theirs.fileno(), garbage)
    line.messages()
    assert not line.is_open


def test_a_message_beyond_all_bounds_closes_the_line(
    both: tuple[Line, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 10)
    line, theirs = both
    theirs.send_bytes(b'"12345678"')
    theirs.send_bytes(b'"123456789"')
    assert line.messages() == ["12345678"]
    assert not line.is_open


def test_an_answer_is_awaited_for_so_long(both: tuple[Line, Connection]) -> None:
    line, theirs = both
    with pytest.raises(TimeoutError):
        line.awaited(0.05)
    theirs.send_bytes(b"1")
    assert line.awaited(60.0) == 1
    theirs.close()
    with pytest.raises(EOFError):
        line.awaited(60.0)
