"""The critical path of a trace as a table: which part of which call the driver waited for.

The shares are of the time of the driver's steps and add up to 1. The steps of a workload all do
the same, so those that took twice as long as the fast ones were disturbed, and are left out. Of
what a served function did itself, on the path, the parts follow from its CPU and run queue times.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from tuner.torch_private.private_names import BACKWARD
from tuner.trace.analyze.path_frames import BoolArray, Driver, find_driver, make_frames
from tuner.trace.analyze.path_walk import Part, walk
from tuner.trace.analyze.server_parallelism import server_name, window
from tuner.trace.analyze.time_spans import (
    FloatArray,
    IntArray,
    Spans,
    group_codes,
    summed,
    united,
)
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
PathPart = Literal[
    "caller",
    "backward",
    "issue",
    "to_server",
    "queue",
    "dispatch",
    "on_cpu",
    "run_queue",
    "off_cpu",
    "served",
    "pending",
    "answer",
    "to_client",
    "unseen",
]
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


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """The time on the critical path, step by step."""

    driver: Driver
    rows: pd.DataFrame
    """part, process and function, one row per column of `time_ns`."""
    time_ns: FloatArray
    """(steps, rows); without the steps that were disturbed, see `is_usual`."""
    disturbed_ns: FloatArray
    """The same of the steps that were."""

    @property
    def total_ns(self) -> FloatArray:
        """The duration of each step."""
        total: FloatArray = self.time_ns.sum(axis=1)
        return total

    def share(self, rows: pd.Series) -> Share:
        """The share of some rows together; `rows` is a mask."""
        return share_of(self.time_ns[:, rows.to_numpy(bool)].sum(axis=1), self.total_ns)

    def table(self) -> pd.DataFrame:
        """The table of `critical_path`."""
        total = self.total_ns
        shares = [share_of(column, total) for column in self.time_ns.T]
        table = self.rows.assign(
            share=[each.share for each in shares],
            ci_low=[each.low for each in shares],
            ci_high=[each.high for each in shares],
        )
        is_unseen = table["part"] == "unseen"
        table.loc[is_unseen, ["ci_low", "ci_high"]] = np.nan
        table = table.assign(is_unseen=is_unseen)[table["share"] > 0].sort_values(
            ["is_unseen", "share"], ascending=[True, False], kind="stable", ignore_index=True
        )
        return table.drop(columns="is_unseen")


def find_critical_path(trace: Trace) -> CriticalPath | None:
    """The critical path of the driver's steps; None if no process waited for a call."""
    driver = find_driver(trace)
    if driver is None:
        return None
    edges = step_edges(trace, driver)
    if len(edges) < 2:
        return None
    frames = make_frames(trace, driver, int(edges[-1]))
    path = _with_backward(trace, driver, walk(frames, int(edges[0]), int(edges[-1])))
    start, end, part, call, weight = _with_cpu(trace, path)
    row, rows = _rows(trace, driver, part, call)
    time_ns = time_by_step(edges, start, end, row, weight, len(rows))
    usual = is_usual(trace, time_ns.sum(axis=1))
    return CriticalPath(
        driver=driver, rows=rows, time_ns=time_ns[usual], disturbed_ns=time_ns[~usual]
    )


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
    found = find_critical_path(trace)
    if found is None:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PATH_COLUMNS.items()})
    return found.table()


def _with_backward(trace: Trace, driver: Driver, path: IntArray) -> IntArray:
    """The path, with the driver's own time in backward passes of distributed autograd apart."""
    operators = trace.operators
    passes = operators[(operators["name"] == BACKWARD) & (operators["rank"] == driver.rank)]
    if passes.empty:
        return path
    starts, ends = passes["start_ns"].to_numpy(), passes["end_ns"].to_numpy()
    inside = united(Spans(np.zeros(len(passes), np.int64), starts, ends))
    edges = np.sort(np.concatenate([inside.start, inside.end]))
    is_own = path[:, 2] == Part.CALLER
    own, others = path[is_own], path[~is_own]
    # Each piece is cut at the edges that lie in it.
    low = np.searchsorted(edges, own[:, 0], side="right")
    number = np.searchsorted(edges, own[:, 1], side="left") - low + 1
    pieces = np.repeat(own, number, axis=0)
    place = np.arange(len(pieces)) - np.repeat(np.cumsum(number) - number, number)
    edge = np.append(edges, 0)[np.repeat(low, number) + place]
    is_last = place == np.repeat(number, number) - 1
    pieces[:, 1] = np.where(is_last, pieces[:, 1], edge)
    pieces[1:, 0] = np.where(place[1:] > 0, pieces[:-1, 1], pieces[1:, 0])
    begun = np.searchsorted(inside.start, pieces[:, 0], side="right")
    is_inside = begun > np.searchsorted(inside.end, pieces[:, 0], side="right")
    pieces[is_inside, 2] = Part.BACKWARD
    return np.concatenate([others, pieces])


def _with_cpu(
    trace: Trace, path: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """The path as arrays: start, end, part, call, weight; `served` split by what the CPU did.

    A thread cannot compute while it waits for a call of its own: the times that the server measured
    are those of what the path does not put down to such calls.
    """
    names = list(PARTS)
    numbers = np.array([names.index(cast(PathPart, each.name.lower())) for each in Part])
    start, end, part, call = path.T
    is_served = part == Part.SERVED
    shares = _cpu_shares(trace, start, end, call, is_served)
    is_split = is_served & ~np.isnan(shares[0][call])
    plain, split = np.flatnonzero(~is_split), np.flatnonzero(is_split)
    order = np.concatenate([plain, *([split] * 3)])
    parts = [np.full(len(split), names.index(name)) for name in ("on_cpu", "run_queue", "off_cpu")]
    weight = np.concatenate([np.ones(len(plain)), *(each[call[split]] for each in shares)])
    return (
        start[order],
        end[order],
        np.concatenate([numbers[part[plain]], *parts]),
        call[order],
        weight,
    )


def _cpu_shares(
    trace: Trace, start: IntArray, end: IntArray, call: IntArray, is_own: IntArray
) -> list[FloatArray]:
    """Of each call's own time: on the CPU, in the run queue, off the CPU; NaN if not measured.

    If the path has a piece of a call only, its CPU time is taken to be spread evenly.
    """
    calls = trace.calls
    on_cpu, run_queue, served, left = (
        calls[name].to_numpy(np.float64, na_value=np.nan)
        for name in ("cpu_ns", "run_queue_ns", "server_start_ns", "server_end_ns")
    )
    first, last = np.full(len(calls), np.inf), np.full(len(calls), -np.inf)
    np.minimum.at(first, call[is_own], start[is_own])
    np.maximum.at(last, call[is_own], end[is_own])
    own = summed(call[is_own], (end - start)[is_own], len(calls))
    with np.errstate(invalid="ignore", divide="ignore"):
        piece = np.minimum((last - first) / (left - served), 1.0)
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
    process = np.where(is_caller, server_name(trace, driver.rank), server)
    process = np.where(is_issue, client, process)
    function = np.where(is_caller, "", function)
    process_code, processes = pd.factorize(process)
    function_code, functions = pd.factorize(function)
    row = group_codes((part, process_code, function_code))
    first = np.unique(row, return_index=True)[1]
    rows = {
        "part": [names[each] for each in part[first]],
        "process": processes[process_code[first]],
        "function": functions[function_code[first]],
    }
    return np.unique(row, return_inverse=True)[1], pd.DataFrame(rows).astype("str")
