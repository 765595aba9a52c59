"""The text of a trace file: opened, unpacked, and cut back to what is whole if it breaks off."""

import codecs
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tuner.errors import UsageError

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_ENDS_TRIED = 100
"""Closing braces tried, from the end: those of the incomplete last event, and one more."""


class _Shell(msgspec.Struct):
    """Any object that holds events, without a look into them."""

    traceEvents: list[msgspec.Raw]  # noqa: N815 - the format's own name


@dataclass(frozen=True, kw_only=True)
class TraceText:
    """The JSON of one trace, not yet parsed."""

    subject: str
    """What messages call it: its path."""
    content: bytes
    unpacked: bool = False
    """It was compressed, so that positions are not those in the file."""

    @property
    def first(self) -> bytes:
        """The first character that is not white space; empty if there is none."""
        found = re.search(rb"\S", self.content)
        return found[0] if found else b""

    def decode(self, form: type[T]) -> tuple[T, bool]:
        """The text in that form, and whether it is whole.

        Of a text that breaks off, as a killed process leaves it, the complete events are read.
        UsageError if it is no JSON, or nothing of it is complete; `msgspec.ValidationError` if
        it is JSON of another form.
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
        """The error that says what is wrong with this trace."""
        return UsageError(f"{self.subject}: {problem}")

    def malformed(self, problem: ValueError) -> UsageError:
        """The error for text that msgspec could not parse: no JSON, or no UTF-8."""
        try:
            self.content.decode()
        except UnicodeDecodeError as error:
            byte = self.content[error.start]
            return self.refused(f"not UTF-8 text: byte {error.start} is 0x{byte:02x}")
        return self.refused(f"not JSON, so no trace: {problem}")

    def broken_off(self, events: int) -> str:
        """The loss of a text that is not whole."""
        return (
            f"{self.subject} breaks off at {self._end}, after {several(events, 'complete event')}."
        )

    def left_out(self, number: int, noun: str, why: str) -> str:
        """The loss of spans that cannot be used."""
        return f"Left out of {self.subject}: {several(number, noun)} {why}."

    @property
    def _end(self) -> str:
        return f"byte {len(self.content)}" + (" of its unpacked text" if self.unpacked else "")

    def _breaks_off(self, error: ValueError) -> bool:
        if "truncated" in str(error):
            return True
        # A number without its last digits counts as malformed.
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
            mended = self.content[: end + 1] + closing
            try:
                msgspec.json.decode(mended, type=form)
            except msgspec.DecodeError:
                continue  # a brace within an event: more than the events is left open
            return mended
        raise self.refused(f"breaks off at {self._end}, before any event in it is complete")


def several(number: int, noun: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


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
    """The content of a gzip file; of one that breaks off, as much as there is."""
    content = []
    while packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content.append(member.decompress(packed))
        packed = member.unused_data
    return b"".join(content)
