"""Imports modules, then forks a process for each run of the program, and reports how it ends."""

import contextlib
import importlib
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker  # noqa: F401
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from . import linux, messages, program, template
from .preloading import preload


def main(descriptor: int) -> None:
    """Serve the socket until the other side closes it; then end all that was started.

    Args:
        descriptor: The socket. Its first message says what to import (`modules`, `one_by_one`),
            and is answered with what came of it; each later one is a run.
    """
    hook = importlib.import_module("rpc_tuner_hook")
    del sys.path[:2]
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    task = _Server(socket.socket(fileno=descriptor), hook).serve()
    if task is not None:
        program.run(task)
        return
    linux.end_descendants()
    os._exit(0)


class _Server:
    def __init__(self, control: socket.socket, hook: Any) -> None:
        os.set_inheritable(control.fileno(), False)
        self._control = control
        self._hook = hook
        self._runs: dict[int, int] = {}
        """Where to write how each process has ended, by its id."""

    def serve(self) -> template.Task | None:
        """What to run, in the process that is to run it; None in the server, at its end."""
        linux.set_subreaper(True)  # nothing that a program leaves may get out of reach
        try:
            order, _ = messages.receive(self._control)
        except EOFError:
            return None
        before = set(sys.modules)
        found = preload(order["modules"], self._hook.is_installed, one_by_one=order["one_by_one"])
        linux.keep_to_the_end(sys.modules.keys() - before)
        self._changed = _changed_environment()
        messages.send(self._control, {**found, "changed": self._changed})
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    self._reap()
                if self._control in ready:
                    try:
                        order, descriptors = messages.receive(self._control)
                    except (EOFError, OSError):
                        return None
                    if (pid := os.fork()) == 0:
                        break
                    out, err, self._runs[pid] = descriptors
                    os.close(out)
                    os.close(err)
                    _report(self._runs[pid], pid)
        return self._in_child(order, descriptors)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        is_over = False
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if (report := self._runs.pop(ended[0], None)) is not None:
                    _report(report, os.waitstatus_to_exitcode(ended[1]))
                    os.close(report)
                    is_over = not self._runs
        if is_over:
            linux.end_descendants()  # daemons that no run is there for any more

    def _in_child(self, order: dict[str, Any], descriptors: list[int]) -> template.Task:
        linux.die_with_parent()
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for connection in (self._control, self._woken, self._wake):
            connection.close()
        out, err, report = descriptors
        for descriptor in (report, *self._runs.values()):
            os.close(descriptor)
        inherited = {
            "cwd": order["cwd"],
            "environment": {**order["environment"], **self._changed},
            "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
            "ignored": [],
        }
        program.become(inherited, {0: os.open(os.devnull, os.O_RDONLY), 1: out, 2: err})
        return template.keep_template(order["task"], self._hook.read_at_import)


def _report(where: int, number: int) -> None:
    with contextlib.suppress(OSError):  # its reader is gone
        os.write(where, b"%d\n" % number)


def _changed_environment() -> dict[str, str]:
    """What Python, a sitecustomize or a library has set in this process since its start."""
    lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    start = dict(line.partition(b"=")[::2] for line in lines if line)
    return {
        os.fsdecode(name): os.fsdecode(value)
        for name, value in os.environb.items()
        if start.get(name) != value
    }
