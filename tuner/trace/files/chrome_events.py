"""Chrome trace events that other programs wrote, some malformed: read as columns of spans."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import compress, count, filterfalse
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tuner.errors import UsageError
from tuner.text import first_of, plural, shortened
from tuner.trace.files.trace_text import NO_OBJECTS, TraceText, decode_json
from tuner.trace.model.spans import read_call_name
from tuner.trace.model.trace import UNKNOWN_RANK, BoolArray, FloatArray, IntArray, make_calls

EventId = int | str | None  # the id of a process or a thread in its trace

# A loss of every foreign trace with several ranks, unless all are known to be of one host.
UNKNOWN_CLOCKS = "How far the clocks of different hosts are apart is not known."
_MOST_COMMAS = 100_000  # in a text without objects that is looked at element by element
# 36 years, and 73 years since 1970: sums of smaller times fit into an int64 of nanoseconds.
_LONGEST_US, _LATEST_US = 2.0**60 / 1e3, 2.0**61 / 1e3
_PS_PER_US = 1_000_000
_DIGITS = re.compile(r"-?[0-9]{1,18}")
_PHASES = {"C": "counter", "s": "arrow", "t": "arrow", "f": "arrow", "i": "mark", "I": "mark"}
_MOST_KINDS = 5
_NOT_JSON, _NO_EVENT = "not valid as JSON", "not in the Chrome trace format"

_Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
_Fraction = Annotated[float, msgspec.Meta(gt=-(2.0**43), lt=2.0**43)]
"""Microseconds of which a float64 holds every nanosecond: whole ones, and others of 101 days."""
_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


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
    rank: _Size | None = None
    world_size: _Size | None = None


_NO_EVENTS = msgspec.Raw()


class Document(msgspec.Struct):
    """A whole file, its events not yet looked into."""

    traceEvents: msgspec.Raw = _NO_EVENTS  # noqa: N815 - the format's own names
    baseTimeNanoseconds: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] | None = None  # noqa: N815
    """Unix time of the time stamps' zero; older versions of PyTorch count from 1970."""
    distributedInfo: _Distributed | None = None  # noqa: N815
    host_name: str = ""


_HEADER = tuple(name for name in Document.__struct_fields__ if name != "traceEvents")


class EventParts:
    """The events of a trace, part by part, and how many of them were read or left out."""

    def __init__(self) -> None:
        self.read = 0
        self.document = Document()  # the last part, with the header of the file
        self.is_whole = True  # whether it does not break off
        self._beside = ""  # what is wrong with the text beside its events
        self._bad_bytes = 0  # of events that are no JSON
        self._left_out: dict[str, tuple[int, int, str]] = {}
        """By reason: how many, the first one's place, and what is wrong with it."""

    def read_part(self, text: TraceText) -> list[Event]:
        """The events of a part, which is an object or an array. UsageError if it is neither."""
        seen = self.read + sum(number for number, *_ in self._left_out.values())
        bad: list[int] = []
        try:
            self.document, events, wrong, self.is_whole = _read(text)
        except UsageError as error:
            readable = text.without_bad_events(ExactEvent, _HEADER)
            bad = readable.bad
            if not bad and not readable.beside:
                raise
            try:
                self.document, events, wrong, self.is_whole = _read(readable.text)
            except UsageError:
                raise error from None
            if readable.beside and not events and not bad:
                raise
            self._beside = self._beside or readable.beside
            if bad:
                self._bad_bytes += readable.bad_bytes
                self._leave_out(_NOT_JSON, len(bad), seen + bad[0], readable.problem)
        if wrong:
            first = place = min(wrong)
            for other in bad:
                # Its place among all events, also those that are no JSON.
                place += other <= place
            self._leave_out(_NO_EVENT, len(wrong), seen + place, wrong[first])
        self.read += len(events)
        return events

    @property
    def has_header(self) -> bool:
        """Whether the text beside the events was read, from its beginning to its end."""
        return self.is_whole and not self._beside

    def _why(self, why: str) -> str:
        return f"{why} ({plural(self._bad_bytes, 'byte')})" if why == _NOT_JSON else why

    def _leave_out(self, why: str, number: int, first: int, problem: str) -> None:
        before, first, problem = self._left_out.get(why, (0, first, problem))
        self._left_out[why] = before + number, first, problem

    def losses(self, last: TraceText) -> list[str]:
        """What the trace lacks, once its last part is read. UsageError if it has no event."""
        losses = [
            last.left_out(number, "event", f"{self._why(why)}, first event {first}: {problem}")
            for why, (number, first, problem) in sorted(self._left_out.items(), reverse=True)
        ]
        if self._beside:
            losses.append(
                f"{last.subject} is not valid JSON beside its events: {self._beside}. Of that, "
                "only the rank, the host and the base time are read, where they can be."
            )
        if not self.is_whole:
            losses.append(last.broken_off(self.read))
        if not self.read:
            what = "no event that can be read" if losses else "a trace without events"
            raise last.foreign(what, losses)
        return losses


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
    try:
        for form in (Event, ExactEvent):
            with suppress(msgspec.ValidationError):
                events = decode_json(raw, list[form])  # type: ignore[valid-type]
                return document, events, {}, whole
        if bytes(raw).count(b",") > _MOST_COMMAS + 100 * bytes(raw).count(b"{"):
            raise text.foreign(NO_OBJECTS)
        events, wrong = [], {}
        for place, event in enumerate(decode_json(raw, list[msgspec.Raw])):
            try:
                events.append(decode_json(event, ExactEvent))
            except msgspec.ValidationError as error:
                wrong[place] = str(error)
        return document, events, wrong, whole
    except msgspec.ValidationError as error:
        raise text.foreign(f"JSON, but no trace: its events: {error}") from None
    except ValueError as error:
        raise text.malformed(error) from None


class Spans(NamedTuple):
    """Events with a start and an end, as columns of equal length."""

    names: pd.Categorical
    threads: NDArray[np.signedinteger[Any]]
    start_ns: IntArray
    end_ns: IntArray

    def window_ns(self) -> list[int]:
        """The first start and the last end; empty if there is no span."""
        return [int(self.start_ns.min()), int(self.end_ns.max())] if len(self.names) else []

    def take(self, where: BoolArray) -> "Spans":
        """The spans that a mask selects."""
        names, threads = self.names[where].remove_unused_categories(), self.threads[where]
        return Spans(names, threads, self.start_ns[where], self.end_ns[where])

    @classmethod
    def joined(cls, parts: Sequence["Spans"]) -> "Spans":
        """All spans of several parts."""
        names, *columns = zip(*parts, strict=True)
        return cls(union_categoricals(names), *map(np.concatenate, columns))


class SpanColumns:
    """The spans of events that come part by part; those without proper times are counted only."""

    def __init__(self) -> None:
        self._places = defaultdict[EventId, int](count().__next__)
        self._parts: list[Spans] = []
        self._lost: Counter[str] = Counter()

    def losses(self, text: TraceText, noun: str) -> list[str]:
        """What was left out, by reason: in one order, however the parts were cut."""
        return [text.left_out(number, noun, why) for why, number in (+self._lost).items()]

    @property
    def threads(self) -> Sequence[EventId]:
        """The threads of all events, in the order in which they came."""
        return list(self._places)

    def add(self, events: Sequence[Event]) -> None:
        """Add the spans of more events."""
        if not events and self._parts:
            return
        threads = np.array([self._places[event.tid] for event in events], dtype=np.int32)
        spans, lost = _spans_of(events, threads)
        self._parts.append(spans)
        self._lost.update(lost)

    def spans(self, numbers: Mapping[EventId, int], zero_ns: int = 0) -> Spans:
        """All spans. `numbers` has the number of each thread; `zero_ns` is added to all times."""
        self.add([])
        of_place = np.array([numbers[thread] for thread in self._places], dtype=np.int64)
        spans = Spans.joined(self._parts)
        self._parts = []
        # In place: a copy of all times takes memory.
        for times_ns in (spans.start_ns, spans.end_ns):
            times_ns += zero_ns
        return spans._replace(threads=of_place[spans.threads])


def _spans_of(events: Sequence[Event], threads: NDArray[np.int32]) -> tuple[Spans, dict[str, int]]:
    """The spans of these events, and how many events were left out, by every reason."""
    ts: list[Any] = [event.ts for event in events]
    dur: list[Any] = [event.dur for event in events]
    if is_exact := bool(events) and isinstance(events[0], ExactEvent):
        ts, dur = (
            [time if time is not None and time.is_finite() else None for time in us]
            for us in (ts, dur)
        )
    # None becomes NaN, for which no comparison holds.
    ts_us, dur_us = np.array(ts, dtype=np.float64), np.array(dur, dtype=np.float64)
    stamped, lasting = np.abs(ts_us) < _LATEST_US, np.abs(dur_us) < _LONGEST_US
    forward = dur_us >= 0
    kept = stamped & lasting & forward
    if not kept.all():
        events, ts, dur = (list(compress(column, kept)) for column in (events, ts, dur))
        ts_us, dur_us, threads = ts_us[kept], dur_us[kept], threads[kept]
    start = _split_exactly(ts) if is_exact else _split(ts_us)
    lasted = _split_exactly(dur) if is_exact else _split(dur_us)
    names = categorical([event.name for event in events])
    # The end is not the start plus the duration, each rounded: what begins where another ends must
    # do so afterwards, too.
    spans = Spans(names, threads, _nanoseconds(start), _nanoseconds(start + lasted))
    lost = {
        "without a time stamp": ~stamped,
        "without a duration": stamped & ~lasting,
        "with a negative duration": stamped & lasting & ~forward,
    }
    return spans, {why: int(which.sum()) for why, which in lost.items()}


def _split(us: FloatArray) -> IntArray:
    """Whole microseconds, and the picoseconds beside them: two rows."""
    # Apart: nanoseconds since 1970 as a float64 have steps of 256. What a number has beside its
    # nanoseconds, as 30.00000000000022 has, is less than a picosecond.
    whole = np.floor(us)
    return np.array([whole, np.rint((us - whole) * _PS_PER_US)]).astype(np.int64)


def _split_exactly(us: Sequence[Decimal]) -> IntArray:
    """The same of decimal numbers of any length."""
    pairs = [divmod(int(time * _PS_PER_US), _PS_PER_US) for time in us]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _nanoseconds(split: IntArray) -> IntArray:
    """Nanoseconds, rounded: of equal times they are equal, and of a later time not less."""
    whole_us, rest_ps = split
    return np.asarray(whole_us * 1000 + (rest_ps + 500) // 1000)


def unread_kind(event: Event) -> str:
    """What an event that is not read is: by its category, or by its phase."""
    if event.ph in ("X", "B"):
        return event.cat or "without a category"
    return _PHASES.get(event.ph) or event.cat or f"of phase {event.ph or '(none)'}"


def unread_loss(unread: Mapping[str, int], every: int) -> list[str]:
    """What is said of events that are not read, by kind, of so many; nothing if all are."""
    if not unread:
        return []
    kinds = sorted(unread.items(), key=lambda kind: (-kind[1], kind[0]))
    said = first_of([f"{number:,} {kind}" for kind, number in kinds], _MOST_KINDS)
    number = f"{sum(unread.values()):,} of the {plural(every, 'event')}"
    return [f"Only operators and calls are read, not {number}: {said}."]


def thread_numbers(ids: Iterable[EventId]) -> dict[EventId, int]:
    """An int64 for each thread: its id, or, where that is text or too large, an unused number."""
    own = {thread: number for thread in ids if (number := id_number(thread)) is not None}
    free = filterfalse({*own.values()}.__contains__, count(1))
    return {thread: own[thread] if thread in own else next(free) for thread in dict.fromkeys(ids)}


def id_number(each: EventId) -> int | None:
    """An id as an int64: before PyTorch 1.10 those of threads are text. None if it is none."""
    if isinstance(each, str):
        each = int(each) if _DIGITS.fullmatch(each) else None
    return each if each is not None and abs(each) < 2**63 else None


def categorical(values: Iterable[str]) -> pd.Categorical:
    """A categorical of shortened strings: much faster than pandas' own if few of them differ."""
    codes: defaultdict[str, int] = defaultdict(count().__next__)
    of_each = np.array([codes[value] for value in values], dtype=np.int32)
    names: defaultdict[str, int] = defaultdict(count().__next__)
    name_of = np.array([names[shortened(value)] for value in codes], dtype=np.int32)
    return pd.Categorical.from_codes(name_of[of_each], pd.Index(list(names), dtype="str"))


def calls_by_name(spans: Spans, client_rank: IntArray, ranks: Mapping[str, int]) -> pd.DataFrame:
    """The calls frame of spans that all have names of calls; `ranks` is by RPC name."""
    names = spans.names.remove_unused_categories()
    parts = [part for part in map(read_call_name, names.categories) if part]
    rank = [ranks.get(part.server, UNKNOWN_RANK) for part in parts]
    words = ("kind", "body", "function", "client", "server")
    calls = make_calls(
        {
            **{word: categorical(getattr(p, word) for p in parts)[names.codes] for word in words},
            "call_id": np.zeros(len(names), np.int64),
            "name": names,
            "client_rank": client_rank,
            "server_rank": np.array(rank, dtype=np.int64)[names.codes],
            "client_thread": spans.threads,
            "start_ns": spans.start_ns,
            "end_ns": spans.end_ns,
            "status": np.full(len(names), "ok"),
        }
    )
    calls["call_id"] = np.arange(1, len(calls) + 1)
    return calls
