"""Chrome trace events that other programs wrote: any of them may be malformed, or lack a time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

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


def events_in(raw: msgspec.Raw, text: TraceText) -> tuple[list[Event], list[str]]:
    """The events of a JSON array, and the losses. UsageError if it is no array."""
    try:
        return decode_json(raw, list[Event]), []
    except msgspec.ValidationError:
        pass
    except ValueError as error:
        raise text.malformed(error) from None
    if bytes(raw).count(b",") > _MOST_COMMAS + 100 * bytes(raw).count(b"{"):
        raise text.refused("JSON, but no trace: its events are no objects")
    try:
        each_raw = decode_json(raw, list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise text.refused(f"JSON, but no trace: its events: {error}") from None
    except ValueError as error:
        raise text.malformed(error) from None
    return _events_one_by_one(each_raw, text)


def _events_one_by_one(
    each_raw: Sequence[msgspec.Raw], text: TraceText
) -> tuple[list[Event], list[str]]:
    """The events that have the right form, and one loss for all others."""
    events = []
    wrong: list[str] = []
    for place, raw in enumerate(each_raw):
        try:
            events.append(decode_json(raw, Event))
        except msgspec.ValidationError as error:
            wrong.append(f"event {place}: {error}")
        except ValueError as error:
            raise text.malformed(error) from None
    why = f"not in the Chrome trace format, first {wrong[0]}"
    return events, [text.left_out(len(wrong), "event", why)]


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


def spans_of(
    events: Sequence[Event], threads: Mapping[EventId, int], zero_ns: int = 0
) -> tuple[Spans, dict[str, int]]:
    """The spans of these events, and how many events were left out, by reason.

    `zero_ns` is added to all times; `threads` has the number of each thread.
    """
    # None becomes NaN, for which no comparison holds.
    ts_us = np.array([event.ts for event in events], dtype=np.float64)
    dur_us = np.array([event.dur for event in events], dtype=np.float64)
    stamped = np.abs(ts_us) < _LATEST_US
    lasting = np.abs(dur_us) < _LONGEST_US
    forward = dur_us >= 0
    kept = stamped & lasting & forward
    if not kept.all():
        events, ts_us, dur_us = list(compress(events, kept)), ts_us[kept], dur_us[kept]
    start_ns = _nanoseconds(ts_us) + zero_ns
    spans = Spans(
        names=categorical(event.name for event in events),
        threads=np.array([threads[event.tid] for event in events], dtype=np.int64),
        start_ns=start_ns,
        end_ns=start_ns + _nanoseconds(dur_us),
    )
    reasons = {
        "without a time stamp": ~stamped,
        "without a duration": stamped & ~lasting,
        "with a negative duration": stamped & lasting & ~forward,
    }
    return spans, {reason: int(lost.sum()) for reason, lost in reasons.items() if lost.any()}


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
