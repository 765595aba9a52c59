"""Daemon threads that leave before Python finalises. Standard library only: they run in programs.

A daemon thread that is inside C++ while Python finalises is unwound through it, and C++ ends the
process with SIGABRT for that. So these threads are asked to leave, and waited for, beforehand.
"""

import atexit
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

# What the threads that are in the middle of something get to leave, all of them together.
LEAVE_S = 2.0

_is_leaving = threading.Event()
# Without a lock, which a fork may meet while another thread holds it.
_running: dict[threading.Thread, threading.Event] = {}


def start_daemon(
    target: Callable[[threading.Event], object],
    name: str,
    *,
    is_over: threading.Event | None = None,
) -> threading.Thread:
    """Start a daemon thread that leaves when it is asked to; not if this process leaves already.

    `target` gets an event, and returns soon after that is set; `is_over` is that event, where the
    caller sets it, too.
    """
    asked = threading.Event() if is_over is None else is_over

    def run() -> None:
        try:
            target(asked)
        finally:
            _running.pop(thread, None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    if not _is_leaving.is_set():
        _running[thread] = asked
        thread.start()
    return thread


def running_daemons() -> list[threading.Thread]:
    """The threads of `start_daemon` that run."""
    return list(_running)


def frames_of_others() -> dict[int, FrameType]:
    """The innermost frame of each other thread of this process, by the identity of the thread.

    With that of the caller, which has the result, all of them would be kept, and whatever the
    program has in them, until the garbage is collected.
    """
    own = threading.get_ident()
    return {ident: frame for ident, frame in sys._current_frames().items() if ident != own}


def leave() -> None:
    """Ask all of these threads to leave, and wait for them for LEAVE_S seconds at most."""
    _is_leaving.set()
    running = list(_running.items())
    for _, asked in running:
        asked.set()
    until = time.monotonic() + LEAVE_S
    for thread, _ in running:
        # One that is being started at this moment cannot be joined.
        if thread.is_alive():
            thread.join(max(0.0, until - time.monotonic()))


# What is registered first is called last, after all that a program registers from now on.
atexit.register(leave)
