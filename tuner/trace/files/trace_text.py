"""The text of a trace, or of a part of it: parsed, and cut after its last complete event."""

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tuner.errors import UsageError
from tuner.text import plural

T = TypeVar("T")

_ENDS_TRIED = 100
_MOST_TRIED_BYTES = 2**32
"""Closing braces that are tried from the end: those of the incomplete last event, and one more."""


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
    head: bytes = b""
    """What the content of a part repeats of the whole text: all before the first event."""
    skipped: int = 0
    """Bytes of the whole text between the head and the events of this part."""
    follows: bool = False
    """Whether events of the whole text are in parts before this one."""

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
            place = self._in_whole_text(error.start)
            return self.refused(f"not UTF-8 text: byte {place} is 0x{byte:02x}")
        told = re.sub(
            r"(?<=\(byte )\d+(?=\)$)", lambda at: str(self._in_whole_text(int(at[0]))), str(problem)
        )
        return self.refused(f"not JSON, so no trace: {told}")

    def no_trace(self, problem: msgspec.ValidationError) -> UsageError:
        """The error for text that begins as JSON of another type, and may go on as anything."""
        try:
            decode_json(self.content, msgspec.Raw)
            self.content.decode()
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

    def _in_whole_text(self, place: int) -> int:
        return place if place < len(self.head) else place + self.skipped

    @property
    def _end(self) -> str:
        end = self._in_whole_text(len(self.content))
        return f"byte {end}" + (" of its unpacked text" if self.unpacked else "")

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
        if self.follows:
            return self.head + closing
        raise self.refused(f"breaks off at {self._end}, before any event in it is complete")
