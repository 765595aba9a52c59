"""The critical path of a trace as a table: which part of which call the driver waited for.

The shares are of the time of the driver's steps. The steps of a workload all do the same, so those
that took twice as long as the fast ones were disturbed, and are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from tuner.text import whole_percent
from tuner.torch_private.private_names import BACKWARD
from tuner.trace.analyze import path_walk
from tuner.trace.analyze.callbacks import with_callbacks
from tuner.trace.analyze.gil_on_path import with_gil
from tuner.trace.analyze.gil_use import Serving
from tuner.trace.analyze.path_walk import PARTS, SERVED, Driver, find_driver, walk
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.analyze.time_spans import Spans, floats, group_codes, summed, united
from tuner.trace.model.trace import FloatArray, IntArray, Trace

CONFIDENCE = 0.95
MOST_STEPS = 100
"""More steps are taken together in turn: then neighbours, which resemble each other, count once."""
LEAST_STEPS = 5
"""Fewer steps say little of the next one: then the time is cut into SLICES."""
USUAL = 2.0  # a step that takes this many times as long as the fast ones do was disturbed
FAST = 0.1  # the quantile of the steps' durations that the fast ones have
SLICES = 20
WIDE, SURE = 0.5, 0.1  # a share whose interval is wider, and begins below SURE, is not known
PATH_COLUMNS = {
    "part": "str",  # one of PARTS
    "process": "str",  # the server; the one that calls for `caller`, `backward`, `issue` and
    # `answer_queue`; for a callback that which runs it
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

    @property
    def text(self) -> str:
        """`74 % (71-77 %)`; `74 %` where the interval is no wider than that."""
        middle, low, high = map(whole_percent, self)
        is_narrow = low == middle == high
        return middle if is_narrow else f"{middle} ({low.removesuffix(' %')}-{high})"


def step_edges(trace: Trace, driver: Driver) -> IntArray:
    """When each step begins, with a call while no other is under way; and when the last ends."""
    start = driver.calls["start_ns"].to_numpy()
    reach = np.maximum.accumulate(driver.calls["end_ns"].to_numpy(np.int64))
    begins = start[np.append(True, start[1:] >= reach[:-1])]
    opened, closed = int(start[0]), int(reach[-1])
    if trace.steps is not None:
        opened, closed = window(trace)
        # A workload's steps may have several such beginnings: then as many each.
        if trace.steps and len(begins) % trace.steps == 0:
            begins = begins[:: len(begins) // trace.steps]
    edges = np.unique(np.concatenate(([opened], begins[1:], [closed])))
    steps = len(edges) - 1
    if steps < LEAST_STEPS:
        return np.unique(np.linspace(opened, closed, SLICES + 1).astype(np.int64))
    if steps > MOST_STEPS:
        return edges[np.linspace(0, steps, MOST_STEPS + 1).astype(np.int64)]
    return edges


def share_of(time: FloatArray, total: FloatArray) -> Share:
    """The share of `time` in `total`, both by step and both varying, with Student's interval."""
    return Share(*shares_of(time[:, np.newaxis], total)[0].tolist())


def shares_of(time: FloatArray, total: FloatArray) -> FloatArray:
    """The same of each column: a row per column with its share and the ends of its interval."""
    steps, whole = len(total), float(total.sum())
    share = time.sum(axis=0) / whole
    if steps < 2:
        unknown = np.full(len(share), np.nan)
        return np.array([share, unknown, unknown]).T
    residual = time - share * total[:, np.newaxis]
    error = np.sqrt(steps / (steps - 1) * (residual**2).sum(axis=0)) / whole
    reach = float(stdtrit(steps - 1, (1 + CONFIDENCE) / 2)) * error
    return np.array([share, np.maximum(share - reach, 0.0), np.minimum(share + reach, 1.0)]).T


@dataclass(frozen=True)
class CriticalPath:
    """The time on the critical path, step by step."""

    driver: Driver
    rows: pd.DataFrame  # part, process and function, one row per column of `time_ns`
    time_ns: FloatArray  # (steps, rows); without the steps that were disturbed
    disturbed_ns: FloatArray  # the same of the steps that were
    gil: Mapping[str, Serving] = field(default_factory=dict)
    """Who holds the GIL of each process for which the driver waits so."""

    @property
    def length_s(self) -> float:
        """How long all steps took."""
        return float(self.time_ns.sum() + self.disturbed_ns.sum()) / 1e9

    def share(self, time_ns: FloatArray) -> Share:
        """The share of a time by step."""
        return share_of(time_ns, self.time_ns.sum(axis=1))


def find_critical_path(trace: Trace) -> CriticalPath | None:
    """The critical path of the driver's steps; None if no process waited for a call."""
    trace = with_callbacks(trace)
    driver = find_driver(trace)
    if driver is None:
        return None
    edges = step_edges(trace, driver)
    if len(edges) < 2:
        return None
    path = _with_backward(trace, driver, walk(trace, driver, int(edges[0]), int(edges[-1])))
    pieces, weight = _with_cpu(trace, path)
    waits = with_gil(trace, pieces, weight)
    start, end, part, call = waits.pieces
    weight = waits.weight
    row, rows = _rows(trace, driver, part, call, waits.rank)
    piece, start, end, gap = _cut(edges, start, end)
    steps, code = len(edges) - 1, (gap - 1) * len(rows) + row[piece]
    time_ns = summed(code, (end - start) * weight[piece], steps * len(rows)).reshape(steps, -1)
    total_ns = time_ns.sum(axis=1)
    usual = total_ns <= USUAL * np.quantile(total_ns, FAST)
    # The steps of a program need not do the same: none of them is taken for disturbed.
    if trace.steps != steps or usual.sum() < LEAST_STEPS:
        usual = np.ones(steps, bool)
    return CriticalPath(driver, rows, time_ns[usual], time_ns[~usual], waits.serving)


def critical_path(trace: Trace) -> pd.DataFrame:
    """The critical path: what the driver waited for, and what that waited for in turn.

    The driver is rank 0 of a workload, else the process that waits for calls the longest.

    Returns:
        PATH_COLUMNS, one row per part of a call (`PARTS`), process and function, the largest share
        first, but `unseen` last; none without calls. `share` is of the time of all steps but those
        of a workload that took twice as long as its fast ones. `ci_low` and `ci_high` are its 95 %
        confidence interval over the steps; NaN for `unseen`, which may be anything.
    """
    path = find_critical_path(trace)
    if path is None:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in PATH_COLUMNS.items()})
    table = path.rows.drop(columns="tensors")
    shares = shares_of(path.time_ns, path.time_ns.sum(axis=1))
    table[["share", "ci_low", "ci_high"]] = shares
    is_unseen = table["part"] == "unseen"
    table.loc[is_unseen, ["ci_low", "ci_high"]] = np.nan
    order = np.lexsort((-table["share"], is_unseen))
    return table.iloc[order].query("share > 0").reset_index(drop=True)


def _with_backward(trace: Trace, driver: Driver, path: IntArray) -> IntArray:
    """The path, with the driver's own time in backward passes of distributed autograd apart."""
    operators = trace.operators
    passes = operators[(operators["name"] == BACKWARD) & (operators["rank"] == driver.rank)]
    if passes.empty:
        return path
    inside = united(Spans.of(passes))
    is_own = path[:, 2] == path_walk.CALLER
    edges = np.sort(np.concatenate([inside.start, inside.end]))
    piece, start, end, _ = _cut(edges, *path[is_own, :2].T)
    pieces = path[is_own][piece]
    pieces[:, 0], pieces[:, 1] = start, end
    begun, ended = (np.searchsorted(starts, start, side="right") for starts in inside[1:])
    pieces[begun > ended, 2] = path_walk.BACKWARD
    return np.concatenate([path[~is_own], pieces])


def _cut(
    edges: IntArray, start: IntArray, end: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The pieces of spans cut at edges: the span of each, its start, its end, its next edge."""
    first = np.searchsorted(edges, start, side="right")
    count = np.searchsorted(edges, end, side="left") - first + 1
    span = np.repeat(np.arange(len(start)), count)
    gap = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    edges = np.concatenate([start[:1], edges, end[:1]])
    is_first, is_last = gap == first[span], gap == (first + count - 1)[span]
    start = np.where(is_first, start[span], edges[gap])
    return span, start, np.where(is_last, end[span], edges[gap + 1]), gap


def _with_cpu(trace: Trace, path: IntArray) -> tuple[IntArray, FloatArray]:
    """Start, end, part and call of all pieces, and their weights; SERVED by what the CPU did."""
    # A thread cannot compute while it waits for a call of its own: the times that were measured are
    # those of what the path does not put down to such calls, spread evenly over the call.
    calls = trace.calls
    start, end, part, call = path.T
    served = np.flatnonzero(part == SERVED)
    of_call = call[served]
    first, last = np.full(len(calls), np.inf), np.full(len(calls), -np.inf)
    np.minimum.at(first, of_call, start[served])
    np.maximum.at(last, of_call, end[served])
    own = summed(of_call, (end - start)[served], len(calls))
    wall = floats(calls, "server_end_ns") - floats(calls, "server_start_ns")
    with np.errstate(invalid="ignore", divide="ignore"):
        piece = np.minimum((last - first) / wall, 1.0)
        on_cpu = np.minimum(floats(calls, "cpu_ns") * piece, own)
        run_queue = np.nan_to_num(floats(calls, "run_queue_ns")) * piece
        run_queue = np.minimum(run_queue, own - on_cpu)
        shares = [each / own for each in (on_cpu, run_queue, own - on_cpu - run_queue)]
    split = served[~np.isnan(shares[0][of_call])]
    plain = np.delete(np.arange(len(path)), split)
    pieces = path.T[:, np.concatenate([plain, *([split] * 3)])]
    by_cpu = [path_walk.ON_CPU, path_walk.RUN_QUEUE, path_walk.OFF_CPU]
    pieces[2, len(plain) :] = np.repeat(by_cpu, len(split))
    return pieces, np.concatenate([np.ones(len(plain)), *(share[call[split]] for share in shares)])


def _rows(
    trace: Trace, driver: Driver, part: IntArray, call: IntArray, gil_rank: IntArray
) -> tuple[IntArray, pd.DataFrame]:
    """The row of each piece, and the rows; of a wait for a GIL it is known whose that is."""
    is_caller = np.isin(part, [path_walk.CALLER, path_walk.BACKWARD])
    # Names as text: a category's codes of two columns differ.
    client, server, function = (
        trace.calls[name].astype("str").to_numpy()[call]
        for name in ("client", "server", "function")
    )
    process = np.where(is_caller, trace.process(driver.rank).name, server)
    process = np.where(np.isin(part, [path_walk.ISSUE, path_walk.ANSWER_QUEUE]), client, process)
    for rank in np.unique(gil_rank[part == path_walk.GIL]).tolist():
        process = np.where(gil_rank == rank, trace.process(rank).name, process)
    function = np.where(is_caller, "", function)
    keys = [part, pd.factorize(process)[0], pd.factorize(function)[0]]
    _, first, row = np.unique(group_codes(keys), return_index=True, return_inverse=True)
    parts = np.array([*PARTS])[part[first]]
    rows = {"part": parts, "process": process[first], "function": function[first]}
    by_name = trace.calls.groupby(trace.calls["function"].astype(str))["answer_tensors"].mean()
    tensors = by_name.reindex(function[first]).fillna(0).to_numpy(np.float64)
    return row, pd.DataFrame(rows).astype("str").assign(tensors=tensors)
