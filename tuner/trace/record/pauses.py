"""Why threads that issue calls are off the CPU while they wait for none: a sample now and then.

The kernel says what a thread waits for, and Python's stack where the program is meanwhile.
"""

import dis
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from tuner.torch_private.sites import is_own, site_of
from tuner.trace.record.threads import agent_threads, threads

_WAITS = {
    "sleep": ("nanosleep",),
    "lock": ("futex",),
    "io": ("poll", "select", "read", "write", "recv", "wait_woken", "data_wait", "accept",
           "folio_wait", "io_schedule"),
    "process": ("do_wait",),
}  # fmt: skip
"""By what a thread waits for: parts of the names of the kernel's functions in which it does."""
_MOST_THREADS, _MOST_FRAMES = 8, 50


class Pauses:
    """Looks at the main thread of this process, and at others that issue calls and serve none."""

    def __init__(self, keep: Callable[[int, int, str, str, bool], object]) -> None:
        """`keep` gets the fields of a `Pause`, when one is seen."""
        self._keep = keep

    def look(self, now_ns: int) -> None:
        """Keep what each of them waits for now."""
        serving = {*agent_threads.values()}
        own = {each.id: each.ident for each in [*threads.values()] if each not in serving}
        own = {os.getpid(): threading.main_thread().ident or 0, **own}
        frames = sys._current_frames()
        for thread, ident in [*own.items()][:_MOST_THREADS]:
            why = _why(thread)
            frame = frames.get(ident) if why else None
            # What PyTorch waits for is a call, or the other ranks.
            if frame is not None and not (why == "lock" and is_own(frame.f_code)):
                self._keep(now_ns, thread, why, site_of(frame), _is_in_open_loop(frame))


def _why(thread: int) -> str:
    """What a thread waits for; empty if it does not, or that is not known."""
    with suppress(OSError):
        name = Path(f"/proc/self/task/{thread}/wchan").read_text()
        for why, parts in _WAITS.items():
            if any(part in name for part in parts):
                return why
    return ""


def _is_in_open_loop(frame: FrameType | None) -> bool:
    """Whether the innermost loop that the program is in goes on until something happens, as one
    does that polls; other loops have a known number of turns."""
    left = _MOST_FRAMES
    while frame is not None and left:
        code = frame.f_code
        loop = None if is_own(code) else _loop_around(code, frame.f_lasti)
        if loop is not None:
            return loop
        frame, left = frame.f_back, left - 1
    return False


@lru_cache(1000)
def _loop_around(code: CodeType, place: int) -> bool | None:
    """Of the innermost loop of a code around a place: whether it is no `for`, or may end before all
    its turns; None where there is no loop."""
    found = [*dis.get_instructions(code)]
    ends: dict[int, int] = {}  # by where a loop begins
    for each in found:
        is_jump = "JUMP" in each.opname and isinstance(each.argval, int)
        if is_jump and each.argval < each.offset and each.opname != "JUMP_BACKWARD_NO_INTERRUPT":
            ends[each.argval] = each.offset
    loops = [(end - begin, begin, end) for begin, end in ends.items() if begin <= place <= end]
    if not loops:
        return None
    _, begin, end = min(loops)
    inside = [each for each in found if begin <= each.offset <= end]
    if inside[0].opname != "FOR_ITER":
        return True
    return any(
        each.opname.startswith("RETURN_")
        or ("JUMP" in each.opname and not begin <= each.argval <= end)
        for each in inside[1:]
    )
