"""Calls that Linux has and `os` has not."""

import contextlib
import ctypes
import os
import platform
import signal
from pathlib import Path

_SET_DEATH_SIGNAL = 1
_SET_SUBREAPER = 36
_GET_SUBREAPER = 37
_CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    _libc.prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def is_subreaper() -> bool:
    """Whether orphans among the descendants become children of this process."""
    answer = ctypes.c_int()
    _libc.prctl(_GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def set_subreaper(wanted: bool) -> None:
    """Make orphans among the descendants children of this process, or no longer."""
    _libc.prctl(_SET_SUBREAPER, int(wanted), 0, 0, 0)


def fork_unseen() -> int:
    """Fork a child that `os.wait()` does not see: its parent gets no signal when it ends.

    Returns:
        As `os.fork()`.

    Raises:
        OSError: Not on this kind of processor, or no process can be made.
    """
    number = _CLONE.get(platform.machine())
    if number is None:
        raise OSError(f"no call of clone is known for {platform.machine()}")
    # Holds the GIL, as a fork needs it.
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(number, 0, None, None, None, None)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("no process can be forked")
    return int(pid)


def end_descendants() -> None:
    """Kill all descendants of this process, which is a subreaper: orphans become its children."""
    while pids := _children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    """The process ids of this process's children, zombies among them."""
    found = []
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # After the name, which may hold anything: the state, then the parent.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[1]) == own:
                    found.append(int(entry.name))
    return found
