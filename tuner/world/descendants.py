"""Ends what a process has started, daemons among it. Standard library only: ranks do it, too."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
# Processes that start others as fast as they are killed get this long; more is a fork bomb.
_WITHIN_S = 5.0
_POLL_S = 0.002


def keep_orphans() -> None:
    """Make orphans among this process's descendants its children: daemons stay within reach."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def living_children(pid: int) -> list[int]:
    """The children of a process, without those that have ended."""
    return [child for child in _children(pid) if _is_alive(child)]


def descendants(pid: int) -> Iterator[int]:
    """All that a process has started and that lives, with all that those have."""
    for child in living_children(pid):
        yield child
        yield from descendants(child)


def end_descendants(pid: int) -> None:
    """Kill them all, and those that they start meanwhile.

    Args:
        pid: A process that keeps orphans. It must not start any itself meanwhile.
    """
    until = time.monotonic() + _WITHIN_S
    while (left := [*descendants(pid)]) and time.monotonic() < until:
        kill(left)
        if pid == os.getpid():
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        time.sleep(_POLL_S)


def kill(pids: list[int]) -> None:
    """Kill these processes, as far as they are there and ours."""
    for each in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def holds(pid: int, pipe: os.stat_result) -> bool:
    """Whether a process has an end of a pipe open; True if it cannot be known."""
    name = f"pipe:[{pipe.st_ino}]"
    try:
        return any(os.readlink(each) == name for each in Path(f"/proc/{pid}/fd").iterdir())  # noqa: PTH115
    except FileNotFoundError:
        return False  # it has ended, or closed it just now
    except OSError:
        return True


def _children(pid: int) -> Iterator[int]:
    if not Path("/proc/thread-self/children").exists():  # a kernel that does not list them
        every = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
        yield from (each for each in every if _status(each)[1:2] == [b"%d" % pid])
        return
    # A process is the child of the thread that started it.
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, file.read_text().split())


def _is_alive(pid: int) -> bool:
    return _status(pid)[:1] not in ([], [b"Z"], [b"X"])


def _status(pid: int) -> list[bytes]:
    """Its state, its parent, and so on; nothing of a process that is gone."""
    try:
        # After the name, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []
