"""A copy of a process as it was before its program ran; new children are forked from it.

`multiprocessing` starts Python again for a child by `spawn`, for its resource tracker and for its
forkserver. Here the copy is forked instead, and the new process becomes a child of the one that
asked, which can wait for it and signal it as ever."""

import atexit
import contextlib
import ctypes
import fcntl
import multiprocessing.util
import os
import platform
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import descendants, program, socket_channel

Task = Mapping[str, Any]
"""See `program.run`."""
_STDIO = (0, 1, 2)
_HIGH = 200
"""The first number for a descriptor of ours: a program that counts its own does not meet it."""
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_CLONE = {"x86_64": 56, "aarch64": 220}
_libc = ctypes.CDLL(None)


def keep_template(task: Task, read_at_import: Callable[[Mapping[str, str]], object]) -> Task:
    """Fork the copy; returns the task of this process, and in children that come later, theirs.
    `read_at_import` is the part of an environment that has its effect as modules are imported."""
    ours, theirs = socket.socketpair()
    try:
        pid = _fork_unseen()
    except OSError:
        ours.close()
        theirs.close()
        return task
    if pid == 0:
        ours.close()
        return _serve(theirs)
    theirs.close()
    high = socket.socket(fileno=fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, _HIGH))
    ours.close()
    atexit.register(high.close)
    multiprocessing.util.spawnv_passfds = _Spawner(high, read_at_import).spawn
    return task


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Take the orphans among the descendants as children, for a moment."""
    before = ctypes.c_int()
    _libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    descendants.keep_orphans()
    try:
        yield
    finally:
        _libc.prctl(_SET_SUBREAPER, before.value, 0, 0, 0)


def _fork_unseen() -> int:
    """As `os.fork()`, but `os.wait()` does not see the child: its end sends no signal."""
    if (number := _CLONE.get(platform.machine())) is None:
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


class _Spawner:
    """Starts processes from the copy, where they would be the same as new ones."""

    def __init__(
        self, connection: socket.socket, read_at_import: Callable[[Mapping[str, str]], object]
    ) -> None:
        self._channel = socket_channel.SocketChannel(connection)
        self._read_at_import = read_at_import
        self._plain = multiprocessing.util.spawnv_passfds
        self._lock = threading.Lock()
        self._start = self._what_a_child_gets()
        flags = multiprocessing.util._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self._python = [*map(os.fsencode, [sys.executable, *flags, "-c"])]

    def spawn(self, path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        """As `multiprocessing.util.spawnv_passfds`."""
        command = [os.fsencode(word) for word in (path, *args[1:])]
        code = len(self._python)
        if command[:code] != self._python or self._what_a_child_gets() != self._start:
            return self._plain(path, args, passfds)
        orig_argv = [os.fsdecode(word) for word in args]
        name, *argv = orig_argv[code:]
        entries = [entry for entry in sys.path if isinstance(entry, str)]
        task = {"kind": "code", "name": name, "argv": argv, "orig_argv": orig_argv,
                "path_of_hook": entries}  # fmt: skip
        numbers = sorted({*_STDIO, *map(int, passfds)})
        try:
            message = {"task": task, "numbers": numbers, "inherited": _inherited()}
            with self._lock, _adopting():
                self._channel.send(message, numbers)
                pid: int | None = self._channel.receive()[0]["pid"]
        except (OSError, EOFError):
            pid = None  # a closed stdin, a copy that somebody has killed
        return self._plain(path, args, passfds) if pid is None else pid

    def _what_a_child_gets(self) -> object:
        """What the copy has of its own, which the program may have changed for itself since."""
        kept = (b"Umask", b"Uid", b"Gid", b"Groups", b"Cap", b"NSsid", b"NSpgid", b"NoNewPrivs",
                b"Seccomp", b"Cpus_allowed", b"Mems_allowed")  # fmt: skip
        here = Path("/proc/self")
        status, *others = [(here / name).read_bytes() for name in ("status", "limits", "cgroup")]
        return (
            os.getpid(),
            [line for line in status.splitlines() if line.startswith(kept)],
            others,
            [_link(path) for path in (*sorted((here / "ns").iterdir()), here / "root")],
            os.getpriority(os.PRIO_PROCESS, 0),
            self._read_at_import(os.environ),
        )


def _serve(connection: socket.socket) -> Task:
    """Fork a process for each request; returns in those. Ends with the one that asks."""
    descendants.signal_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    channel, nothing = socket_channel.SocketChannel(connection), os.open(os.devnull, os.O_RDWR)
    for number in _STDIO:
        os.dup2(nothing, number)
    os.close(nothing)
    while True:
        try:
            request, descriptors = channel.receive()
        except (EOFError, OSError):
            os._exit(0)
        pid = _fork_orphan(connection)
        if pid == 0:
            placed = dict(zip(request["numbers"], descriptors, strict=True))
            program.become(request["inherited"], placed)
            return request["task"]  # type: ignore[no-any-return]
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            channel.send({"pid": pid})


def _fork_orphan(connection: socket.socket) -> int | None:
    """As `os.fork()`, but the parent of the new process is gone: it returns here as a child of the
    nearest subreaper. None if no process can be forked."""
    reader, writer = os.pipe()
    if (between := os.fork()) == 0:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid != 0:
            os.write(writer, b"%d" % pid)
            os._exit(0)
        for descriptor in (connection.detach(), reader, writer):
            os.close(descriptor)
        while os.getppid() == parent:
            time.sleep(0.0005)
        return 0
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        written = answer.read()
    os.waitpid(between, 0)
    return int(written) if written else None


def _inherited() -> dict[str, object]:
    """What a new process inherits of this one, as `program.become` takes it."""
    settable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return {
        "cwd": str(Path.cwd()),
        "environment": dict(os.environ),
        "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "ignored": [number for number in settable if signal.getsignal(number) is signal.SIG_IGN],
    }


def _link(path: Path) -> str:
    with contextlib.suppress(OSError):
        return str(path.readlink())
    return ""
