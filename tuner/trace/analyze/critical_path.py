"""The critical path of a trace as a table: which part of which call the driver waited for.

The shares are of the time of the driver's steps and add up to 1. The steps of a workload all do
the same, so those that took twice as long as the fast ones were disturbed, and are left out. Of
what a served function did itself, on the path, the parts follow from its CPU and run queue times.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from tuner.torch_private.private_names import BACKWARD
from tuner.trace.analyze.path_walk import CALLER, SERVED, WALKED, Driver, find_driver, walk
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.analyze.time_spans import Spans, floats, group_codes, summed, united
from tuner.trace.model.trace import BoolArray, FloatArray, IntArray, Trace

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
PathPart = Literal[
    "caller", "backward", "issue", "to_server", "queue", "dispatch", "on_cpu", "run_queue",
    "off_cpu", "served", "pending", "answer", "to_client", "unseen",
]  # fmt: skip
PARTS: dict[PathPart, str] = {
    "caller": "the driver's own time, between its calls",
    "backward": "is in dist_autograd.backward; what the ranks send meanwhile is not recorded",
    "issue": "a call is pickled and sent",
    "to_server": "the way to the server",
    "queue": "waits for a thread of the server",
    "dispatch": "waits to be run though a thread is free: for the GIL, or to be woken",
    "on_cpu": "runs on the CPU",
    "run_queue": "is ready to run, but no CPU is free",
    "off_cpu": "sleeps, or waits for I/O, a lock, the GIL, or a call that is not recorded",
    "served": "runs; whether on the CPU is not known",
    "pending": "has returned, but its result is not complete",
    "answer": "its thread pickles the answer, or the exception",
    "to_client": "the way back",
    "unseen": "is under way, but the trace does not show how it was served",
}
"""The parts of the path, and what each means; also their order."""
PATH_COLUMNS = {
    "part": "str",  # PathPart
    "process": "str",  # the server; for `caller`, `backward` and `issue` the one that calls
    "function": "str",  # empty for `caller` and `backward`
    "share": "float64",
    "ci_low": "float64",
    "ci_high": "float64",
}


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
    """Which steps were not disturbed: of a program, whose steps need not do the same, all."""
    usual: BoolArray = total_ns <= USUAL * np.quantile(total_ns, FAST)
    if trace.steps != len(total_ns) or usual.sum() < LEAST_STEPS:
        return np.ones(len(total_ns), bool)
    return usual


def time_by_step(
    edges: IntArray, start: IntArray, end: IntArray, row: IntArray, weight: FloatArray, rows: int
) -> FloatArray:
    """The spans' weighted time in each step and row: an array (steps, rows), in nanoseconds."""
    steps = len(edges) - 1
    span, start, end, gap = _cut(edges, start, end)
    time = summed((gap - 1) * rows + row[span], (end - start) * weight[span], steps * rows)
    return time.reshape(steps, rows)


def share_of(time: FloatArray, total: FloatArray) -> Share:
    """The share of `time` in `total`, both by step and both varying, with Student's interval."""
    steps, whole = len(total), float(total.sum())
    share = float(time.sum()) / whole
    if steps < 2:
        return Share(share, float("nan"), float("nan"))
    residual = time - share * total
    error = float(np.sqrt(steps / (steps - 1) * (residual**2).sum())) / whole
    reach = float(stdtrit(steps - 1, (1 + CONFIDENCE) / 2)) * error
    return Share(share, max(share - reach, 0.0), min(share + reach, 1.0))


@dataclass(frozen=True)
class CriticalPath:
    """The time on the critical path, step by step."""

    driver: Driver
    rows: pd.DataFrame
    """part, process and function, one row per column of `time_ns`."""
    time_ns: FloatArray
    """(steps, rows); without the steps that were disturbed."""
    disturbed_ns: FloatArray
    """The same of the steps that were."""

    @property
    def length_s(self) -> float:
        """How long all steps took."""
        return float(self.time_ns.sum() + self.disturbed_ns.sum()) / 1e9

    @property
    def total_ns(self) -> FloatArray:
        """The duration of each step."""
        total: FloatArray = self.time_ns.sum(axis=1)
        return total


def find_critical_path(trace: Trace) -> CriticalPath | None:
    """The critical path of the driver's steps; None if no process waited for a call."""
    driver = find_driver(trace)
    if driver is None:
        return None
    edges = step_edges(trace, driver)
    if len(edges) < 2:
        return None
    path = _with_backward(trace, driver, walk(trace, driver, int(edges[0]), int(edges[-1])))
    (start, end, part, call), weight = _with_cpu(trace, path)
    row, rows = _rows(trace, driver, part, call)
    time_ns = time_by_step(edges, start, end, row, weight, len(rows))
    usual = is_usual(trace, time_ns.sum(axis=1))
    return CriticalPath(driver, rows, time_ns[usual], time_ns[~usual])


def critical_path(trace: Trace) -> pd.DataFrame:
    """The critical path: what the driver waited for, and what that waited for in turn.

    The driver is rank 0 of a workload, else the process that waits for calls the longest.

    Args:
        trace: Any trace.

    Returns:
        PATH_COLUMNS, one row per part of a call (`PARTS`), process and function, the largest share
        first, but `unseen` last. `share` is of the time of all steps, but for those of a workload
        that took twice as long as its fast ones; the shares add up to 1. `ci_low` and `ci_high` are
        its 95 % confidence interval over the steps of this trace; NaN for `unseen`, which may be
        anything. No row without calls.
    """
    path = find_critical_path(trace)
    if path is None:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PATH_COLUMNS.items()})
    shares = np.array([share_of(column, path.total_ns) for column in path.time_ns.T])
    table = path.rows.assign(**dict(zip(["share", "ci_low", "ci_high"], shares.T, strict=True)))
    is_unseen = table["part"] == "unseen"
    table.loc[is_unseen, ["ci_low", "ci_high"]] = np.nan
    order = np.lexsort((-table["share"], is_unseen))
    return table.iloc[order].query("share > 0").reset_index(drop=True)


def _with_backward(trace: Trace, driver: Driver, path: IntArray) -> IntArray:
    """The path, with the driver's own time in backward passes of distributed autograd apart.

    It has the number after those of WALKED.
    """
    operators = trace.operators
    passes = operators[(operators["name"] == BACKWARD) & (operators["rank"] == driver.rank)]
    if passes.empty:
        return path
    inside = united(Spans.of(passes))
    is_own = path[:, 2] == CALLER
    # Each piece is cut at the edges that lie in it.
    piece, start, end, _ = _cut(
        np.sort(np.concatenate([inside.start, inside.end])), *path[is_own, :2].T
    )
    pieces = path[is_own][piece]
    pieces[:, 0], pieces[:, 1] = start, end
    begun = np.searchsorted(inside.start, start, side="right")
    is_inside = begun > np.searchsorted(inside.end, start, side="right")
    pieces[is_inside, 2] = len(WALKED)
    return np.concatenate([path[~is_own], pieces])


def _cut(
    edges: IntArray, start: IntArray, end: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Spans cut at the edges in them: which span each piece is of, its start, its end, and its gap.

    Gap number n lies before edge n.
    """
    first = np.searchsorted(edges, start, side="right")
    count = np.searchsorted(edges, end, side="left") - first + 1
    span = np.repeat(np.arange(len(start)), count)
    gap = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    edges = np.concatenate([start[:1], edges, end[:1]])
    is_first, is_last = gap == first[span], gap == (first + count - 1)[span]
    start = np.where(is_first, start[span], edges[gap])
    return span, start, np.where(is_last, end[span], edges[gap + 1]), gap


def _with_cpu(trace: Trace, path: IntArray) -> tuple[IntArray, FloatArray]:
    """Start, end, part and call of all pieces, and their weights; `served` split by CPU and wait.

    A thread cannot compute while it waits for a call of its own: the times that the server measured
    are those of what the path does not put down to such calls.
    """
    names: list[str] = list(PARTS)
    numbers = np.array([names.index(name) for name in (*WALKED, "backward")])
    start, end, part, call = path.T
    is_served = part == SERVED
    shares = _cpu_shares(trace, start, end, call, is_served)
    is_split = is_served & ~np.isnan(shares[0][call])
    plain, split = np.flatnonzero(~is_split), np.flatnonzero(is_split)
    order = np.concatenate([plain, *([split] * 3)])
    parts = [np.full(len(split), names.index(name)) for name in ("on_cpu", "run_queue", "off_cpu")]
    weight = np.concatenate([np.ones(len(plain)), *(each[call[split]] for each in shares)])
    pieces = path.T[:, order]
    pieces[2] = np.concatenate([numbers[part[plain]], *parts])
    return pieces, weight


def _cpu_shares(
    trace: Trace, start: IntArray, end: IntArray, call: IntArray, is_own: IntArray
) -> list[FloatArray]:
    """Of each call's own time: on the CPU, in the run queue, off the CPU; NaN if not measured.

    If the path has a piece of a call only, its CPU time is taken to be spread evenly.
    """
    calls = trace.calls
    on_cpu, run_queue = floats(calls, "cpu_ns"), floats(calls, "run_queue_ns")
    wall = floats(calls, "server_end_ns") - floats(calls, "server_start_ns")
    first, last = np.full(len(calls), np.inf), np.full(len(calls), -np.inf)
    np.minimum.at(first, call[is_own], start[is_own])
    np.maximum.at(last, call[is_own], end[is_own])
    own = summed(call[is_own], (end - start)[is_own], len(calls))
    with np.errstate(invalid="ignore", divide="ignore"):
        piece = np.minimum((last - first) / wall, 1.0)
        on_cpu = np.minimum(on_cpu * piece, own)
        run_queue = np.minimum(np.nan_to_num(run_queue) * piece, own - on_cpu)
        return [part / own for part in (on_cpu, run_queue, own - on_cpu - run_queue)]


def _rows(
    trace: Trace, driver: Driver, part: IntArray, call: IntArray
) -> tuple[IntArray, pd.DataFrame]:
    """The row of each segment; and the rows: part, process and function."""
    calls, names = trace.calls, list(PARTS)
    is_caller = np.isin(part, [names.index("caller"), names.index("backward")])
    is_issue = part == names.index("issue")
    # Names as text: a category's codes of two columns differ.
    client, server, function = (
        calls[name].astype("str").to_numpy()[call] for name in ("client", "server", "function")
    )
    process = np.where(is_caller, trace.process(driver.rank).name, server)
    process = np.where(is_issue, client, process)
    function = np.where(is_caller, "", function)
    keys = [part, pd.factorize(process)[0], pd.factorize(function)[0]]
    _, first, row = np.unique(group_codes(keys), return_index=True, return_inverse=True)
    rows = {
        "part": [names[each] for each in part[first]],
        "process": process[first],
        "function": function[first],
    }
    return row, pd.DataFrame(rows).astype("str")
