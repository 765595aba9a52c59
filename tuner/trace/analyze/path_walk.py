"""The walk along the critical path: backwards in time, from a step's end to its begin.

A *frame* is what issues calls one after another: a served function, the driver's thread, or the
rest of a process. The path is in one frame at a time. It goes back to the last call of the frame
that ended, since the frame waited for it, and through what that call did since it was issued. A
served function is a frame of its own. A frame waits for a call only since it was last seen at work:
when it issued a call, or left an operator. What lies between is the frame's own time.

A result that is complete only after its function returned (`async_execution`) waits for whoever
completes it: the calls of its own that it returned without waiting for; or a later call of the same
function that is being served then, and so the client of that call; or the other threads of its
process. A callback is a function of its client, which begins where what it follows ends
(`tuner.trace.analyze.callbacks`).
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.callbacks import are_callbacks, chains
from tuner.trace.analyze.server_parallelism import threads_taken
from tuner.trace.analyze.time_spans import Spans, group_codes, united
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import BoolArray, IntArray, Trace

MOST = 0.5
"""A call waited for a thread if none was free for this share of its wait on the server; if not, but
a thread was taken for this share, it waited to be dispatched."""
MAIN = 0.8  # a thread whose calls cover this share of its process's waiting is the driver alone
DEEPEST = 100  # a longer chain of calls is not followed; what lies beyond is unseen
CONCURRENT = 64  # at most so many calls are looked at to find the one that completed a result
DRIVER_FRAME = -1

PARTS = {
    "caller": "the driver's own time, between its calls",
    "backward": "is in dist_autograd.backward; what the ranks send meanwhile is not recorded",
    "issue": "a call is pickled and sent",
    "to_server": "the way to the server",
    "queue": "waits for a thread of the server",
    "dispatch": "waits to be run though a thread is free: for the GIL, or to be woken",
    "request": "a thread of the server unpickles the request",
    "gil": "waits for the GIL of a process, which another thread holds",
    "on_cpu": "runs on the CPU",
    "run_queue": "is ready to run, but no CPU is free",
    "off_cpu": "sleeps, or waits for I/O, a lock, the GIL, or a call that is not recorded",
    "served": "runs; whether on the CPU is not known",
    "pending": "has returned, but its result is not complete",
    "answer": "its thread pickles the answer, or the exception",
    "answer_queue": "the answer waits for a thread of the client",
    "to_client": "the way back",
    "receive": "a thread of the client unpickles the answer",
    "unseen": "is under way, but the trace does not show how it was served",
}
"""The parts of the path, in order; the walk itself has no `backward`, `gil`, nor parts of
`served`."""
# Plain numbers: the loop is faster without attributes of a class.
(
    CALLER, BACKWARD, ISSUE, TO_SERVER, QUEUE, DISPATCH, _REQUEST, GIL, ON_CPU, RUN_QUEUE, OFF_CPU,
    SERVED, _PENDING, _ANSWER, ANSWER_QUEUE, TO_CLIENT, _RECEIVE, _UNSEEN,
) = range(len(PARTS))  # fmt: skip


class Driver(NamedTuple):
    """Whose steps the critical path explains."""

    rank: int
    thread: int  # the thread with the most time in calls
    is_alone: bool  # whether the driver is that thread alone, not all threads of its process
    calls: pd.DataFrame  # its calls that ended

    def is_main_of(self, process: TraceRank) -> bool:
        """Whether it is the main thread of its process, alone."""
        return self.is_alone and self.thread == process.pid


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
    spans = Spans.of(ours)
    spans = spans._replace(end=np.maximum(spans.start, spans.end))
    covered_ns = united(spans._replace(group=code)).by_group_ns()
    longest = int(np.argmax(covered_ns))
    first = int(np.argmax(code == longest))
    rank, thread = int(rank_of[first]), int(thread_of[first])
    of_process_ns = united(spans.take(rank_of == rank)).total_ns()
    is_alone = bool(covered_ns[longest] >= MAIN * of_process_ns)
    is_mine = (rank_of == rank) & ((thread_of == thread) | (not is_alone))
    return Driver(rank, thread, is_alone, ours[is_mine])


def walk(trace: Trace, driver: Driver, opened: int, closed: int) -> IntArray:
    """The driver's critical path from `opened` to `closed`, in nanoseconds, without gaps.

    A row per piece, the latest first: start, end, place in PARTS, and the call, DRIVER_FRAME for
    the driver's own time.
    """
    walking = _Walk(trace, driver, closed)
    walking.through_frame(DRIVER_FRAME, opened, closed, DRIVER_FRAME, 0)
    return np.frombuffer(walking.path, np.int64).reshape(-1, 4)


class _Walk:
    """One walk; `path` is what it has found: start, end, part and call of each piece in turn.

    Its lists, which are faster in a loop, have one item per call: start <= issued <= end, and
    start <= arrived <= unpickling <= unpickled <= served <= left <= done <= answered <= received <=
    end.
    """

    def __init__(self, trace: Trace, driver: Driver, closed: int) -> None:
        self.path = array("q")
        calls = trace.calls
        start = calls["start_ns"].to_numpy()
        # A call that never ended lasts until the trace is closed.
        end = np.maximum(calls["end_ns"].to_numpy(np.int64, na_value=closed), start)
        is_seen = (calls["server_start_ns"].notna() & calls["server_end_ns"].notna()).to_numpy()
        # Clocks of two hosts differ a little, and a client may give up first: times stay in order.
        served = np.clip(_filled(calls, "server_start_ns", end), start, end)
        left = np.clip(_filled(calls, "server_end_ns", end), served, end)
        done = np.clip(_filled(calls, "done_ns", left), left, end)
        answered = np.clip(_filled(calls, "answered_ns", done), done, end)
        received = np.clip(_filled(calls, "received_ns", end), answered, end)
        arrived, waits_for_thread = arrivals(trace, served, start)
        unpickled = np.clip(_filled(calls, "unpickled_ns", served), start, served)
        unpickling = np.clip(_filled(calls, "arrived_ns", unpickled), start, unpickled)
        arrived = np.minimum(arrived, unpickling)
        issued = np.clip(_filled(calls, "issued_ns", start), start, end)
        returned = np.where(is_seen, returns(trace, answered, received), received)
        follows, began_with = chains(calls)
        self.sent = np.where(are_callbacks(calls), arrived, start).tolist()
        # Who waits for what follows from a call does so since that one.
        start, issued = start[began_with], issued[began_with]
        self.follows, self.returned = follows.tolist(), returned.tolist()
        self.start, self.issued, self.arrived = start.tolist(), issued.tolist(), arrived.tolist()
        self.served, self.left, self.done = served.tolist(), left.tolist(), done.tolist()
        self.answered, self.received = answered.tolist(), received.tolist()
        self.unpickling, self.unpickled = unpickling.tolist(), unpickled.tolist()
        self.is_seen = is_seen.tolist()  # whether the trace shows how it was served
        self.waits_for_thread = waits_for_thread.tolist()  # else to be dispatched
        self.kind, self.server = calls["kind"].tolist(), calls["server_rank"].tolist()
        # The frame that each call is made in; a served function is numbered as its call.
        parent = calls["parent_call"].to_numpy(np.int64, na_value=-1)
        frame = pd.Index(calls["call_id"]).get_indexer(pd.Index(parent)).astype(np.int64)
        of_process = len(calls) + 1 + calls["client_rank"].to_numpy()
        frame = np.where(frame < 0, of_process, frame)
        frame[calls.index.get_indexer(driver.calls.index)] = DRIVER_FRAME
        self.frame = frame.tolist()
        ended = np.flatnonzero(calls["end_ns"].notna().to_numpy())
        by_end, by_issue = (ended[np.lexsort((at[ended], frame[ended]))] for at in (end, issued))
        self.by_end, self.end_times = by_end.tolist(), end[by_end].tolist()
        self.by_issue = began_with[by_issue].tolist()
        self.issue_times = issued[by_issue].tolist()
        frames, number = np.unique(frame[ended], return_counts=True)
        edges = pairwise([0, *np.cumsum(number).tolist()])
        # Where in these four each frame's calls are.
        self.children = dict(zip(frames.tolist(), edges, strict=True))
        self.join_of = list(zip(self.server, calls["function"].cat.codes, strict=True))
        # The `async_execution` calls by server and function, in the order in which they began.
        self.joins = defaultdict[tuple[int, int], list[int]](list)
        rows = np.flatnonzero(calls["done_ns"].notna().to_numpy() & is_seen)
        for row in rows[np.argsort(served[rows], kind="stable")].tolist():
            self.joins[self.join_of[row]].append(row)
        operators = trace.operators
        here = (operators["rank"] == driver.rank) & (operators["thread"] == driver.thread)
        inside = united(Spans.of(operators[here & driver.is_alone]))
        self.operator_starts, self.operator_ends = inside.start.tolist(), inside.end.tolist()

    def add(self, start: int, end: int, part: int, call: int) -> None:
        if end > start:
            self.path.extend((start, end, part, call))

    def waited(self, call: int, since: int, until: int, depth: int) -> None:
        """A wait for a call: what the call did since it was issued, drawn together to the wait."""
        began, path = self.issued[call], self.path
        pieces = len(path)
        self.through_call(call, min(began, since), until, depth)
        if began < since:
            # It ends so late for all that it did, not only for the last.
            for place in range(pieces, len(path), 4):
                for bound in (place, place + 1):
                    path[bound] = until - (until - path[bound]) * (until - since) // (until - began)

    def through_frame(
        self, frame: int, since: int, until: int, owner: int, depth: int, own: int | None = None
    ) -> None:
        """From `until` back to `since` in a frame; `owner` is the call whose time is its own."""
        if own is None:
            own = CALLER if owner < 0 else SERVED if frame == owner else _PENDING
        end_times, issue_times = self.end_times, self.issue_times
        low, high = self.children.get(frame, (0, 0))
        ended = bisect_right(end_times, until, low, high) - 1
        issued = bisect_right(issue_times, until, low, high) - 1
        while until > since:
            while ended >= low and end_times[ended] > until:
                ended -= 1
            while issued >= low and issue_times[issued] > until:
                issued -= 1
            end_ns = end_times[ended] if ended >= low else since
            issue_ns = issue_times[issued] if issued >= low else since
            if issue_ns <= since and end_ns <= since:
                break
            if issue_ns >= end_ns:
                self.add(issue_ns, until, own, owner)
                call = self.by_issue[issued]
                until = max(self.start[call], since)
                self.add(until, issue_ns, ISSUE, call)
                issued -= 1
            else:
                self.add(end_ns, until, own, owner)
                until = max(issue_ns, since)
                if frame == DRIVER_FRAME:
                    # It did not wait while it was in an operator.
                    last = bisect_right(self.operator_starts, end_ns)
                    worked_ns = self.operator_ends[last - 1] if last else until
                    until = max(until, min(worked_ns, end_ns))
                self._wait(ended, low, until, end_ns, depth)
                ended -= 1
        self.add(since, until, own, owner)

    def _wait(self, ended: int, low: int, since: int, until: int, depth: int) -> None:
        call = self.by_end[ended]
        if self.kind[call] == "to_here":
            # It waits for the value to be made, if the call that makes it is still under way.
            for place in range(ended - 1, low - 1, -1):
                made_ns, making = self.end_times[place], self.by_end[place]
                if made_ns <= since:
                    break
                if self.kind[making] == "rpc_remote" and self.server[making] == self.server[call]:
                    self.add(made_ns, until, _UNSEEN, call)
                    call, until = making, made_ns
                    break
        self.waited(call, since, until, depth)

    def through_call(self, call: int, since: int, until: int, depth: int) -> None:
        """From `until` back to `since`, which is no earlier than the call's start."""
        while True:
            follows = self.follows[call]
            sent = since if follows < 0 else min(max(self.sent[call], since), until)
            self._through_one(call, sent, until, depth)
            if sent <= since:
                return
            call, until = follows, sent

    def _through_one(self, call: int, since: int, until: int, depth: int) -> None:
        if not self.is_seen[call] or depth > DEEPEST:
            self.add(since, until, _UNSEEN, call)
            return
        for began, part in (
            (self.received[call], _RECEIVE),
            (self.returned[call], ANSWER_QUEUE),
            (self.answered[call], TO_CLIENT),
            (self.done[call], _ANSWER),
            (self.left[call], _PENDING),
            (self.served[call], SERVED),
            (self.unpickled[call], DISPATCH),
            (self.unpickling[call], _REQUEST),
            (self.arrived[call], QUEUE if self.waits_for_thread[call] else DISPATCH),
            (since, TO_SERVER),
        ):
            begin = began if began > since else since
            if until <= begin:
                continue
            if part == _PENDING:
                self._pending(call, begin, until, depth + 1)
            elif part == SERVED:
                self.through_frame(call, begin, until, call, depth + 1)
            else:
                self.add(begin, until, part, call)
            until = begin

    def _pending(self, call: int, since: int, until: int, depth: int) -> None:
        low, high = self.children.get(call, (0, 0))
        last = bisect_right(self.end_times, self.done[call], low, high) - 1
        if last >= low and self.end_times[last] > since:
            self.through_frame(call, since, until, call, depth, _PENDING)
            return
        # The call of this function that was being served when the result was complete.
        group, done = self.joins[self.join_of[call]], self.done[call]
        place = bisect_right(group, done, key=self.served.__getitem__) - 1
        completers = (
            other
            for other in reversed(group[max(place - CONCURRENT, 0) : place + 1])
            if other != call and self.left[other] >= done
        )
        # Without one, what its process does beside what it serves and drives.
        frame = next(completers, len(self.start) + 1 + self.server[call])
        # Back through the completer, and the functions that it was called from in turn.
        while 0 <= frame < len(self.start) and until > since:
            began = max(self.start[frame], since)
            if until > began:
                self.through_call(frame, began, until, depth)
                until = began
            frame = self.frame[frame]
        if until > since:
            owner = DRIVER_FRAME if frame == DRIVER_FRAME else call
            self.through_frame(frame, since, until, owner, depth)


def _filled(calls: pd.DataFrame, column: str, instead: IntArray) -> IntArray:
    """A column of times, and others where it is null."""
    return np.where(calls[column].isna(), instead, calls[column].to_numpy(np.int64, na_value=0))


def returns(trace: Trace, answered: IntArray, end: IntArray) -> IntArray:
    """When the answer of each call was back; later its client had no thread free to take it."""
    calls = trace.calls
    if not set(calls["client_rank"]) & set(calls["server_rank"]):
        return end  # no client has a thread at work
    took = pd.Series(end - answered).where(calls["server_end_ns"].notna().to_numpy())
    fastest = took.groupby(calls["name"].array, observed=True).transform("min")
    queue = np.nan_to_num((took - fastest).to_numpy()).astype(np.int64)
    client, is_full = calls["client_rank"].to_numpy(), np.zeros(len(calls), bool)
    for rank, steps in threads_taken(trace).items():
        pool = trace.process(rank).num_worker_threads
        if pool is not None and pool < len(steps.time_at_level()):
            here = client == rank
            is_full[here] = steps.share_from(pool, (end - queue)[here], end[here]) >= MOST
    return np.where(is_full, end - queue, end)


def arrivals(trace: Trace, served: IntArray, start: IntArray) -> tuple[IntArray, BoolArray]:
    """When each call began to wait on its server, and whether it was for a thread."""
    calls = trace.calls
    queue_us = np.nan_to_num(call_times(calls)["queue_us"].to_numpy())
    arrived = np.maximum(served - np.round(queue_us * 1e3).astype(np.int64), start)
    is_full, is_serving = np.zeros(len(calls), bool), np.zeros(len(calls), bool)
    rows = pd.Series(range(len(calls))).groupby(calls["server_rank"].to_numpy()).indices
    for rank, steps in threads_taken(trace).items():
        pool = trace.process(rank).num_worker_threads or max(1, len(steps.time_at_level()) - 1)
        here = rows[rank]
        # Without a wait, the share is not a number, and no such comparison holds.
        is_full[here] = steps.share_from(pool, arrived[here], served[here]) >= MOST
        is_serving[here] = steps.share_from(1, arrived[here], served[here]) >= MOST
    # Where the server was idle, what `call_times` estimates as a wait is part of the way.
    return np.where(is_full | is_serving, arrived, served), is_full
