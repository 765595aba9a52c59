"""What the driver's thread does between its calls while it is off the CPU: sleeps, by samples.

A sleep may be spared; not where a call is under way, which it may wait for, until that has ended;
nor surely in a loop that goes on until something happens, as one does that polls.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tuner.text import whole_percent
from tuner.trace.analyze.call_times import BLOCKING
from tuner.trace.analyze.path_walk import Driver, find_driver
from tuner.trace.analyze.server_parallelism import window, window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.spans import Pause
from tuner.trace.model.trace import FloatArray, Trace

FEW = 5  # samples, which show nothing
HELD_NS = 3_000_000  # who waits longer for the GIL does not just wake late
SMALL = 0.05  # a share of the time between two calls that may be chance
MUCH = 0.2  # a share of the time that is worth a sentence
SLEEP = "sleep"
_DOES = {
    SLEEP: "sleeps",
    "lock": "waits for a lock, or another thread",
    "io": "waits for I/O, or for a time",
    "process": "waits for another process",
}


class Paused(NamedTuple):
    """A span of the driver's own time, of which it spends a part off the CPU for one reason."""

    start_ns: float
    end_ns: float
    why: str
    site: str
    took_ns: float  # that part
    least_ns: float  # so much of it could be spared at least, most likely, and at most
    spared_ns: float
    most_ns: float


_ALONE, _THROUGHOUT, _UNTIL, _AFTER = range(4)
"""Whether calls are under way between two of the driver's: none, some all the time, some until the
end of a part of it; and the part after that."""
_Key = tuple[str, str, int]


class _Gap(NamedTuple):
    start: float
    end: float
    key: _Key  # the sites of the calls around it, and which of these it is

    @property
    def ns(self) -> float:
        return self.end - self.start


def pauses(trace: Trace, driver: Driver | None = None) -> list[Paused]:
    """All of them, in order; none where nobody took samples."""
    driver = driver or find_driver(trace)
    process = None if driver is None else trace.process(driver.rank)
    if driver is None or process is None or not process.pauses:
        return []
    own = [pause for pause in process.pauses if pause.thread == driver.thread]
    looks = np.sort([w.asked_ns for w in process.gil if not 0 < w.waited_ns < HELD_NS])
    under_way = _UnderWay(trace, driver)
    gaps = _gaps(trace, driver, under_way)
    number, seen = _counts(gaps, looks, own)
    of_key = defaultdict[_Key, int](int)
    of_label = defaultdict[tuple[_Key, Pause], int](int)
    for gap, count, labels in zip(gaps, number, seen, strict=True):
        of_key[gap.key] += count
        for label, times in labels.items():
            of_label[gap.key, label] += times
    by_key = defaultdict[_Key, list[Pause]](list)
    for key, label in of_label:
        by_key[key].append(label)
    found, room = list[Paused](), 0.0
    for gap, count, labels in [*zip(gaps, number, seen, strict=True)][::-1]:
        if gap.key[-1] != _UNTIL or under_way.is_others_too:
            room = gap.ns
        # Else the driver waits for a call: it gains no more than what is left of the part after it.
        for label in by_key[gap.key]:
            n, m = count, labels.get(label, 0)
            if n < FEW:
                n, m = of_key[gap.key], of_label[gap.key, label]
            if n >= FEW and m >= SMALL * n:
                is_sure = _is_sure(gap, label) and not under_way.is_others_too
                found.append(_paused(gap, label, min(m / n, 1.0), n, room, is_sure=is_sure))
                room -= found[-1].most_ns
    return found[::-1]


def _is_sure(gap: _Gap, label: Pause) -> bool:
    """Whether the driver waits for nothing there, as far as its own calls go."""
    part = gap.key[-1]
    return part == _AFTER or (part == _ALONE and not label.is_open)


def _paused(
    gap: _Gap, label: Pause, share: float, number: int, room: float, *, is_sure: bool
) -> Paused:
    took = share * gap.ns
    error = 2 * math.sqrt(share * (1 - share) / number) * gap.ns
    spared = most = 0.0
    if label.why == SLEEP:
        most = min(took, room)
        spared = most if is_sure else 0.0
    elif gap.key[-1] in (_THROUGHOUT, _UNTIL):
        took = 0.0  # it waits for a call, in whatever way
    least = min(spared, max(took - error, 0.0))
    return Paused(gap.start, gap.end, label.why, label.site, took, least, spared, most)


def _gaps(trace: Trace, driver: Driver, under_way: "_UnderWay") -> list[_Gap]:
    """The time in which the driver's thread is in no call, apart where calls are under way."""
    calls = trace.calls
    mine = calls[
        (calls["client_rank"] == driver.rank) & (calls["client_thread"] == driver.thread)
        & calls["parent_call"].isna()
    ]  # fmt: skip
    opened, closed = window(trace)
    start = floats(mine, "start_ns")
    left = np.where(mine["kind"].isin(BLOCKING), floats(mine, "end_ns"), floats(mine, "issued_ns"))
    left = np.fmax(np.where(np.isnan(left), closed if len(left) else 0.0, left), start)
    sites = ["", *mine["site"].astype(str), ""]
    begins = [float(opened), *np.maximum.accumulate(left).tolist()]
    ends = [*start.tolist(), float(closed)]
    found = []
    for begin, end, around in zip(begins, ends, itertools.pairwise(sites), strict=True):
        if end <= begin:
            continue
        free = under_way.free_after(begin, end)
        if free is not None and free < end:
            found.append(_Gap(begin, free, (*around, _UNTIL)))
            found.append(_Gap(free, end, (*around, _AFTER)))
        else:
            found.append(_Gap(begin, end, (*around, _ALONE if free is None else _THROUGHOUT)))
    return found


def _counts(
    gaps: Sequence[_Gap], looks: FloatArray, own: Sequence[Pause]
) -> tuple[list[int], list[dict[Pause, int]]]:
    """Of each gap: how many samples there were, and of what; a label has no time."""
    starts, ends = (np.array([gap[at] for gap in gaps]) for at in (0, 1))
    number = np.searchsorted(looks, ends) - np.searchsorted(looks, starts)
    seen: list[dict[Pause, int]] = [{} for _ in gaps]
    place = np.searchsorted(starts, [pause.at_ns for pause in own], "right") - 1
    for at, pause in zip(place.tolist(), own, strict=True):
        if at >= 0 and pause.at_ns < ends[at]:
            label = pause._replace(at_ns=0)
            seen[at][label] = seen[at].get(label, 0) + 1
    return number.tolist(), seen


class _UnderWay:
    """The calls that the driver may wait for while it sleeps."""

    def __init__(self, trace: Trace, driver: Driver) -> None:
        calls = trace.calls
        self.start = floats(calls, "start_ns")  # in order
        ends = np.nan_to_num(floats(calls, "end_ns"), nan=np.inf)
        self.last = np.maximum.accumulate(ends)  # of all that have begun by then
        alone = (calls["client_rank"] == driver.rank) & (calls["client_thread"] == driver.thread)
        self.is_others_too = bool((calls["parent_call"].isna() & ~alone).any())
        """Whether other threads of the program make calls, of which it may wait for anything."""

    def free_after(self, begin: float, end: float) -> float | None:
        """When all calls that are under way then have ended, or `end`; None: there are none."""
        place = int(np.searchsorted(self.start, begin, "right")) - 1
        last = float(self.last[place]) if place >= 0 else -math.inf
        return min(last, end) if last > begin else None


class Told(NamedTuple):
    """What the driver does off the CPU for the most time, in words, and the share of the time."""

    text: str = ""
    share: float = 0.0

    @property
    def said(self) -> tuple[str, ...]:
        """It as a sentence, if that is much of the time."""
        return (f"{self.text}.",) if self.share >= MUCH else ()


def told(
    trace: Trace, driver: Driver | None, found: Sequence[Paused], *, in_its_calls: bool = False
) -> Told:
    """What a driver does, by its pauses, or does between its first call and the end of its last."""
    if driver is None:
        return Told()
    whole_ns = window_length_ns(trace)
    if in_its_calls:
        first, last = driver.calls["start_ns"].min(), driver.calls["end_ns"].max()
        found = [gap for gap in found if first <= gap.start_ns and gap.end_ns <= last]
    took = defaultdict[str, dict[str, float]](dict)
    for gap in found:
        took[gap.why][gap.site] = took[gap.why].get(gap.site, 0.0) + gap.took_ns
    if not took or whole_ns <= 0:
        return Told()
    why = max(took, key=lambda reason: sum(took[reason].values()))
    site = max(took[why], key=took[why].__getitem__)
    share, here = (min(ns / whole_ns, 1.0) for ns in (sum(took[why].values()), took[why][site]))
    part = f"{whole_percent(here)} " if len(took[why]) > 1 else ""
    where = f", {part}at {site}" if site else ""
    name, does = trace.process(driver.rank).name, _DOES.get(why, "waits")
    return Told(f"{name} {does} for {whole_percent(share)} of the time{where}", share)
