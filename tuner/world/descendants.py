"""Ends what a process has started, daemons among it. Standard library only: ranks do it, too.

It is run by its path, too, as the parent of a command, which keeps the daemons of that.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Processes that start others as fast as they are killed get this long; more is a fork bomb.
_WITHIN_S = 5.0
_POLL_S = 0.002


def keep_orphans() -> None:
    """Make orphans among this process's descendants its children: daemons stay within reach."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def living_children(pid: int) -> list[int]:
    """The children of a process, without those that have ended."""
    return [child for child in _children(pid) if is_alive(child)]


def descendants(pid: int) -> Iterator[int]:
    """All that a process has started and that lives, with all that those have."""
    for child in living_children(pid):
        yield child
        yield from descendants(child)


def end_descendants(pid: int, wanted: Callable[[int], bool] = lambda child: True) -> None:
    """Kill them all, and those that they start meanwhile.

    Args:
        pid: A process that keeps orphans. It must not start any itself meanwhile.
        wanted: Which of its children are ended, with all that they have started.
    """

    seen: list[int] | None = None
    until = time.monotonic() + _WITHIN_S
    while time.monotonic() < until:
        children = [child for child in _children(pid) if wanted(child)]
        living = [child for child in children if is_alive(child)]
        kill([each for child in living for each in (child, *descendants(child))])
        # One that ended while it was looked at may have left a child, which is another one now.
        if not living and children == seen:
            break
        seen = children
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
    try:
        return any(_is_pipe(each, pipe) for each in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True


def _is_pipe(descriptor: Path, pipe: os.stat_result) -> bool:
    try:
        return os.readlink(descriptor) == f"pipe:[{pipe.st_ino}]"  # noqa: PTH115
    except FileNotFoundError:
        return False  # it was closed just now


def _children(pid: int) -> Iterator[int]:
    if not Path("/proc/thread-self/children").exists():  # a kernel that does not list them
        every = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
        yield from (each for each in every if status_of(each)[1:2] == [b"%d" % pid])
        return
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return  # it has ended
    # A process is the child of the thread that started it.
    for thread in threads:
        with suppress(OSError):
            yield from map(int, (thread / "children").read_text().split())


def is_alive(pid: int) -> bool:
    """Whether it is there, and has not ended: its parent need not have waited for it."""
    return status_of(pid)[:1] not in ([], [b"Z"], [b"X"])


def status_of(pid: int) -> list[bytes]:
    """As the kernel has it: its state, its parent, and so on; nothing of a process that is gone."""
    try:
        # After the name, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def keeping(variable: str) -> list[str]:
    """What goes before a command to run it so that its daemons end with it.

    It leads the command's process group, ends as the command does, and kills it when the caller
    ends. Daemons that still have an environment variable are left to who looks for that.

    Args:
        variable: Its name.
    """
    return [sys.executable, "-I", "-S", __file__, variable]


def _keep(variable: str, command: list[str]) -> None:
    """Run the command, and end as it does."""
    keep_orphans()
    signal.signal(signal.SIGHUP, lambda number, frame: _end_all())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
    # The group gets these; the command decides.
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    if (pid := os.fork()) == 0:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if handler == signal.SIG_IGN else signal.SIG_DFL)
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    while (ended := os.wait())[0] != pid:
        pass
    mark = f"{variable}=".encode()
    end_descendants(os.getpid(), lambda child: not _has_in_environment(child, mark))
    code = os.waitstatus_to_exitcode(ended[1])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_all() -> None:
    end_descendants(os.getpid())
    os._exit(1)


def _has_in_environment(pid: int, mark: bytes) -> bool:
    try:
        lines = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(line.startswith(mark) for line in lines)


if __name__ == "__main__":
    _keep(sys.argv[1], sys.argv[2:])
