"""Chrome trace events that other programs wrote: any of them may be malformed, or lack a time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tuner.text import shortened
from tuner.trace.files.trace_text import TraceText, decode_json

IntArray = NDArray[np.int64]
EventId = int | str | None
"""The id of a process or a thread in its trace."""

UNKNOWN_CLOCKS = "How far the clocks of different hosts are apart is not known."
"""A loss of every foreign trace with several ranks."""

_MOST_COMMAS = 100_000
"""In a text without objects; a larger one is not looked at element by element."""

_LONGEST_US = 2.0**60 / 1e3
_LATEST_US = 2.0**61 / 1e3
"""36 years, and 73 years since 1970: sums of smaller times fit into an int64 of nanoseconds."""


class Event(msgspec.Struct, gc=False):
    """The fields that are read. `ts` and `dur` are microseconds; `args` may be anything."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float | None = None
    dur: float | None = None
    pid: EventId = None
    tid: EventId = None
    args: msgspec.Raw = msgspec.Raw()


class EventCount:
    """How many events of a trace were read, part by part, and how many have another form."""

    def __init__(self) -> None:
        self.read = 0
        self._wrong = 0
        self._first_wrong = ""

    def events_in(self, raw: msgspec.Raw, text: TraceText) -> list[Event]:
        """The events of a JSON array that have the right form. UsageError if it is no array."""
        try:
            events = decode_json(raw, list[Event])
        except msgspec.ValidationError:
            events = self._one_by_one(raw, text)
        except ValueError as error:
            raise text.malformed(error) from None
        self.read += len(events)
        return events

    def losses(self, last: TraceText, whole: bool) -> list[str]:
        """What the trace lacks, once its last part is read.

        Args:
            last: That part.
            whole: Whether it does not break off.
        """
        losses = []
        if self._wrong:
            why = f"not in the Chrome trace format, first {self._first_wrong}"
            losses.append(last.left_out(self._wrong, "event", why))
        if not whole:
            losses.append(last.broken_off(self.read))
        return losses

    def _one_by_one(self, raw: msgspec.Raw, text: TraceText) -> list[Event]:
        if bytes(raw).count(b",") > _MOST_COMMAS + 100 * bytes(raw).count(b"{"):
            raise text.refused("JSON, but no trace: its events are no objects")
        try:
            each_raw = decode_json(raw, list[msgspec.Raw])
        except msgspec.ValidationError as error:
            raise text.refused(f"JSON, but no trace: its events: {error}") from None
        except ValueError as error:
            raise text.malformed(error) from None
        events = []
        for place, each in enumerate(each_raw, self.read + self._wrong):
            try:
                events.append(decode_json(each, Event))
            except msgspec.ValidationError as error:
                self._first_wrong = self._first_wrong or f"event {place}: {error}"
                self._wrong += 1
            except ValueError as error:
                raise text.malformed(error) from None
        return events


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Events with a start and an end, as columns of equal length."""

    names: pd.Categorical
    threads: IntArray
    start_ns: IntArray
    end_ns: IntArray

    def window_ns(self) -> list[int]:
        """The first start and the last end; empty if there is no span."""
        if not len(self.names):
            return []
        return [int(self.start_ns.min()), int(self.end_ns.max())]


class SpanColumns:
    """The spans of events that come part by part; those without proper times are counted only."""

    def __init__(self) -> None:
        self._places: dict[EventId, int] = {}
        self._parts: list[Spans] = []
        self._lost: Counter[str] = Counter()

    @property
    def lost(self) -> dict[str, int]:
        """How many events were left out, by reason: in one order, however the parts were cut."""
        return {reason: number for reason, number in self._lost.items() if number}

    @property
    def threads(self) -> Sequence[EventId]:
        """The threads of all events, in the order in which they came."""
        return list(self._places)

    def add(self, events: Sequence[Event]) -> None:
        """Add the spans of more events."""
        for event in events:
            self._places.setdefault(event.tid, len(self._places))
        spans, lost = _spans_of(events, self._places)
        self._parts.append(spans)
        self._lost.update(lost)

    def spans(self, numbers: Mapping[EventId, int], zero_ns: int = 0) -> Spans:
        """All spans. `numbers` has the number of each thread; `zero_ns` is added to all times."""
        if not self._parts:
            self.add([])
        of_place = np.array([numbers[each] for each in self._places], dtype=np.int64)
        joined = Spans(
            names=union_categoricals([part.names for part in self._parts]),
            threads=of_place[np.concatenate([part.threads for part in self._parts])],
            start_ns=np.concatenate([part.start_ns for part in self._parts]) + zero_ns,
            end_ns=np.concatenate([part.end_ns for part in self._parts]) + zero_ns,
        )
        self._parts = []
        return joined


def _spans_of(
    events: Sequence[Event], threads: Mapping[EventId, int]
) -> tuple[Spans, dict[str, int]]:
    """The spans of these events, and how many events were left out, by every reason."""
    # None becomes NaN, for which no comparison holds.
    ts_us = np.array([event.ts for event in events], dtype=np.float64)
    dur_us = np.array([event.dur for event in events], dtype=np.float64)
    stamped = np.abs(ts_us) < _LATEST_US
    lasting = np.abs(dur_us) < _LONGEST_US
    forward = dur_us >= 0
    kept = stamped & lasting & forward
    if not kept.all():
        events, ts_us, dur_us = list(compress(events, kept)), ts_us[kept], dur_us[kept]
    start_ns = _nanoseconds(ts_us)
    spans = Spans(
        names=categorical(event.name for event in events),
        threads=np.array([threads[event.tid] for event in events], dtype=np.int32),
        start_ns=start_ns,
        end_ns=start_ns + _nanoseconds(dur_us),
    )
    reasons = {
        "without a time stamp": ~stamped,
        "without a duration": stamped & ~lasting,
        "with a negative duration": stamped & lasting & ~forward,
    }
    return spans, {reason: int(lost.sum()) for reason, lost in reasons.items()}


def thread_numbers(ids: Iterable[EventId]) -> dict[EventId, int]:
    """An int64 for each thread: its id, or, where that is text or too large, an unused number."""
    distinct = dict.fromkeys(ids)
    own = {each for each in distinct if isinstance(each, int) and abs(each) < 2**63}
    free = (number for number in count(1) if number not in own)
    return {
        each: each if isinstance(each, int) and each in own else next(free) for each in distinct
    }


def categorical(values: Iterable[str]) -> pd.Categorical:
    """A categorical of strings: much faster than pandas' own way if few of them differ.

    Long ones are shortened: no function has a name of a million characters.
    """
    codes: defaultdict[str, int] = defaultdict(count().__next__)
    of_each = np.array([codes[shortened(value)] for value in values], dtype=np.int32)
    return pd.Categorical.from_codes(of_each, pd.Index(list(codes), dtype="str"))


def _nanoseconds(us: NDArray[np.float64]) -> IntArray:
    return np.rint(us * 1e3).astype(np.int64)
