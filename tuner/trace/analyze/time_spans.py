"""Arithmetic on spans of time, in groups such as those of a thread, a call or a server."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.model.trace import BoolArray, FloatArray, IntArray


class Spans(NamedTuple):
    """Half-open spans `[start, end)` in whole nanoseconds; `group` numbers the group of each."""

    group: IntArray
    start: IntArray
    end: IntArray

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Spans":
        """One group: `start_ns` to `end_ns` of each row."""
        start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy(np.int64)
        return cls(np.zeros(len(frame), np.int64), start, end)

    def take(self, where: BoolArray | NDArray[np.intp]) -> "Spans":
        """The spans that a mask, or an array of positions, selects."""
        return Spans(self.group[where], self.start[where], self.end[where])

    def total_ns(self) -> float:
        """How long all of them last together."""
        return float((self.end - self.start).sum())

    def by_group_ns(self, count: int = 0) -> FloatArray:
        """The same of each group, for the groups from 0 to the highest, or `count - 1`."""
        return summed(self.group, self.end - self.start, count)


class Steps(NamedTuple):
    """How many spans are open over time: `level[i]` of them from `time[i]` to `time[i + 1]`."""

    time: IntArray
    level: IntArray

    def time_at_level(self) -> FloatArray:
        """Nanoseconds at each level, from 0 to the highest."""
        return summed(self.level[:-1], np.diff(self.time), 1)

    def level_at(self, time: IntArray) -> IntArray:
        """The level right after each time."""
        levels = np.concatenate((np.zeros(1, np.int64), self.level))
        return levels[np.searchsorted(self.time, time, side="right")]

    def mean_level(self, start: IntArray, end: IntArray) -> FloatArray:
        """The time-weighted mean level over each span; NaN for a span without length."""
        if not len(self.time):
            return np.zeros(len(start))
        area = np.concatenate(([0.0], np.cumsum(self.level[:-1] * np.diff(self.time))))
        inside = np.interp(end, self.time, area) - np.interp(start, self.time, area)
        return np.divide(inside, np.where(end > start, end - start, np.nan))

    def share_from(self, level: int, start: IntArray, end: IntArray) -> FloatArray:
        """Of each span, the share in which the level was at least this one; NaN as above."""
        return Steps(self.time, (self.level >= level).astype(np.int64)).mean_level(start, end)


def floats(frame: pd.DataFrame, column: str) -> FloatArray:
    """A column; NaN for null. Exact for the 104 days of nanoseconds that a float's 53 bits hold."""
    return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def group_codes(keys: Sequence[IntArray]) -> IntArray:
    """One number per distinct combination of the keys, in the order of the combinations."""
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        code, distinct = pd.factorize(key, sort=True)
        codes = codes * len(distinct) + code
    return codes


def summed(code: IntArray, values: IntArray | FloatArray, count: int = 0) -> FloatArray:
    """The sum of the values of each code, for the codes from 0 to the highest, or `count - 1`."""
    return np.bincount(code, weights=values, minlength=count).astype(np.float64)


def united(spans: Spans) -> Spans:
    """Each group's spans merged where they overlap or touch; by group and start."""
    if not len(spans.start):
        return spans
    spans = spans.take(_outer_first(spans))
    if spans.group[0] == spans.group[-1]:  # there is one group, as there often is
        reach = np.maximum.accumulate(spans.end)
    else:
        reach = pd.Series(spans.end).groupby(spans.group).cummax().to_numpy()
    opens = np.ones(len(reach), bool)
    opens[1:] = (spans.group[1:] != spans.group[:-1]) | (spans.start[1:] > reach[:-1])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(reach)) - 1
    return Spans(spans.group[first], spans.start[first], reach[last])


def parents(spans: Spans) -> IntArray:
    """For each span, the position of the span of its group that directly contains it; -1 for none.

    Of equal spans, the first contains the others. The spans of a group should nest; if two cross,
    the parent is at least open at its child's start.
    """
    order = _outer_first(spans)
    depth = _depths(spans.take(order))
    count = len(depth)
    # The parent is the nearest span before it in this order that is one level further out: by
    # level and place, the last key below (level - 1, own place).
    by_level = np.argsort(depth, kind="stable")
    keys = depth[by_level] * count + by_level
    inner = by_level[depth[by_level] > 0]
    above = np.searchsorted(keys, (depth[inner] - 1) * count + inner) - 1
    found = np.full(count, -1, np.int64)
    found[order[inner]] = order[by_level[above]]
    # Where spans cross, the nearest one a level further out may have ended.
    found[(found >= 0) & (spans.end[found] <= spans.start) & (spans.end > spans.start)] = -1
    return found


def open_over_time(start: IntArray, end: IntArray) -> Steps:
    """How many of the spans are open over time. A span is closed at its end."""
    lasting = end > start
    starts, ends = np.sort(start[lasting]), np.sort(end[lasting])
    time = np.concatenate((ends, starts))
    # A stable sort merges the two sorted runs, with ends before starts of the same time.
    order = np.argsort(time, kind="stable")
    return Steps(time[order], np.cumsum(np.where(order < len(ends), -1, 1)))


def _outer_first(spans: Spans) -> NDArray[np.intp]:
    """The order by group, then start, then the longer first; cheap for spans in that order."""
    group, start, end = (np.diff(values) for values in spans)
    follows = (group > 0) | ((group == 0) & ((start > 0) | ((start == 0) & (end <= 0))))
    if follows.all():
        return np.arange(len(spans.start))
    return np.lexsort((-spans.end, spans.start, spans.group))


def _depths(spans: Spans) -> IntArray:
    """How many spans of its group are open where each begins; spans are sorted outer first."""
    # A span of length zero must still be open at its own start.
    end = np.maximum(spans.end, spans.start + 1)
    depth = np.empty(len(end), np.int64)
    bounds = np.flatnonzero(np.diff(spans.group, prepend=-1, append=-1))
    for low, high in pairwise(bounds):
        closed = np.searchsorted(np.sort(end[low:high]), spans.start[low:high], side="right")
        depth[low:high] = np.arange(high - low) - closed
    return depth
