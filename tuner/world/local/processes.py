"""Processes on this machine: started from a forkserver, ended with all that they have started."""

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import types
from _thread import start_new_thread
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from tuner.errors import LauncherError, UsageError
from tuner.world.descendants import descendants, end_descendants, holds, kill, living_children
from tuner.world.rank.entry import PRELOADED, RESTORED, start_pinned

# A process that was killed may take so long to be gone.
RELEASE_S = 5.0
# A forkserver that imports torch takes less, unless somebody has stopped it: another is started.
START_S = 60.0
_POLL_S = 0.05
_GONE = (EOFError, ConnectionError)
_REAPED_S = 0.002
# A process that is being started is not known yet.
_starting = threading.Lock()
_known: set[int] = set()
"""The processes that were started, by any thread, and that were not ended."""
# Of the path of a Unix socket; multiprocessing's are of this length below the temporary folder.
_MOST_BYTES, _BELOW = 107, len("/pymp-12345678/listener-12345678")


def check_socket_fits() -> None:
    """UsageError if the folder for temporary files has a path that is too long for a socket."""
    folder = tempfile.gettempdir()
    if (length := len(os.fsencode(folder))) > _MOST_BYTES - _BELOW:
        raise UsageError(
            f"the folder for temporary files has a path of {length} bytes ({folder}), and a socket "
            f"fits below one of {_MOST_BYTES - _BELOW} at most: set TMPDIR to a shorter one"
        )


class Processes:
    """Starts processes from a forkserver that has torch imported already.

    Several of these may be used at the same time, each from a thread of its own.

    Args:
        cpus: The logical CPUs that the processes, and whatever they start, are kept to; None: those
            of this process.
    """

    def __init__(self, cpus: Collection[int] | None = None) -> None:
        self._cpus = None if cpus is None else tuple(sorted(cpus))
        self.context: ForkServerContext = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([PRELOADED])

    def start(
        self, target: Callable[..., None], arguments: tuple[object, ...]
    ) -> ForkServerProcess:
        """A new process that runs `target`. LauncherError if there can be none."""
        if self._cpus is not None:
            target, arguments = start_pinned, (self._cpus, target, *arguments)
        until = time.monotonic() + START_S + RELEASE_S
        while True:
            process = self.context.Process(target=target, args=arguments, daemon=True)
            try:
                with _starting, _without_main_module(), _forkserver_ended_after(START_S):
                    with _own_import_path():
                        forkserver.ensure_running()
                    # One that is started by half has nothing to read, and prints a traceback.
                    _uninterrupted(process.start)
                    # The next start, of any thread, would look whether this one has ended, and two
                    # that look at once read one exit code: the slower finds none, and says 255.
                    multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
                    _known.add(process.pid or 0)
            except (OSError, EOFError) as error:
                # A forkserver that somebody has killed is there until the kernel has released it.
                if time.monotonic() < until and isinstance(error, _GONE):
                    time.sleep(_POLL_S)
                    continue
                why = error or "no forkserver"
                raise LauncherError(f"cannot start a process: {why}") from error
            return process


def _uninterrupted(action: Callable[[], None]) -> None:
    """Run it to its end, also if Ctrl-C comes meanwhile: a thread gets no KeyboardInterrupt."""
    raised: list[BaseException] = []
    is_over = threading.Event()

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)
        finally:
            is_over.set()

    # Thread.start() waits for the thread, and may be interrupted there.
    start_new_thread(run, ())
    try:
        is_over.wait()
    finally:
        is_over.wait()
    if raised:
        raise raised[0]


def end_process(process: ForkServerProcess) -> None:
    """Kill a process, and whatever it has started, if anything of it is left; wait for its end."""
    if (pid := process.pid) is None:
        return
    if process.exitcode is None:
        # Stopped, it starts no more, and is there to take over the orphans of those that end.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        end_descendants(pid)
        # At its very start a process is in no group of its own.
        process.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    process.join(RELEASE_S)
    if process.exitcode is None:
        # It is the forkserver that reports it, and it was stopped from outside.
        _end_forkserver()
        process.join(RELEASE_S)
    _known.discard(pid)


def _end_forkserver() -> None:
    """Kill it; the next start starts another."""
    server: Any = forkserver._forkserver
    if (pid := server._forkserver_pid) is not None:
        kill([pid])


@contextmanager
def _forkserver_ended_after(seconds: float) -> Iterator[None]:
    """End the forkserver if the body takes longer, which waits for it without end."""
    timer = threading.Timer(seconds, _end_forkserver)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def end_orphans() -> None:
    """Kill what was started by processes that are gone: the forkserver has it as children then."""
    server: Any = forkserver._forkserver
    until = time.monotonic() + RELEASE_S
    with _starting:
        while (left := _orphans(server)) and time.monotonic() < until:
            kill(left)
            time.sleep(_REAPED_S)


def _orphans(server: Any) -> list[int]:
    """The forkserver's children that it was not asked for, with all that they have started."""
    pid, alive = server._forkserver_pid, server._forkserver_alive_fd
    if pid is None or alive is None:
        return []
    pipe = os.fstat(alive)
    return [
        each
        for child in living_children(pid)
        # Who is no orphan, and none of ours, holds the pipe that all users of the server hold.
        if child not in _known and not holds(child, pipe)
        for each in (*descendants(child), child)
    ]


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Hide `__main__` from multiprocessing, which would run it again in every new process.

    A rank needs nothing of it, a command line would cost it time, and a person's script that
    has no `if __name__ == "__main__"` would start a search in each rank.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _own_import_path() -> Iterator[None]:
    """Have a forkserver that starts now look for modules where this process does.

    By itself it would look in the current folder first, where `tuner` or `workloads` may be
    a person's own. Once it has imported ours, it restores its environment (`RESTORED`).
    """
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    changes = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes, **{RESTORED: json.dumps(before)})
    try:
        yield
    finally:
        del os.environ[RESTORED]
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
