"""The text of a trace, or of a part of it: parsed, and cut after its last complete event."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from tuner.errors import UsageError
from tuner.text import plural
from tuner.trace.files.event_places import BETWEEN, closing_of, event_places, head_of, members

T = TypeVar("T")
Number = Annotated[int, msgspec.Meta(ge=-(2**62), lt=2**62)]
"""Of a rank, a thread or a call; and nanoseconds. The sum of two fits into an int64."""

READ = (
    "rpc-tuner reads its own traces, and the JSON that torch.profiler and the legacy profiler "
    "export, compressed with gzip or not"
)
"""What is said where something else is refused."""
NO_OBJECTS = "JSON, but no trace: its events are no objects"

_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}[^\\\\]")
_NEAR_BYTES = 16
_FIRST_KEY = re.compile(rb'\s*\{\s*"([^"\\]{1,100})"')


def decode_json(raw: bytes | msgspec.Raw, form: type[T]) -> T:
    """JSON as that type. `msgspec.ValidationError`, or ValueError if it is no JSON that is read."""
    try:
        return msgspec.json.decode(raw, type=form)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Readable(NamedTuple):
    """What can be read of a text that is no JSON, and what was left out of it."""

    text: "TraceText"
    bad: list[int]  # the places of events among all
    bad_bytes: int
    problem: str  # what is wrong with the first of them
    beside: str  # what is wrong with the text beside its events


@dataclass(frozen=True, kw_only=True)
class TraceText:
    """The JSON of one trace, not yet parsed; `subject` is its path, for messages."""

    subject: str
    content: bytes
    unpacked: bool = False  # whether it was compressed: positions differ from those in the file
    head: bytes = b""  # what a part repeats of the whole text: all before the first event
    skipped: int = 0  # bytes of the whole text between the head and the events of this part
    follows: bool = False  # whether events of the whole text are in parts before this one

    @property
    def first(self) -> bytes:
        """The first character that is no white space; empty if there is none."""
        found = re.search(rb"\S", self.content)
        return found[0] if found else b""

    def decode(self, form: type[T]) -> tuple[T, bool]:
        """The text as that type, and whether it is whole; else its complete events, if any is."""
        content = self.content
        while True:
            try:
                return decode_json(content, form), content is self.content
            except msgspec.ValidationError:
                raise
            except ValueError as error:
                if content is not self.content or not self._breaks_off(error):
                    raise self.malformed(error) from None
            content = self._whole_events()

    def refused(self, problem: str) -> UsageError:
        """The error that names this trace and its problem."""
        return UsageError(f"{self.subject}: {problem}")

    def malformed(self, problem: ValueError) -> UsageError:
        """The error for text that is no JSON, or no UTF-8."""
        found = self._problem(problem, self.content, 0)
        return self.foreign(found if "UTF-8" in found else f"not JSON, so no trace: {found}")

    def without_bad_events(self, form: type[object], names: Sequence[str]) -> Readable:
        """The same without events that are no JSON.

        `form` is what is read of an event; its other fields are not decoded. `names` are the
        members that are read beside the events, as far as they can be.
        """
        head = self.head or head_of(self.content)
        places, end = event_places(self.content, len(head), is_last=True) if head else ([], None)
        kept: list[bytes] = []
        bad: list[int] = []
        place, bad_bytes, problem = 0, 0, ""
        for begin, event in self._pieces(len(head), places, end):
            # With white space, so that msgspec does not say that half a character is truncated.
            array = b"[%b%b]" % (event, b" " * _NEAR_BYTES)
            place += 1
            try:
                try:
                    decode_json(array, list[form])  # type: ignore[valid-type]
                except msgspec.ValidationError:
                    # A value of another type is told before what is no JSON behind it.
                    place += len(decode_json(array, list[msgspec.Raw])) - 1
            except ValueError as error:
                problem = problem or self._problem(error, array, begin - 1)
                bad.append(place - 1)
                bad_bytes += len(event)
                continue
            kept.append(event)
        # What breaks off after the last event is left out, too.
        tail = b"" if end is None else self.content[end:]
        beside = self._problem_beside(head, b"", 0) or self._problem_beside(head, tail, end or 0)
        if beside:
            read = members(head, names) | members(tail, names)
            head = b"[" if head.lstrip() == b"[" else _head_with(read)
            tail = tail and closing_of(head)
        text = replace(self, content=head + b",".join(kept) + tail)
        return Readable(text, bad, bad_bytes, problem, beside)

    def _problem_beside(self, head: bytes, tail: bytes, end: int) -> str:
        """What is wrong with the text before the events, and with that from their end on."""
        try:
            decode_json(head + (tail or closing_of(head)), msgspec.Raw)
        except ValueError as error:
            if head and "truncated" not in str(error):
                return self._problem(error, head + tail, max(end - len(head), 0))
        return ""

    def _pieces(
        self, start: int, places: list[tuple[int, int]], end: int | None
    ) -> Iterator[tuple[int, bytes]]:
        """The objects of the array, and what lies between them but for white space and commas."""
        for begin, after in [*places, *([] if end is None else [(end, end)])]:
            if between := self.content[start:begin].strip(BETWEEN):
                yield self.content.index(between, start), between
            if after > begin:
                yield begin, self.content[begin:after]
            start = after

    def foreign(self, found: str, losses: Sequence[str] = ()) -> UsageError:
        """The error for a file that is no trace that is read, and what was left out of it."""
        return UsageError(f"{self.subject}: {found}; {READ}", losses)

    def without_events(self) -> UsageError:
        """The error for JSON, or the beginning of JSON, that has no array of events."""
        key = _FIRST_KEY.match(self.content)
        first = f' that begins with "{key[1].decode(errors="replace")}"' if key else ""
        return self.foreign(f'JSON, but no trace: an object{first}, without "traceEvents"')

    def no_trace(self, problem: msgspec.ValidationError) -> UsageError:
        """The error for text that begins as JSON of another type, and may go on as anything."""
        try:
            decode_json(self.content, msgspec.Raw)
            self.content.decode()
        except ValueError as error:
            return self.malformed(error)
        return self.foreign(f"JSON, but no trace: {problem}")

    def broken_off(self, events: int) -> str:
        """The loss of a text that is not whole."""
        number = plural(events, "complete event")
        return f"{self.subject} breaks off at {self._end}, after {number}."

    def left_out(self, number: int, noun: str, why: str) -> str:
        """The loss of spans or events that cannot be used."""
        return f"Left out of {self.subject}: {plural(number, noun)} {why}."

    def _problem(self, problem: ValueError, piece: bytes, begin: int) -> str:
        """What is wrong with a piece of the text that begins there, with its place in the whole."""
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            place = self._in_whole_text(begin + error.start)
            return f"not UTF-8 text: byte {place} is 0x{piece[error.start]:02x}"
        return re.sub(
            r"(?<=\(byte )\d+(?=\)$)",
            lambda at: str(self._in_whole_text(begin + int(at[0]))),
            str(problem),
        )

    def _in_whole_text(self, place: int) -> int:
        return place if place < len(self.head) else place + self.skipped

    @property
    def _end(self) -> str:
        end = self._in_whole_text(len(self.content))
        return f"byte {end}{' of its unpacked text' * self.unpacked}"

    def _breaks_off(self, error: ValueError) -> bool:
        if "truncated" in str(error):
            # msgspec says the same of half a character at the end of a whole text.
            return not _HALF.search(self.content, max(0, len(self.content) - _NEAR_BYTES))
        # msgspec calls a number that breaks off malformed.
        place = re.search(r"invalid number \(byte (\d+)\)", str(error))
        return place is not None and int(place[1]) >= len(self.content) - 1

    def _whole_events(self) -> bytes:
        """The text up to its last complete event, closed."""
        head = self.head or head_of(self.content)
        places = event_places(self.content, len(head), is_last=True)[0] if head else []
        if not (places or self.follows):
            raise self.refused(f"breaks off at {self._end}, before any event in it is complete")
        end = places[-1][1] if places else len(head)
        return self.content[:end] + closing_of(head)


def _head_with(read: Mapping[str, msgspec.Raw]) -> bytes:
    """How an object begins, before its events, of which these members can be read."""
    said = b"".join(b'"%b":%b,' % (name.encode(), bytes(value)) for name, value in read.items())
    return b'{%b"traceEvents":[' % said
