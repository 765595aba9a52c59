"""The text of a trace file: opened, unpacked, and cut after its last complete event."""

import codecs
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tuner.errors import UsageError
from tuner.text import plural

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_ENDS_TRIED = 100
_MOST_TRIED_BYTES = 2**32
"""Closing braces that are tried from the end: those of the incomplete last event, and one more."""

MOST_BYTES = 2**30
"""The most bytes of a trace that are read, unpacked."""
MOST_OBJECTS = 10_000_000
"""The most JSON objects of a trace that are read; an event is one or two."""
_CHUNK_BYTES = 2**24


def decode_json(raw: bytes | msgspec.Raw, form: type[T]) -> T:
    """JSON as that type. `msgspec.ValidationError`, or ValueError if it is no JSON that is read."""
    try:
        return msgspec.json.decode(raw, type=form)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Shell(msgspec.Struct):
    """Any object that holds events, which are not parsed."""

    traceEvents: list[msgspec.Raw]  # noqa: N815 - the format's own name


@dataclass(frozen=True, kw_only=True)
class TraceText:
    """The JSON of one trace, not yet parsed."""

    subject: str
    """Its name in messages: the path."""
    content: bytes
    unpacked: bool = False
    """Whether it was compressed, so that positions differ from those in the file."""

    @property
    def first(self) -> bytes:
        """The first character that is no white space; empty if there is none."""
        found = re.search(rb"\S", self.content)
        return found[0] if found else b""

    def decode(self, form: type[T]) -> tuple[T, bool]:
        """The text parsed as that type, and whether the text is whole.

        Where a killed process left half a text, its complete events are read. UsageError if it is
        no JSON or holds no complete event; `msgspec.ValidationError` if it is JSON of another type.
        """
        try:
            return decode_json(self.content, form), True
        except msgspec.ValidationError:
            raise
        except ValueError as error:
            if not self._breaks_off(error):
                raise self.malformed(error) from None
        try:
            return decode_json(self._whole_events(), form), False
        except msgspec.ValidationError:
            raise
        except ValueError as error:
            raise self.malformed(error) from None

    def refused(self, problem: str) -> UsageError:
        """The error that names this trace and its problem."""
        return UsageError(f"{self.subject}: {problem}")

    def malformed(self, problem: ValueError) -> UsageError:
        """The error for text that is no JSON, or no UTF-8."""
        try:
            self.content.decode()
        except UnicodeDecodeError as error:
            byte = self.content[error.start]
            return self.refused(f"not UTF-8 text: byte {error.start} is 0x{byte:02x}")
        return self.refused(f"not JSON, so no trace: {problem}")

    def no_trace(self, problem: msgspec.ValidationError) -> UsageError:
        """The error for text that begins as JSON of another type, and may go on as anything."""
        try:
            decode_json(self.content, object)
        except ValueError as error:
            return self.malformed(error)
        return self.refused(f"JSON, but no trace: {problem}")

    def broken_off(self, events: int) -> str:
        """The loss of a text that is not whole."""
        return (
            f"{self.subject} breaks off at {self._end}, after {plural(events, 'complete event')}."
        )

    def left_out(self, number: int, noun: str, why: str) -> str:
        """The loss of spans or events that cannot be used."""
        return f"Left out of {self.subject}: {plural(number, noun)} {why}."

    @property
    def _end(self) -> str:
        return f"byte {len(self.content)}" + (" of its unpacked text" if self.unpacked else "")

    def _breaks_off(self, error: ValueError) -> bool:
        if "truncated" in str(error):
            return True
        # msgspec calls a number that breaks off malformed.
        place = re.search(r"invalid number \(byte (\d+)\)", str(error))
        return place is not None and int(place[1]) >= len(self.content) - 1

    def _whole_events(self) -> bytes:
        """The text up to its last complete event, closed."""
        form: Any = list[msgspec.Raw] if self.first == b"[" else _Shell
        closing = b"]" if self.first == b"[" else b"]}"
        end = len(self.content)
        for _ in range(min(_ENDS_TRIED, 1 + _MOST_TRIED_BYTES // (1 + end))):
            end = self.content.rfind(b"}", 0, end)
            if end < 0:
                break
            closed = self.content[: end + 1] + closing
            try:
                decode_json(closed, form)
            except ValueError:
                continue  # a brace inside an event
            return closed
        raise self.refused(f"breaks off at {self._end}, before any event in it is complete")


def open_trace(path: Path) -> TraceText:
    """The text of a trace file, compressed with gzip or not. UsageError if it cannot be read."""
    try:
        content = _read(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: a folder, not a trace; name the files in it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    unpacked = content.startswith(_GZIP)
    if unpacked:
        try:
            content = _unpack(path, content)
        except zlib.error as error:
            raise UsageError(f"{path}: a damaged gzip file: {error}") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.count(b"{") > MOST_OBJECTS:
        raise _too_large(path, f"{MOST_OBJECTS:,} JSON objects")
    return TraceText(subject=str(path), content=content, unpacked=unpacked)


def _read(path: Path) -> bytes:
    """The bytes of a regular file, or of a pipe. UsageError if there are too many."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _too_large(path, f"{MOST_BYTES >> 20:,} MB")
    return content


def _too_large(path: Path, what: str) -> UsageError:
    return UsageError(
        f"{path}: more than {what}, the most that is read of a trace; record fewer steps"
    )


def _unpack(path: Path, packed: bytes) -> bytes:
    """The content of a gzip file; if the file breaks off, as much as there is.

    A few bytes may stand for any number of others: UsageError once there are too many.
    """
    content = io.BytesIO()
    while packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while packed and not member.eof:
            content.write(member.decompress(packed, _CHUNK_BYTES))
            packed = member.unconsumed_tail
            if content.tell() > MOST_BYTES:
                raise _too_large(path, f"{MOST_BYTES >> 20:,} MB, once it is unpacked")
        packed = member.unused_data
    return content.getvalue()
