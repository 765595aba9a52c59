"""The warm way: from a server that has imported what the program imports."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tuner.errors import LauncherError
from tuner.world.command.hook.rpc_tuner_imports import read_at_import
from tuner.world.command.order import ORDER_VARIABLE
from tuner.world.command.warm.learning import Learnt
from tuner.world.command.warm.recognising import PythonCommand, recognise
from tuner.world.command.warm.serving import Server, WarmProcess


class WarmStarter:
    """Starts a Python program from a server that has imported its libraries; a context manager.

    The server runs in the program's own interpreter, with its options, environment and folder.
    Children that the program starts by `spawn` come from it too; those that they start in turn
    start cold, as does what the program starts by `subprocess` or `exec`.

    What a program can see of it:

    - `sys.modules` holds more from the start, and what imports warn of was said before.
    - Frames of ours are below its own on the stack; tracebacks do not show them.
    - Hash seeds are the same in each run, and in its children; other seeds are drawn anew.
    - The first process has one child more, which `os.wait` passes over.
    - What libraries hold at its end is not freed, nor are their C++ objects.
    - Pages are copied when they are first written to: some milliseconds, in the first calls.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        learnt: Learnt,
        *,
        prefix: Sequence[str] = (),
        until_s: float = math.inf,
    ) -> None:
        """Prepare; the server starts on entering.

        Args:
            command: The program and its arguments.
            environment: What the program is started with, the hook in it; see `start`.
            cwd: The folder to start it in.
            learnt: What its first run showed.
            prefix: What goes before the server's command, such as `unshare -n`.
            until_s: When to give up a server that still imports, by `time.monotonic`.

        Raises:
            LauncherError: It is none of the commands that can be; the message says why.
        """
        recognised = recognise(command, environment, cwd)
        if isinstance(recognised, str):
            raise LauncherError(f"the program cannot be started warm: {recognised}")
        self._parts: PythonCommand = recognised
        self._command = list(command)
        self._cwd = cwd.absolute()
        self._learnt = learnt
        self._prefix = prefix
        self._until_s = until_s
        self._environment = {**environment}
        self._environment.pop(ORDER_VARIABLE, None)
        self._running: list[WarmProcess] = []
        self._server: Server | None = None
        self.left_out: Mapping[str, str] = {}
        """Modules that are not imported beforehand, and why not, as a clause."""

    def start(self, environment: Mapping[str, str], stdout: int, stderr: int) -> WarmProcess:
        """See `Starter`.

        Variables that libraries read as they are imported must be those that the server has.
        """
        assert self._server is not None
        differing = _differing(read_at_import(environment), read_at_import(self._environment))
        if differing:
            raise LauncherError(f"the server was started with another {', '.join(differing)}")
        self._running = [process for process in self._running if process.poll() is None]
        task = {
            "kind": self._parts.kind,
            "name": self._parts.name,
            "argv": self._parts.arguments,
            "orig_argv": self._command,
        }
        inherited = {"cwd": str(self._cwd), "environment": dict(environment)}
        process = self._server.start(
            {"task": task, "inherited": inherited}, stdout, stderr, self._command
        )
        self._running.append(process)
        return process

    def check(self) -> None:
        """ServerGoneError if the server has ended, and with it what was started last."""
        if self._server is not None and any(process.is_lost for process in self._running):
            raise self._server.gone()

    def __enter__(self) -> Self:
        """Start the server, which takes as long as the imports take.

        Raises:
            LauncherError: Nothing can be started warm here; the message says why.
        """
        try:
            server = self._start_server(one_by_one=False)
        except LauncherError:
            # Perhaps a module ends the process that imports it.
            server = self._start_server(one_by_one=True)
        if server.found["unfit"] is not None:
            # Some module leaves what does not survive a fork: find out which one.
            server.close()
            server = self._start_server(one_by_one=True)
        found = server.found
        # What Python, a sitecustomize or a library sets is set again by the server.
        known = {**self._environment, **found["changed"]}
        by_program = _differing(self._learnt.environment, read_at_import(known))
        if found["unfit"] is not None:
            why = f"it cannot be imported beforehand: {found['unfit']}"
        elif by_program:
            why = f"it sets {', '.join(by_program)}, which libraries read as they are imported"
        else:
            self._server, self.left_out = server, found["left_out"]
            return self
        server.close()
        raise LauncherError(f"the program cannot be started warm: {why}")

    def __exit__(self, *ending: object) -> None:
        """End the server, and all that is left of what it has started."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for process in self._running:
            process.wait()

    def _start_server(self, *, one_by_one: bool) -> Server:
        return Server(
            [*self._prefix, *self._parts.interpreter],
            self._environment,
            self._cwd,
            {"modules": self._learnt.modules, "one_by_one": one_by_one},
            self._until_s,
        )


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names whose values differ, or that only one has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
