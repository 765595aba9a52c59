"""Imports modules, then forks a process for each run of the program, and reports how it ends."""

import contextlib
import importlib
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker  # noqa: F401
import os
import signal
import socket
import sys
from pathlib import Path

# By its name: a library may patch the clock as it is imported.
from time import time_ns
from typing import Any

from . import descendants, program, socket_channel, template
from .preloading import keep_to_the_end, preload


def main(descriptor: int) -> None:
    """Serve the socket until the other side closes it; then end all that was started. Its
    messages say what to import, as the first one does, or what to run. For the answers see
    `tuner.world.messages`."""
    hook = importlib.import_module("rpc_tuner_hook")
    del sys.path[:2]
    if not sys.flags.safe_path:
        del sys.path[0]
    os.set_inheritable(descriptor, False)
    task = _Server(socket_channel.SocketChannel(socket.socket(fileno=descriptor)), hook).serve()
    if task is not None:
        program.run(task)
        return
    descendants.end_descendants(os.getpid())
    os._exit(0)


class _Server:
    def __init__(self, control: socket_channel.SocketChannel, hook: Any) -> None:
        self._control = control
        self._hook = hook
        self._runs = set[int]()

    def serve(self) -> template.Task | None:
        """What to run, in the process that is to run it; None in the server, at its end."""
        descendants.keep_orphans()  # nothing that a program leaves may get out of reach
        order, _ = self._control.receive()
        changed = self._import(order)
        signal.signal(signal.SIGCHLD, self._reap)
        server = os.getpid()
        while True:
            try:
                order, descriptors = self._control.receive()
            except (EOFError, OSError):
                return None
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if "modules" in order:
                descendants.end_descendants(os.getpid())  # what a run has left, and no module
                self._reap(signal.SIGCHLD, None)
                changed = self._import(order)
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
                continue
            if (pid := os.fork()) == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
            self._runs.add(pid)
            self._report("forked", pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        descendants.signal_with_parent(signal.SIGKILL)
        if os.getppid() != server:  # it was killed before that
            os._exit(1)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        out, err = descriptors
        environment = {**order["environment"], **changed}
        inherited = {**order, "environment": environment, "blocked": blocked, "ignored": []}
        program.become(inherited, {0: os.open(os.devnull, os.O_RDONLY), 1: out, 2: err})
        return template.keep_template(order["task"], self._hook.read_at_import)

    def _import(self, order: dict[str, Any]) -> dict[str, str]:
        """Import what an order names, and report it; what the environment has that is new."""
        before = set(sys.modules)
        found = preload(
            order["modules"], self._hook.is_installed, one_by_one=order["one_by_one"],
            are_named=order["are_named"],
        )  # fmt: skip
        keep_to_the_end(sys.modules.keys() - before)
        changed = _changed_environment()
        self._report("preloaded", os.getpid(), **found, changed=changed)
        return changed

    def _reap(self, number: int, frame: object) -> None:
        is_over = False
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if (pid := ended[0]) in self._runs:
                    self._runs.remove(pid)
                    self._report("gone", pid, code=os.waitstatus_to_exitcode(ended[1]))
                    is_over = not self._runs
        if is_over:
            descendants.end_descendants(os.getpid())  # daemons that no run is there for any more

    def _report(self, kind: str, pid: int, **facts: object) -> None:
        with contextlib.suppress(OSError):  # its reader is gone
            self._control.send({"kind": kind, "pid": pid, "time_ns": time_ns(), **facts})


def _changed_environment() -> dict[str, str]:
    """What Python, a sitecustomize or a library has set in this process since its start."""
    start = {*Path("/proc/self/environ").read_bytes().split(b"\0")}
    return {
        os.fsdecode(name): os.fsdecode(text)
        for name, text in os.environb.items()
        if b"%s=%s" % (name, text) not in start
    }
