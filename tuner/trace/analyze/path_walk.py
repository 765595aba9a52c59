"""The walk along the critical path: backwards in time, from a step's end to its begin.

At any time the path is in one frame. It goes back to the last child that ended, since the frame
waited for it, and through what that child did: the way back, the pickling of its answer, the served
function (a frame of its own, with calls of its own), the wait for a thread, the way there. A frame
waits for a call only since it was last seen at work: when it issued a call, or left an operator.
What lies between is the frame's own time. The wait is explained by all that the call did since it
was issued.

A result that is complete only after its function returned (`async_execution`) waits for whoever
completes it: a later call of the same function that is being served then, and so the client of that
call; or the other threads of its process.
"""

from array import array
from bisect import bisect_right
from enum import IntEnum

import numpy as np

from tuner.trace.analyze.path_frames import DRIVER_FRAME, Frames
from tuner.trace.analyze.time_spans import IntArray


class Part(IntEnum):
    """What a call, or the driver, did."""

    CALLER = 0
    ISSUE = 1
    TO_SERVER = 2
    QUEUE = 3
    DISPATCH = 4
    SERVED = 5
    PENDING = 6
    ANSWER = 7
    TO_CLIENT = 8
    UNSEEN = 9
    BACKWARD = 10
    """Of the driver's own time; the walk does not separate it."""


DEEPEST = 100
"""A longer chain of calls is not followed; what lies beyond is unseen."""
CONCURRENT = 64
"""At most so many calls are looked at to find the one that completed a result."""

# The loop is faster without an attribute of a class for each.
(
    _CALLER, _ISSUE, _TO_SERVER, _QUEUE, _DISPATCH, _SERVED, _PENDING, _ANSWER, _TO_CLIENT, _UNSEEN,
    _,
) = map(int, Part)  # fmt: skip


class _Walk:
    """One walk; `path` is what it has found: start, end, part and call of each piece in turn."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.path = array("q")

    def add(self, start: int, end: int, part: int, call: int) -> None:
        if end > start:
            self.path.extend((start, end, part, call))

    def waited(self, call: int, since: int, until: int, depth: int) -> None:
        """A wait for a call: what the call did since it was issued, drawn together to the wait.

        A call that was issued long before anything waited for it ends so late for all that it did,
        not only for what it did last.
        """
        began, pieces = self.frames.issued[call], len(self.path)
        self.through_call(call, min(began, since), until, depth)
        if began >= since:
            return
        path = self.path
        for place in range(pieces, len(path), 4):
            for bound in (place, place + 1):
                path[bound] = until - (until - path[bound]) * (until - since) // (until - began)

    def through_frame(self, frame: int, since: int, until: int, owner: int, depth: int) -> None:
        """From `until` back to `since` in a frame; `owner` is the call whose time is its own."""
        own = _CALLER if owner < 0 else _SERVED if frame == owner else _PENDING
        f = self.frames
        low, high = f.children.get(frame, (0, 0))
        ended = bisect_right(f.end_times, until, low, high) - 1
        issued = bisect_right(f.issue_times, until, low, high) - 1
        while until > since:
            while ended >= low and f.end_times[ended] > until:
                ended -= 1
            while issued >= low and f.issue_times[issued] > until:
                issued -= 1
            end_ns = f.end_times[ended] if ended >= low else since
            issue_ns = f.issue_times[issued] if issued >= low else since
            if issue_ns <= since and end_ns <= since:
                break
            if issue_ns >= end_ns:
                self.add(issue_ns, until, own, owner)
                call = f.by_issue[issued]
                until = max(f.start[call], since)
                self.add(until, issue_ns, _ISSUE, call)
                issued -= 1
            else:
                self.add(end_ns, until, own, owner)
                until = self._waited_since(frame, max(issue_ns, since), end_ns)
                self._wait(ended, low, until, end_ns, depth)
                ended -= 1
        self.add(since, until, own, owner)

    def _waited_since(self, frame: int, since: int, end_ns: int) -> int:
        """When a frame began to wait for what ended then: not while it was in an operator."""
        starts = self.frames.operator_starts
        if frame != DRIVER_FRAME or not starts:
            return since
        last = bisect_right(starts, end_ns) - 1
        return max(since, min(self.frames.operator_ends[last], end_ns)) if last >= 0 else since

    def _wait(self, ended: int, low: int, since: int, until: int, depth: int) -> None:
        """A wait for the child with this place in the order of ends."""
        f = self.frames
        call = f.by_end[ended]
        if f.kind[call] == "to_here":
            # It waits for the value to be made, if the call that makes it is still under way.
            for place in range(ended - 1, low - 1, -1):
                made_ns, making = f.end_times[place], f.by_end[place]
                if made_ns <= since:
                    break
                if f.kind[making] == "rpc_remote" and f.server[making] == f.server[call]:
                    self.add(made_ns, until, _UNSEEN, call)
                    call, until = making, made_ns
                    break
        self.waited(call, since, until, depth)

    def through_call(self, call: int, since: int, until: int, depth: int) -> None:
        """From `until` back to `since`, which is no earlier than the call's start."""
        f = self.frames
        if not f.is_seen[call] or depth > DEEPEST:
            self.add(since, until, _UNSEEN, call)
            return
        done, left, served, arrived = f.done[call], f.left[call], f.served[call], f.arrived[call]
        answered = f.answered[call]
        if until > answered:
            self.add(answered if answered > since else since, until, _TO_CLIENT, call)
            until = answered
        if until > done:
            self.add(done if done > since else since, until, _ANSWER, call)
            until = done
        if until > left and until > since:
            self._pending(call, left if left > since else since, until, depth + 1)
        if until > left:
            until = left
        if until > served and until > since:
            self.through_frame(call, served if served > since else since, until, call, depth + 1)
        if until > served:
            until = served
        if until > arrived:
            wait = _QUEUE if f.waits_for_thread[call] else _DISPATCH
            self.add(arrived if arrived > since else since, until, wait, call)
            until = arrived
        self.add(since, until, _TO_SERVER, call)

    def _pending(self, call: int, since: int, until: int, depth: int) -> None:
        """The time until the result of a function that has returned was complete."""
        f = self.frames
        completer = self._completer(call)
        frame = completer if completer >= 0 else f.process_frame(f.server[call])
        # Back through the completer, and the functions that it was called from in turn.
        while 0 <= frame < len(f.start) and until > since:
            began = max(f.start[frame], since)
            if until > began:
                self.through_call(frame, began, until, depth)
                until = began
            frame = f.frame[frame]
        if until > since:
            owner = DRIVER_FRAME if frame == DRIVER_FRAME else call
            self.through_frame(frame, since, until, owner, depth)

    def _completer(self, call: int) -> int:
        """The call that was being served when the result was complete; -1 if there is none."""
        f = self.frames
        group = f.joins.get(f.join_of[call], [])
        place = bisect_right(group, f.done[call], key=f.served.__getitem__) - 1
        for other in reversed(group[max(place - CONCURRENT, 0) : place + 1]):
            if other != call and f.left[other] >= f.done[call]:
                return other
        return -1


def walk(frames: Frames, opened: int, closed: int) -> IntArray:
    """The driver's critical path from `opened` to `closed`, in nanoseconds.

    Returns:
        One row per piece, the latest first, without gaps: its start, its end, its Part, and the
        call, which is DRIVER_FRAME for the driver's own time.
    """
    walking = _Walk(frames)
    walking.through_frame(DRIVER_FRAME, opened, closed, DRIVER_FRAME, 0)
    return np.frombuffer(walking.path, np.int64).reshape(-1, 4)
