"""Processes on this machine: started from a forkserver, ended with all that they have started."""

import json
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import psutil

from tuner.errors import LauncherError
from tuner.world.rank.entry import PRELOADED, RESTORED


class Processes:
    """Starts processes from a forkserver that has torch imported already."""

    def __init__(self) -> None:
        self.context: ForkServerContext = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([PRELOADED])

    def start(
        self, target: Callable[..., None], arguments: tuple[object, ...]
    ) -> ForkServerProcess:
        """A new process that runs `target`. LauncherError if there can be none."""
        process = self.context.Process(target=target, args=arguments, daemon=True)
        try:
            with _without_main_module():
                with _own_import_path():
                    forkserver.ensure_running()
                process.start()
        except (OSError, EOFError) as error:
            raise LauncherError(f"cannot start a process: {error or 'no forkserver'}") from error
        return process


def end_process(process: ForkServerProcess) -> None:
    """Kill a process, and whatever it has started, if anything of it is left; wait for its end."""
    if (pid := process.pid) is None:
        return
    descendants = []
    if process.exitcode is None:
        with suppress(psutil.Error):
            descendants = psutil.Process(pid).children(recursive=True)
        # At its very start a process is in no group of its own.
        process.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for descendant in descendants:
        with suppress(psutil.Error):
            descendant.kill()
    process.join()


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
