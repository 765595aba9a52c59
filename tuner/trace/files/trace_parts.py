"""A trace file, opened and unpacked, in parts of some MB, so that its text takes little memory.

Each part is a document of its own, with the beginning and some events of the whole one. The last
has what comes after the events, too; a small file is one part.
"""

import codecs
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from tuner.errors import UsageError
from tuner.trace.files.trace_text import (
    BETWEEN,
    NO_OBJECTS,
    TraceText,
    closing_of,
    decode_json,
    event_places,
    head_of,
)

MOST_BYTES = 2**30
"""The most bytes of a trace that are read, unpacked."""
MOST_OBJECTS = 10_000_000
"""The most JSON objects of a trace that are read; an event is one or two."""
PART_BYTES = 2**22
"""The least bytes of a part that is not the last."""
MOST_EVENT_BYTES = 2**24
"""The most bytes in which an event, or what comes after the events, must end."""

_GZIP = b"\x1f\x8b"
_SPACE = b" \t\n\r"
_BETWEEN_EVENTS = re.compile(rb"\}([ \t\n\r]*,[ \t\n\r]*)\{")
_NEAR_BYTES = 2**16
_PLACES_TRIED = 10


def open_trace(path: Path) -> Iterator[TraceText]:
    """The text of a trace file, compressed with gzip or not, in parts.

    UsageError if it cannot be read, or has more than is read of a trace.
    """
    try:
        with path.open("rb") as file:
            start = file.read(PART_BYTES)
            unpacked = start.startswith(_GZIP)
            chunks = _unpacked(start, file) if unpacked else _plain(start, file)
            yield from _parts(str(path), unpacked, _bounded(path, unpacked, chunks))
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: a folder, not a trace; name the files in it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except zlib.error as error:
        raise UsageError(f"{path}: a damaged gzip file: {error}") from None


def _plain(chunk: bytes, file: BinaryIO) -> Iterator[bytes]:
    while chunk:
        yield chunk
        chunk = file.read(PART_BYTES)


def _unpacked(packed: bytes, file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file; if the file breaks off, as much as there is."""
    while packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while packed and not member.eof:
            yield member.decompress(packed, PART_BYTES)
            packed = member.unconsumed_tail or (b"" if member.eof else file.read(PART_BYTES))
        packed = member.unused_data
        if len(packed) < len(_GZIP):
            packed += file.read(PART_BYTES)


def _bounded(path: Path, unpacked: bool, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same without a byte order mark. UsageError once there is too much."""
    size, objects = 0, 0
    for chunk in chunks:
        content = chunk if size else chunk.removeprefix(codecs.BOM_UTF8)
        size += len(chunk)
        objects += chunk.count(b"{")
        if size > MOST_BYTES:
            what = f"{MOST_BYTES >> 20:,} MB" + (", once it is unpacked" if unpacked else "")
            raise _too_large(path, what)
        if objects > MOST_OBJECTS:
            raise _too_large(path, f"{MOST_OBJECTS:,} JSON objects")
        yield content


def _too_large(path: Path, what: str) -> UsageError:
    return UsageError(
        f"{path}: more than {what}, the most that is read of a trace; record fewer steps"
    )


def _parts(subject: str, unpacked: bool, chunks: Iterable[bytes]) -> Iterator[TraceText]:
    head, held, skipped, follows = b"", b"", 0, False

    def text(content: bytes) -> TraceText:
        return TraceText(subject=subject, content=content, unpacked=unpacked,
                         head=head, skipped=skipped, follows=follows)  # fmt: skip

    for chunk in chunks:
        held += chunk
        if len(held) <= PART_BYTES:
            continue
        if not head:
            head = head_of(held)
            held = held[len(head) :]
        blank = len(held) - len(held.lstrip(_SPACE))
        held, skipped = held[blank:], skipped + blank
        found = _events_in(held) if head else None
        if found is not None:
            end, following = found
            yield text(head + held[:end] + closing_of(head))
            held, skipped, follows = held[following:], skipped + following, True
        elif len(held) > MOST_EVENT_BYTES:
            raise _endless(text(head + held))
    yield text(head + held)


def _events_in(held: bytes) -> tuple[int, int] | None:
    """Where the last event ends that is surely one, and where the next one begins."""
    for near in (_NEAR_BYTES, len(held)):
        places = _BETWEEN_EVENTS.finditer(held, max(0, len(held) - near))
        for place in reversed(deque(places, _PLACES_TRIED)):
            end, following = place.span(1)
            try:
                # It may as well be inside of an event, or after all of them.
                decode_json(b"[" + held[:end] + b"]", msgspec.Raw)
            except ValueError:
                continue
            return end, following
    # An event that is no JSON ends as others do.
    last = event_places(held)[0][-2:]
    if len(last) < 2:
        return None
    end = last[0][1]
    return end, end + len(held[end:]) - len(held[end:].lstrip(BETWEEN))


def _endless(text: TraceText) -> UsageError:
    try:
        decode_json(text.content, msgspec.Raw)
    except ValueError as error:
        if "truncated" not in str(error):
            return text.malformed(error)
    if not text.head and text.first == b"{":
        return text.without_events()
    if b"{" not in text.content[len(text.head) :]:
        return text.foreign(NO_OBJECTS)
    return text.foreign(f"no trace: no event ends within {MOST_EVENT_BYTES >> 20} MB")
