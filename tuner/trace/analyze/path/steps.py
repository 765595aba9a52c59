"""The driver's steps on the time line, and what they say about a share."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from tuner.trace.analyze.intervals import FloatArray, IntArray, summed
from tuner.trace.analyze.parallelism import window
from tuner.trace.analyze.path.frames import BoolArray, Driver
from tuner.trace.model.trace import Trace

CONFIDENCE = 0.95
MOST_STEPS = 100
"""More steps are taken together in turn: then neighbours, which resemble each other, count once."""
LEAST_STEPS = 5
"""Fewer steps say little of the next one: of two, Student's interval is 13 times their error. The
time is then cut into SLICES."""
USUAL = 2.0
"""A step that takes this many times as long as the fast ones do was disturbed."""
FAST = 0.1
"""The quantile of the steps' durations that the fast ones have."""
SLICES = 20
"""Equal parts of the time, where there are fewer steps than LEAST_STEPS."""
WIDE = 0.5
SURE = 0.1
"""A share whose interval is wider than WIDE, and begins below SURE, is not known."""


class Share(NamedTuple):
    """A share of the time of all steps, with its confidence interval; NaN for too few steps."""

    share: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether the interval says anything."""
        return self.low >= SURE or self.high - self.low <= WIDE


def step_edges(trace: Trace, driver: Driver) -> IntArray:
    """When each step begins, and when the last one ends; nanoseconds.

    A step begins with a call that is issued while no other one is under way. Where a workload's
    steps have several such beginnings, an equal number belongs to each.
    """
    start = driver.calls["start_ns"].to_numpy()
    reach = np.maximum.accumulate(driver.calls["end_ns"].to_numpy(np.int64))
    begins = start[np.append(True, start[1:] >= reach[:-1])]
    opened, closed = int(start[0]), int(reach[-1])
    if trace.steps is not None:
        opened, closed = window(trace)
        if trace.steps and len(begins) % trace.steps == 0:
            begins = begins[:: len(begins) // trace.steps]
    edges = np.unique(np.concatenate(([opened], begins[1:], [closed])))
    steps = len(edges) - 1
    if steps < LEAST_STEPS:
        return np.unique(np.linspace(opened, closed, SLICES + 1).astype(np.int64))
    if steps > MOST_STEPS:
        return edges[np.linspace(0, steps, MOST_STEPS + 1).astype(np.int64)]
    return edges


def is_usual(trace: Trace, total_ns: FloatArray) -> BoolArray:
    """Which steps were not disturbed, by their durations.

    The steps of a workload all do the same. Those of a program need not: they are all usual.
    """
    usual: BoolArray = total_ns <= USUAL * np.quantile(total_ns, FAST)
    if trace.steps != len(total_ns) or usual.sum() < LEAST_STEPS:
        return np.ones(len(total_ns), bool)
    return usual


def time_by_step(
    edges: IntArray, start: IntArray, end: IntArray, row: IntArray, weight: FloatArray, rows: int
) -> FloatArray:
    """The spans' weighted time in each step and row: an array (steps, rows), in nanoseconds."""
    steps = len(edges) - 1
    first = np.searchsorted(edges, start, side="right") - 1
    last = np.searchsorted(edges, end, side="left") - 1
    count = last - first + 1
    span = np.repeat(np.arange(len(start)), count)
    step = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    inside = np.minimum(end[span], edges[step + 1]) - np.maximum(start[span], edges[step])
    time = summed(step * rows + row[span], inside * weight[span], steps * rows)
    return time.reshape(steps, rows)


def share_of(time: FloatArray, total: FloatArray) -> Share:
    """The share that `time`, of each step, has in `total`, with an interval by Student's t.

    It is a ratio of two sums, both of which vary from step to step.
    """
    steps, whole = len(total), float(total.sum())
    share = float(time.sum()) / whole
    if steps < 2:
        return Share(share, float("nan"), float("nan"))
    residual = time - share * total
    error = float(np.sqrt(steps / (steps - 1) * (residual**2).sum())) / whole
    reach = float(stdtrit(steps - 1, (1 + CONFIDENCE) / 2)) * error
    return Share(share, max(share - reach, 0.0), min(share + reach, 1.0))
