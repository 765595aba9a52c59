"""Chrome trace events that other programs wrote: any of them may be malformed, or lack a time."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import msgspec

from tuner.errors import UsageError
from tuner.trace.files.trace_text import NO_OBJECTS, TraceText, decode_json

EventId = int | str | None
"""The id of a process or a thread in its trace."""

UNKNOWN_CLOCKS = "How far the clocks of different hosts are apart is not known."
"""A loss of every foreign trace with several ranks, unless all are known to be of one host."""

_MOST_COMMAS = 100_000
"""In a text without objects; a larger one is not looked at element by element."""

_Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
_Fraction = Annotated[float, msgspec.Meta(gt=-(2.0**43), lt=2.0**43)]
"""Microseconds of which a float64 holds every nanosecond: whole ones, and others of 101 days."""


class Event(msgspec.Struct, gc=False):
    """The fields that are read. `ts` and `dur` are microseconds; `args` may be anything."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: _Whole | _Fraction | None = None
    dur: _Whole | _Fraction | None = None
    pid: EventId = None
    tid: EventId = None
    args: msgspec.Raw = msgspec.Raw()


class ExactEvent(Event, gc=False):
    """The same with times of any size, or written as text; it takes twice as long to decode."""

    ts: Decimal | None = None  # type: ignore[assignment]
    dur: Decimal | None = None  # type: ignore[assignment]


class _Distributed(msgspec.Struct):
    rank: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    world_size: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


_NO_EVENTS = msgspec.Raw()


class Document(msgspec.Struct):
    """A whole file, its events not yet looked into."""

    traceEvents: msgspec.Raw = _NO_EVENTS  # noqa: N815 - the format's own names
    baseTimeNanoseconds: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] | None = None  # noqa: N815
    """Unix time of the time stamps' zero; older versions of PyTorch count from 1970."""
    distributedInfo: _Distributed | None = None  # noqa: N815
    host_name: str = ""


class EventParts:
    """The events of a trace, part by part, and how many of them were read or left out."""

    def __init__(self) -> None:
        self.read = 0
        self.document = Document()
        """The last part, with the header of the file."""
        self.is_whole = True
        """Whether it does not break off."""
        self._wrong = _LeftOut()
        self._bad = _LeftOut()

    def read_part(self, text: TraceText) -> list[Event]:
        """The events of a part, which is an object or an array. UsageError if it is neither."""
        seen = self.read + self._wrong.number + self._bad.number
        bad: list[int] = []
        try:
            self.document, events, wrong, self.is_whole = _read(text)
        except UsageError as error:
            readable, (bad, problem) = text.without_bad_events(ExactEvent)
            if not bad:
                raise
            try:
                self.document, events, wrong, self.is_whole = _read(readable)
            except UsageError:
                raise error from None
            self._bad.add(len(bad), seen + bad[0], problem)
        if wrong:
            first = place = min(wrong)
            for other in bad:
                # Its place among all events, also those that were left out before.
                place += other <= place
            self._wrong.add(len(wrong), seen + place, wrong[first])
        self.read += len(events)
        return events

    def losses(self, last: TraceText) -> list[str]:
        """What the trace lacks, once its last part is read. UsageError if it has no event."""
        losses = [
            last.left_out(what.number, "event", f"{why}, first event {what.first}: {what.problem}")
            for what, why in (
                (self._bad, "not valid as JSON"),
                (self._wrong, "not in the Chrome trace format"),
            )
            if what.number
        ]
        if not self.is_whole:
            losses.append(last.broken_off(self.read))
        if not self.read:
            what = "no event that can be read" if losses else "a trace without events"
            raise last.foreign(what, losses)
        return losses


@dataclass
class _LeftOut:
    """Events that are not read."""

    number: int = 0
    first: int = 0
    problem: str = ""

    def add(self, number: int, first: int, problem: str) -> None:
        if not self.number:
            self.first, self.problem = first, problem
        self.number += number


def _read(text: TraceText) -> tuple[Document, list[Event], dict[int, str], bool]:
    """Header, events, what is wrong with others by their place, and whether the text is whole."""
    try:
        if text.first == b"[":
            raw, whole = text.decode(msgspec.Raw)
            document = Document(traceEvents=raw)
        else:
            document, whole = text.decode(Document)
    except msgspec.ValidationError as error:
        raise text.no_trace(error) from None
    raw = document.traceEvents
    if raw is _NO_EVENTS:
        raise text.without_events()
    for form in (Event, ExactEvent):
        try:
            return document, decode_json(raw, list[form]), {}, whole  # type: ignore[valid-type]
        except msgspec.ValidationError:
            continue
        except ValueError as error:
            raise text.malformed(error) from None
    return document, *_one_by_one(raw, text), whole


def _one_by_one(raw: msgspec.Raw, text: TraceText) -> tuple[list[Event], dict[int, str]]:
    if bytes(raw).count(b",") > _MOST_COMMAS + 100 * bytes(raw).count(b"{"):
        raise text.foreign(NO_OBJECTS)
    try:
        each_raw = decode_json(raw, list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise text.foreign(f"JSON, but no trace: its events: {error}") from None
    except ValueError as error:
        raise text.malformed(error) from None
    events: list[Event] = []
    wrong = {}
    for place, each in enumerate(each_raw):
        try:
            events.append(decode_json(each, ExactEvent))
        except msgspec.ValidationError as error:
            wrong[place] = str(error)
        except ValueError as error:
            raise text.malformed(error) from None
    return events, wrong
