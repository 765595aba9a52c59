"""The text of a trace file: opened, unpacked, and cut after its last complete event."""

import codecs
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
"""Closing braces that are tried from the end: those of the incomplete last event, and one more."""


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
            return msgspec.json.decode(self.content, type=form), True
        except msgspec.ValidationError:
            raise
        except ValueError as error:
            if not self._breaks_off(error):
                raise self.malformed(error) from None
        try:
            return msgspec.json.decode(self._whole_events(), type=form), False
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
            msgspec.json.decode(self.content)
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
        for _ in range(_ENDS_TRIED):
            end = self.content.rfind(b"}", 0, end)
            if end < 0:
                break
            closed = self.content[: end + 1] + closing
            try:
                msgspec.json.decode(closed, type=form)
            except msgspec.DecodeError:
                continue  # a brace inside an event
            return closed
        raise self.refused(f"breaks off at {self._end}, before any event in it is complete")


def open_trace(path: Path) -> TraceText:
    """The text of a trace file, compressed with gzip or not. UsageError if it cannot be read."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: a folder, not a trace; name the files in it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    unpacked = content.startswith(_GZIP)
    if unpacked:
        try:
            content = _unpack(content)
        except zlib.error as error:
            raise UsageError(f"{path}: a damaged gzip file: {error}") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    return TraceText(subject=str(path), content=content, unpacked=unpacked)


def _unpack(packed: bytes) -> bytes:
    """The content of a gzip file; if the file breaks off, as much as there is."""
    content = []
    while packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content.append(member.decompress(packed))
        packed = member.unused_data
    return b"".join(content)
