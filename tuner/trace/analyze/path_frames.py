"""The calls of a trace as the walk along the critical path needs them.

A *frame* is what issues calls one after another: a served function, the driver's thread, or the
rest of a process. Every call is a child of one frame: that of the call which its client was
serving, else the driver's, else that of its client's process.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_parallelism import threads_taken
from tuner.trace.analyze.time_spans import (
    FloatArray,
    IntArray,
    Spans,
    Steps,
    group_codes,
    summed,
    united,
)
from tuner.trace.model.trace import Trace

BoolArray = NDArray[np.bool_]

MOST = 0.5
"""A call that waited on the server waited for a thread if none was free for this share of the time;
if not, but a thread was taken for this share, it waited to be dispatched."""
MAIN = 0.8
"""A thread whose calls cover this share of the time that its process waits is the driver alone."""
DRIVER_FRAME = -1


class Driver(NamedTuple):
    """Whose steps the critical path explains."""

    rank: int
    thread: int
    """The thread with the most time in calls."""
    is_alone: bool
    """Whether the driver is that thread alone, not all threads of its process."""
    calls: pd.DataFrame
    """Its calls that ended."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Lists, since a loop reads single items of them much faster; nanoseconds, one item per call.

    start <= issued <= end, and start <= arrived <= served <= left <= done <= answered <= end.
    """

    start: list[int]
    issued: list[int]
    arrived: list[int]
    """When it began to wait on the server."""
    served: list[int]
    left: list[int]
    done: list[int]
    answered: list[int]
    end: list[int]
    is_seen: list[bool]
    """Whether the trace shows how it was served."""
    waits_for_thread: list[bool]
    """Whether it waited for a thread; else to be dispatched."""
    kind: list[str]
    server: list[int]
    frame: list[int]
    """The frame that it is a child of; a served function has the number of its call."""
    children: dict[int, tuple[int, int]]
    """Where in the next four each frame's children are."""
    by_end: list[int]
    end_times: list[int]
    by_issue: list[int]
    issue_times: list[int]
    joins: dict[tuple[int, int], list[int]]
    """The `async_execution` calls by server and function, in the order in which they began."""
    join_of: list[tuple[int, int]]
    operator_starts: list[int]
    """When the driver's thread entered an operator, and in the next when it left."""
    operator_ends: list[int]

    def process_frame(self, rank: int) -> int:
        """The frame of a process, beside what it serves and drives."""
        return len(self.start) + 1 + rank


def find_driver(trace: Trace) -> Driver | None:
    """The driver: rank 0 of a workload; else the process that waits for calls the longest."""
    calls = trace.calls
    ours = calls[calls["parent_call"].isna() & calls["end_ns"].notna()]
    if trace.steps is not None and (ours["client_rank"] == 0).any():
        ours = ours[ours["client_rank"] == 0]
    if ours.empty:
        return None
    rank_of, thread_of = ours["client_rank"].to_numpy(), ours["client_thread"].to_numpy()
    code = group_codes((rank_of, thread_of))
    covered = _covered(code, ours)
    longest = int(np.argmax(covered))
    first = int(np.argmax(code == longest))
    rank, thread = int(rank_of[first]), int(thread_of[first])
    process = ours[rank_of == rank]
    whole = float(_covered(np.zeros(len(process), np.int64), process)[0])
    is_alone = float(covered[longest]) >= MAIN * whole
    mine = process[process["client_thread"] == thread] if is_alone else process
    return Driver(rank, thread, is_alone, mine)


def _covered(code: IntArray, calls: pd.DataFrame) -> FloatArray:
    """By code, the time in which a call was under way."""
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy(np.int64)
    spans = united(Spans(code, start, np.maximum(start, end)))
    return summed(spans.group, spans.end - spans.start, int(code.max()) + 1)


def make_frames(trace: Trace, driver: Driver, closed: int) -> Frames:
    """The calls of a trace by frame; one that never ended lasts until the trace is closed."""
    calls = trace.calls
    start = calls["start_ns"].to_numpy()
    end = np.maximum(calls["end_ns"].to_numpy(np.int64, na_value=closed), start)
    is_seen = (calls["server_start_ns"].notna() & calls["server_end_ns"].notna()).to_numpy()
    # Clocks of two hosts differ a little, and a client may give up first: times stay in order.
    served = np.clip(_filled(calls, "server_start_ns", end), start, end)
    left = np.clip(_filled(calls, "server_end_ns", end), served, end)
    done = np.clip(_filled(calls, "done_ns", left), left, end)
    answered = np.clip(_filled(calls, "answered_ns", done), done, end)
    arrived, waits_for_thread = _arrivals(trace, served, start)
    frame = _frames_of(calls, driver)
    issued = np.clip(_filled(calls, "issued_ns", start), start, end)
    by_end, by_issue = _in_order(frame, end, calls), _in_order(frame, issued, calls)
    joins, join_of = _joins(calls, served, is_seen)
    in_operators = _in_operators(trace, driver)
    return Frames(
        start=start.tolist(),
        issued=issued.tolist(),
        arrived=arrived.tolist(),
        served=served.tolist(),
        left=left.tolist(),
        done=done.tolist(),
        answered=answered.tolist(),
        end=end.tolist(),
        is_seen=is_seen.tolist(),
        waits_for_thread=waits_for_thread.tolist(),
        kind=calls["kind"].tolist(),
        server=calls["server_rank"].tolist(),
        frame=frame.tolist(),
        children=_children(frame[by_end]),
        by_end=by_end.tolist(),
        end_times=end[by_end].tolist(),
        by_issue=by_issue.tolist(),
        issue_times=issued[by_issue].tolist(),
        joins=joins,
        join_of=join_of,
        operator_starts=in_operators.start.tolist(),
        operator_ends=in_operators.end.tolist(),
    )


def _filled(calls: pd.DataFrame, column: str, instead: IntArray) -> IntArray:
    """A column of times, and others where it is null."""
    values = calls[column]
    known = values.to_numpy(np.int64, na_value=0)
    return np.where(values.isna(), instead, known)


def _arrivals(trace: Trace, served: IntArray, start: IntArray) -> tuple[IntArray, BoolArray]:
    """When each call began to wait on its server, and whether it was a thread that it waited for.

    `call_times` estimates the wait. Where the server was idle meanwhile, it is part of the way.
    """
    calls = trace.calls
    queue_us = np.nan_to_num(call_times(calls)["queue_us"].to_numpy())
    arrived = np.maximum(served - np.round(queue_us * 1e3).astype(np.int64), start)
    is_full, is_serving = np.zeros(len(calls), bool), np.zeros(len(calls), bool)
    rank_of = calls["server_rank"].to_numpy()
    for rank, steps in threads_taken(trace).items():
        process = trace.process(rank)
        threads = process.num_worker_threads if process else None
        pool = threads or max(1, len(steps.time_at_level()) - 1)
        here = rank_of == rank
        span = arrived[here], served[here]
        is_full[here] = _share_at(steps, pool, *span) >= MOST
        is_serving[here] = _share_at(steps, 1, *span) >= MOST
    return np.where(is_full | is_serving, arrived, served), is_full


def _share_at(steps: Steps, level: int, start: IntArray, end: IntArray) -> FloatArray:
    """Of each span, the share in which at least so many threads were taken."""
    reached = Steps(steps.time, (steps.level >= level).astype(np.int64))
    share: FloatArray = np.nan_to_num(reached.mean_level(start, end))
    return share


def _frames_of(calls: pd.DataFrame, driver: Driver) -> IntArray:
    """The frame of each call."""
    parent = calls["parent_call"].to_numpy(np.int64, na_value=-1)
    row_of = pd.Index(calls["call_id"])
    frame: IntArray = row_of.get_indexer(pd.Index(parent)).astype(np.int64)
    alone = frame < 0
    frame[alone] = len(calls) + 1 + calls["client_rank"].to_numpy()[alone]
    frame[calls.index.get_indexer(driver.calls.index)] = DRIVER_FRAME
    return frame


def _in_order(frame: IntArray, time: IntArray, calls: pd.DataFrame) -> NDArray[np.intp]:
    """The calls that ended, by frame and time."""
    ended = np.flatnonzero(calls["end_ns"].notna().to_numpy())
    order: NDArray[np.intp] = ended[np.lexsort((time[ended], frame[ended]))]
    return order


def _children(frame: IntArray) -> dict[int, tuple[int, int]]:
    """The range of each frame in the sorted frames of all calls."""
    bounds = np.flatnonzero(np.diff(frame, prepend=frame[:1] - 1, append=frame[-1:] + 1))
    return {int(frame[low]): (int(low), int(high)) for low, high in pairwise(bounds)}


def _joins(
    calls: pd.DataFrame, served: IntArray, is_seen: BoolArray
) -> tuple[dict[tuple[int, int], list[int]], list[tuple[int, int]]]:
    """The `async_execution` calls by server and function; and that key of each call."""
    keys = list(zip(calls["server_rank"].tolist(), calls["function"].cat.codes, strict=True))
    rows = np.flatnonzero(calls["done_ns"].notna().to_numpy() & is_seen)
    joins: dict[tuple[int, int], list[int]] = {}
    for row in rows[np.argsort(served[rows], kind="stable")].tolist():
        joins.setdefault(keys[row], []).append(row)
    return joins, keys


def _in_operators(trace: Trace, driver: Driver) -> Spans:
    """When the driver's thread was inside operators; never for a driver of several threads."""
    operators = trace.operators
    here = (operators["rank"] == driver.rank) & (operators["thread"] == driver.thread)
    mine = operators[here & driver.is_alone]
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    return united(Spans(np.zeros(len(mine), np.int64), start, end))
