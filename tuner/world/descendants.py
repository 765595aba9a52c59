"""Ends processes with all that they have started, daemons among it. Standard library only.

It is run by its path, too: as the parent of a command, and beside a cluster of our own.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CLUSTER_VARIABLE = "RPC_TUNER_CLUSTER"
"""The environment variable that all processes of a cluster of our own have, with its folder."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Processes that start others as fast as they are killed get this long; more is a fork bomb.
_WITHIN_S = 5.0
_POLL_S = 0.002
_LOOK_S = 0.02
# Ray ends most of its processes itself.
_LEFT_TO_RAY_S = 3.0
_CLUSTER_GONE_S = 23.0
_REAP_S = 0.1


def keep_orphans() -> None:
    """Make orphans among this process's descendants its children: daemons stay within reach."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def living_children(pid: int) -> list[int]:
    """The children of a process, without those that have ended."""
    return [child for child in _children(pid) if is_alive(child)]


def descendants(pid: int) -> Iterator[int]:
    """All that a process has started and that lives, with all that those have."""
    for child in living_children(pid):
        yield child
        yield from descendants(child)


def end_descendants(pid: int, wanted: Callable[[int], bool] = lambda child: True) -> None:
    """Kill all of these children with all that they have started, and what those start meanwhile.
    The process must keep orphans, and start none itself meanwhile."""
    before, until_s = None, time.monotonic() + _WITHIN_S
    while time.monotonic() < until_s:
        children = [child for child in _children(pid) if wanted(child)]
        living = [child for child in children if is_alive(child)]
        # One that ended while it was looked at may have left a child, which is another one now.
        if not living and children == before:
            return
        kill([each for child in living for each in (child, *descendants(child))])
        before = children
        time.sleep(_POLL_S)
        if pid == os.getpid():
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def end_groups(leaders: Sequence[int], variable: str, text: str) -> None:
    """Kill the process groups of these leaders, all that the leaders have started, and all that has
    an environment variable with a text in it."""
    # Before they are orphans, whose parents are not known any more.
    known = {pid: _started(pid) for leader in leaders for pid in (*descendants(leader), leader)}
    for leader in leaders:
        kill_group(leader)

    def left() -> list[int] | None:
        marked = [pid for pid in _processes() if has_variable(pid, variable, text)]
        living = [pid for pid, start in known.items() if is_alive(pid) and _started(pid) == start]
        return [*marked, *living] or None

    kill_what_is_left(left, _WITHIN_S, _LOOK_S)


def kill_what_is_left(
    left: Callable[[], Sequence[int] | None],
    within_s: float,
    every_s: float,
    *,
    patience_s: float = 0.0,
) -> None:
    """Look for processes again and again and kill them, until `left` says None or the time is over.
    For the first `patience_s` seconds they may end by themselves."""
    begun_s = time.monotonic()
    while (found := left()) is not None and (now_s := time.monotonic() - begun_s) < within_s:
        if now_s >= patience_s:
            kill(found)
        time.sleep(every_s)


def kill(pids: Sequence[int]) -> None:
    """Kill these processes, as far as they are there and ours."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """Kill a process group, if it is there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def holds(pid: int, pipe: os.stat_result) -> bool:
    """Whether a process has an end of a pipe open; True if it cannot be known."""
    try:
        return f"pipe:[{pipe.st_ino}]" in _open_files(pid)
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True


def has_variable(pid: int, variable: str, text: str = "") -> bool:
    """Whether a process has an environment variable with a text in it; one that ended has none."""
    name, inside = os.fsencode(f"{variable}="), os.fsencode(text)
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return any(line.startswith(name) and inside in line for line in lines)
    return False


def is_alive(pid: int) -> bool:
    """Whether it is there, and has not ended: its parent need not have waited for it."""
    return status_of(pid)[:1] not in ([], [b"Z"], [b"X"])


def status_of(pid: int) -> list[bytes]:
    """As the kernel has it: its state, its parent, and so on; nothing of a process that is gone."""
    with suppress(OSError):
        # After the name, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return []


def _started(pid: int) -> list[bytes]:
    """When it was started: an id may be used again."""
    return status_of(pid)[19:20]


def _processes() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _children(pid: int) -> Iterator[int]:
    if not Path("/proc/thread-self/children").exists():  # a kernel that does not list them
        yield from (child for child in _processes() if status_of(child)[1:2] == [b"%d" % pid])
        return
    with suppress(OSError):  # it has ended
        # A process is the child of the thread that started it.
        for thread in [*Path(f"/proc/{pid}/task").iterdir()]:
            with suppress(OSError):
                yield from map(int, (thread / "children").read_text().split())


def _open_files(pid: int) -> list[str]:
    """What a process has open. OSError if it has ended."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))  # noqa: PTH115
    return found


def keeping(variable: str) -> list[str]:
    """What goes before a command to run it so that its daemons end with it. It leads the command's
    process group, ends as the command does, and kills it when the caller ends. Daemons that still
    have this environment variable are left to who looks for that."""
    return [sys.executable, "-I", "-S", __file__, "keep", variable]


def _keep(variable: str, command: list[str]) -> None:
    """Run the command, and end as it does."""
    keep_orphans()
    signal.signal(signal.SIGHUP, _end_all)
    signal_with_parent(signal.SIGHUP)
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
    end_descendants(os.getpid(), lambda child: not has_variable(child, variable))
    code = os.waitstatus_to_exitcode(ended[1])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_all(*_: object) -> None:
    end_descendants(os.getpid())
    os._exit(1)


@contextmanager
def cluster_reaped(folder: Path) -> Iterator[None]:
    """See that nothing is left after the block of a cluster of our own, nor its folder. What has
    CLUSTER_VARIABLE with its name is the cluster. Ray's agents outlive a killed command."""
    # Late: `keeping` stands before every command, and must be quick.
    from subprocess import DEVNULL, PIPE, Popen

    command = [sys.executable, "-I", "-S", __file__, "reap", str(folder)]
    # Its stdin ends with us, however we end.
    reaper = Popen(command, stdin=PIPE, stdout=DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        reaper.communicate()


def _reap(folder: str) -> None:
    import shutil

    os.read(0, 1)
    ours = (os.getpid(), os.getppid())

    def left() -> list[int] | None:
        return [p for p in _processes() if p not in ours and _is_of_cluster(p, folder)] or None

    kill_what_is_left(left, _CLUSTER_GONE_S, _REAP_S, patience_s=_LEFT_TO_RAY_S)
    shutil.rmtree(folder, ignore_errors=True)


def _is_of_cluster(pid: int, folder: str) -> bool:
    """Whether it has the mark, or a file of the folder open. Who sets a long title writes over its
    environment. Ray's agents do, and have their logs open."""
    if has_variable(pid, CLUSTER_VARIABLE, folder):
        return True
    inside = f"{Path(folder).resolve()}/"  # a link, such as that of TMPDIR, is in no /proc
    with suppress(OSError):
        return any(file.startswith(inside) for file in _open_files(pid))
    return False


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        _keep(sys.argv[2], sys.argv[3:])
    else:
        _reap(sys.argv[2])
