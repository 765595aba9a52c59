"""Spans of Chrome trace events as columns (names, threads, times to 1 ns), and calls by name."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import compress, count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tuner.text import shortened
from tuner.trace.files.chrome_events import Event, EventId, ExactEvent
from tuner.trace.model.spans import read_call_name
from tuner.trace.model.trace import UNKNOWN_RANK, make_calls

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
_LONGEST_US = 2.0**60 / 1e3
_LATEST_US = 2.0**61 / 1e3
"""36 years, and 73 years since 1970: sums of smaller times fit into an int64 of nanoseconds."""
_PS_PER_US = 1_000_000
_DIGITS = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Events with a start and an end, as columns of equal length."""

    names: pd.Categorical
    threads: NDArray[np.signedinteger[Any]]
    start_ns: IntArray
    end_ns: IntArray

    def window_ns(self) -> list[int]:
        """The first start and the last end; empty if there is no span."""
        if not len(self.names):
            return []
        return [int(self.start_ns.min()), int(self.end_ns.max())]

    def take(self, where: NDArray[np.bool_]) -> "Spans":
        """The spans that a mask selects."""
        return Spans(
            names=self.names[where].remove_unused_categories(),
            threads=self.threads[where],
            start_ns=self.start_ns[where],
            end_ns=self.end_ns[where],
        )

    @classmethod
    def joined(cls, parts: Sequence["Spans"]) -> "Spans":
        """All spans of several parts."""
        return cls(
            names=union_categoricals([part.names for part in parts]),
            threads=np.concatenate([part.threads for part in parts]),
            start_ns=np.concatenate([part.start_ns for part in parts]),
            end_ns=np.concatenate([part.end_ns for part in parts]),
        )


class SpanColumns:
    """The spans of events that come part by part; those without proper times are counted only."""

    def __init__(self) -> None:
        self._places = defaultdict[EventId, int](count().__next__)
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
        if not events and self._parts:
            return
        threads = np.array([self._places[event.tid] for event in events], dtype=np.int32)
        spans, lost = _spans_of(events, threads)
        self._parts.append(spans)
        self._lost.update(lost)

    def spans(self, numbers: Mapping[EventId, int], zero_ns: int = 0) -> Spans:
        """All spans. `numbers` has the number of each thread; `zero_ns` is added to all times."""
        if not self._parts:
            self.add([])
        of_place = np.array([numbers[each] for each in self._places], dtype=np.int64)
        spans = Spans.joined(self._parts)
        self._parts = []
        # In place: a copy of all times takes memory.
        for times_ns in (spans.start_ns, spans.end_ns):
            times_ns += zero_ns
        return replace(spans, threads=of_place[spans.threads])


def _spans_of(events: Sequence[Event], threads: NDArray[np.int32]) -> tuple[Spans, dict[str, int]]:
    """The spans of these events, and how many events were left out, by every reason."""
    ts: list[Any] = [event.ts for event in events]
    dur: list[Any] = [event.dur for event in events]
    is_exact = bool(events) and isinstance(events[0], ExactEvent)
    if is_exact:
        ts, dur = _finite(ts), _finite(dur)
    # None becomes NaN, for which no comparison holds.
    ts_us, dur_us = np.array(ts, dtype=np.float64), np.array(dur, dtype=np.float64)
    stamped = np.abs(ts_us) < _LATEST_US
    lasting = np.abs(dur_us) < _LONGEST_US
    forward = dur_us >= 0
    kept = stamped & lasting & forward
    if not kept.all():
        events, ts, dur = (list(compress(each, kept)) for each in (events, ts, dur))
        ts_us, dur_us, threads = ts_us[kept], dur_us[kept], threads[kept]
    start = _split_exactly(ts) if is_exact else _split(ts_us)
    lasted = _split_exactly(dur) if is_exact else _split(dur_us)
    spans = Spans(
        names=categorical([event.name for event in events]),
        threads=threads,
        start_ns=_nanoseconds(start),
        # Not the start plus the duration, each rounded: what begins where another ends must do so
        # afterwards, too.
        end_ns=_nanoseconds(start + lasted),
    )
    reasons = {
        "without a time stamp": ~stamped,
        "without a duration": stamped & ~lasting,
        "with a negative duration": stamped & lasting & ~forward,
    }
    return spans, {reason: int(lost.sum()) for reason, lost in reasons.items()}


def _finite(times: Sequence[Decimal | None]) -> list[Decimal | None]:
    return [None if each is None or not each.is_finite() else each for each in times]


def _split(us: FloatArray) -> IntArray:
    """Whole microseconds, and the picoseconds beside them: two rows.

    They are converted apart, since nanoseconds since 1970 as a float64 have steps of 256. What a
    number has beside its nanoseconds, as 30.00000000000022 has, is less than a picosecond.
    """
    whole = np.floor(us)
    return np.array([whole, np.rint((us - whole) * _PS_PER_US)]).astype(np.int64)


def _split_exactly(us: Sequence[Decimal]) -> IntArray:
    """The same of decimal numbers of any length."""
    pairs = [divmod(int(each * _PS_PER_US), _PS_PER_US) for each in us]
    split: IntArray = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return split


def _nanoseconds(split: IntArray) -> IntArray:
    """Nanoseconds, rounded: of equal times they are equal, and of a later time not less."""
    whole_us, rest_ps = split
    ns: IntArray = whole_us * 1000 + (rest_ps + 500) // 1000
    return ns


def thread_numbers(ids: Iterable[EventId]) -> dict[EventId, int]:
    """An int64 for each thread: its id, or, where that is text or too large, an unused number."""
    own = {each: number for each in ids if (number := id_number(each)) is not None}
    used = {*own.values()}
    free = (number for number in count(1) if number not in used)
    return {each: own[each] if each in own else next(free) for each in dict.fromkeys(ids)}


def id_number(each: EventId) -> int | None:
    """An id as an int64: before PyTorch 1.10 those of threads are text. None if it is none."""
    if isinstance(each, str):
        each = int(each) if _DIGITS.fullmatch(each) else None
    return each if each is not None and abs(each) < 2**63 else None


def categorical(values: Iterable[str]) -> pd.Categorical:
    """A categorical of strings: much faster than pandas' own way if few of them differ.

    Long ones are shortened: no function has a name of a million characters.
    """
    codes: defaultdict[str, int] = defaultdict(count().__next__)
    of_each = np.array([codes[value] for value in values], dtype=np.int32)
    names: defaultdict[str, int] = defaultdict(count().__next__)
    name_of = np.array([names[shortened(value)] for value in codes], dtype=np.int32)
    return pd.Categorical.from_codes(name_of[of_each], pd.Index(list(names), dtype="str"))


def calls_by_name(
    names: pd.Categorical,
    *,
    client_rank: IntArray,
    client_thread: IntArray,
    start_ns: IntArray,
    end_ns: IntArray,
    ranks: Mapping[str, int],
) -> pd.DataFrame:
    """The calls frame of spans that all have names of calls; `ranks` is by RPC name."""
    names = names.remove_unused_categories()
    parts = [part for part in map(read_call_name, names.categories) if part]

    def of_each(values: Sequence[str] | Sequence[int]) -> NDArray[np.generic]:
        return np.asarray(values)[names.codes] if values else np.array([], dtype=np.int64)

    order = np.argsort(start_ns, kind="stable")
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.arange(1, len(order) + 1)
    return make_calls(
        {
            "call_id": ids,
            "name": names,
            "kind": of_each([part.kind for part in parts]),
            "body": of_each([part.body for part in parts]),
            "function": of_each([part.function for part in parts]),
            "client": of_each([part.client for part in parts]),
            "server": of_each([part.server for part in parts]),
            "client_rank": client_rank,
            "server_rank": of_each([ranks.get(part.server, UNKNOWN_RANK) for part in parts]),
            "client_thread": client_thread,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "status": np.full(len(names), "ok"),
        }
    )
