"""The warm way to start a program: from a server that has imported what the program imports. All
else of this folder is behind this module."""

import math
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from tuner.errors import LauncherError
from tuner.world.command.hook.rpc_tuner_hook import read_at_import
from tuner.world.command.order import HOOK, ORDER_VARIABLE
from tuner.world.command.warm.python_command import recognise
from tuner.world.descendants import kill_group
from tuner.world.messages import Message, of_warm_server
from tuner.world.socket_channel import SocketChannel

# The longest that a server may take to import all: a slow disk is no failure. And the least:
# none at all would mean that nothing waits.
_START_S, _LEAST_START_S = 300.0, 1.0
# The longest that a server takes to fork; one that was stopped never does.
_FORK_S = 20.0
_END_S = 20.0


class ServerGoneError(LauncherError):
    """A server has ended, and what it had started with it."""


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What the ranks of a program had imported by the time they called `init_rpc`, in order, of
    what is installed; and the variables that they had which libraries read at their import."""

    modules: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default_factory=dict)
    """None of what no run has shown: the modules are those that the program's files name."""


def learn(messages: Iterable[Sequence[Message]]) -> Learnt:
    """From what each process of a run has reported, for an order with `learn`."""
    imported = [each for process in messages for each in process if each["kind"] == "imported"]
    modules = dict.fromkeys(name for message in imported for name in message["modules"])
    environment = {name: text for each in imported for name, text in each["environment"].items()}
    return Learnt(modules=tuple(modules), environment=environment)


@dataclass
class WarmProcess:
    """A process of a server, as `subprocess.Popen`; one thread at a time asks those of a server."""

    pid: int
    _server: "_Server"
    _code: int | None = None
    is_lost: bool = False
    """Whether it ended with its server, so that its exit code is unknown."""

    def poll(self) -> int | None:
        """See `subprocess.Popen`."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """See `subprocess.Popen`."""
        if self._code is None:
            try:
                self._code = self._server.code_of(
                    self.pid, math.inf if timeout is None else timeout
                )
            except TimeoutError:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0) from None
            except EOFError:
                # The server is gone, and the process with it; not so the children of that.
                self.is_lost = True
                kill_group(self.pid)
                self._code = -signal.SIGKILL
        return self._code


class WarmStarter:
    """Starts a Python program from a server that has imported its libraries; a context manager,
    which waits for the imports as it is entered.

    The server runs in the program's own interpreter, with its options, environment and folder.
    Children that the program starts by `spawn` come from it too; those that they start in turn
    start cold, as does what the program starts by `subprocess` or `exec`. LauncherError says why
    it cannot be. `environment` is the program's, with the hook; `prefix` goes before the server's
    command; one that still imports at `until_s`, by `time.monotonic`, is given up. A command of the
    same interpreter as one `beside` it shares its server.

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
        beside: Iterable[Self] = (),
    ) -> None:
        parts = recognise(command, environment, cwd)
        if isinstance(parts, str):
            raise LauncherError(f"the program cannot be started warm: {parts}")
        self._task = {"kind": parts.kind, "name": parts.name, "argv": parts.arguments,
                      "orig_argv": [*command[command.index(parts.interpreter[0]) :]]}  # fmt: skip
        self._variables = dict(parts.variables)
        self._cwd = cwd.absolute()
        self._environment = {k: v for k, v in environment.items() if k != ORDER_VARIABLE}
        self._interpreter = parts.interpreter
        self._running: list[WarmProcess] = []
        shared = [each._imports for each in beside if each._interpreter == parts.interpreter]
        self._imports: _Imports = shared[0] if shared else _Imports(
            partial(_Server, [*prefix, *parts.interpreter], self._environment, self._cwd), learnt,
            self._environment, until_s,
        )  # fmt: skip

    @property
    def left_out(self) -> Mapping[str, str]:
        """Modules that are not imported beforehand, and why not, as a clause."""
        return self._imports.left_out

    def wait(self) -> None:
        """Wait until all is imported. LauncherError says why it cannot be, and ends the server."""
        self._imports.wait()

    def learn(self, learnt: Learnt, until_s: float) -> None:
        """Have the server, which has imported something, import this too; `wait` waits for it."""
        self._imports.add(learnt, until_s)

    def start(self, environment: Mapping[str, str], stdout: int, stderr: int) -> WarmProcess:
        """As a `ColdStarter`; what libraries read at their import must be as the server has it."""
        differing = _differing(read_at_import(environment), read_at_import(self._environment))
        if differing:
            raise LauncherError(f"the server was started with another {', '.join(differing)}")
        self._running = [process for process in self._running if process.poll() is None]
        order = {"task": self._task, "cwd": str(self._cwd),
                 "environment": {**environment, **self._variables}}  # fmt: skip
        self._running.append(self._imports.server.start(order, stdout, stderr))
        return self._running[-1]

    def check(self) -> None:
        """ServerGoneError if the server has ended, and with it what was started last."""
        if any(process.is_lost for process in self._running):
            raise self._imports.server.gone()

    def __enter__(self) -> Self:
        self.wait()
        return self

    def __exit__(self, *ending: object) -> None:
        self._imports.server.close()  # and all that is left of what it has started
        for process in self._running:
            process.wait()


class _Imports:
    """The server of commands that have one interpreter, and what came of its imports."""

    def __init__(
        self, new_server: Callable[..., "_Server"], learnt: Learnt, environment: Mapping[str, str],
        until_s: float,
    ) -> None:  # fmt: skip
        self._new_server, self._learnt, self._environment = new_server, learnt, environment
        self._until_s = until_s
        self._problem: str | None = None
        """Why it cannot be; empty if it can, None until that is known."""
        self.left_out: Mapping[str, str] = {}
        self.server = new_server(learnt, until_s, one_by_one=False)

    def add(self, learnt: Learnt, until_s: float) -> None:
        """See `WarmStarter.learn`; once for all commands."""
        if learnt != self._learnt:
            self._learnt, self._until_s, self._problem = learnt, until_s, None
            self.server.order(learnt, until_s)

    def wait(self) -> None:
        """See `WarmStarter.wait`."""
        if self._problem is None:
            self._problem = self._found()
        if self._problem:
            self.server.close()
            raise LauncherError(f"the program cannot be started warm: {self._problem}")

    def _found(self) -> str:
        found = None
        with suppress(LauncherError):  # perhaps a module ends the process that imports it
            found = self.server.found()
        if found is None or found["unfit"] is not None:
            # Some module leaves what does not survive a fork: find out which one.
            self.server.close()
            self.server = self._new_server(self._learnt, self._until_s, one_by_one=True)
            found = self.server.found()
        self.left_out = found["left_out"]
        if found["unfit"] is not None:
            return f"it cannot be imported beforehand: {found['unfit']}"
        if (environment := self._learnt.environment) is None:
            return ""
        # What Python, a sitecustomize or a library sets is set again by the server.
        known = {**self._environment, **found["changed"]}
        if by_program := _differing(environment, read_at_import(known)):
            return f"it sets {', '.join(by_program)}, which libraries read as they are imported"
        return ""


class _Server:
    """A process that imports modules once, and forks itself for each run; LauncherError if it does
    not come up. For what it does see `rpc_tuner_server.main`."""

    def __init__(
        self,
        interpreter: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        learnt: Learnt,
        until_s: float,
        *,
        one_by_one: bool,
    ) -> None:
        self._one_by_one = one_by_one
        ours, theirs = socket.socketpair()
        self._control = SocketChannel(ours)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        folders, number = [str(Path(__file__).parent), str(HOOK)], theirs.fileno()
        begin = "from rpc_tuner_server.main import main"
        code = f"import sys; sys.path[:0] = {folders!r}; {begin}; main({number})"
        try:
            self._process = subprocess.Popen(
                [*interpreter, "-c", code], env=environment, cwd=cwd, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
                pass_fds=[number],
            )  # fmt: skip
        except OSError as error:
            self._control.close()
            self._errors.close()
            raise LauncherError(f"cannot start {interpreter[0]!r}: {error.strerror}") from None
        finally:
            theirs.close()
        self._codes: dict[int, int | None] = {}
        """The exit code of each process; None while it runs."""
        self.order(learnt, until_s)

    def order(self, learnt: Learnt, until_s: float) -> None:
        """Have it import what it has not imported, until then."""
        self._imports = True
        self._until_s = min(until_s, time.monotonic() + _START_S)
        order = {"modules": learnt.modules, "one_by_one": self._one_by_one,
                 "are_named": learnt.environment is None}  # fmt: skip
        self._control.connection.settimeout(self._left_s)
        with suppress(OSError):  # `found` says that it is gone
            self._control.send(order)
        self._control.connection.settimeout(None)

    def found(self) -> dict[str, Any]:
        """What came of the imports, once they are done."""
        try:
            while (found := self._heard(self._left_s))["kind"] != "preloaded":
                pass
        except TimeoutError:
            self.close()
            raise ServerGoneError("importing its packages beforehand takes too long") from None
        except BaseException as error:
            gone = self.gone(str(error))
            self.close()
            if isinstance(error, OSError | EOFError):
                raise gone from None
            raise
        self._imports = False
        return found

    @property
    def _left_s(self) -> float:
        return max(_LEAST_START_S, self._until_s - time.monotonic())

    def start(self, order: Mapping[str, object], stdout: int, stderr: int) -> WarmProcess:
        """Have it start a process."""
        until_s = time.monotonic() + _FORK_S
        try:
            self._control.send(order, [stdout, stderr])
            while (message := self._heard(until_s - time.monotonic()))["kind"] != "forked":
                pass
        except BaseException as error:
            # It may be stopped, and its answer is none to the next order.
            self._process.kill()
            if isinstance(error, OSError | EOFError):
                raise self.gone() from None
            raise
        return WarmProcess(message["pid"], self)

    def code_of(self, pid: int, within_s: float) -> int:
        """The exit code of a process, once it has ended. TimeoutError if that takes longer;
        EOFError if the server has ended before it could report it."""
        until_s = time.monotonic() + within_s
        while (code := self._codes[pid]) is None:
            self._heard(until_s - time.monotonic())
        del self._codes[pid]
        return code

    def _heard(self, within_s: float) -> dict[str, Any]:
        if (message := of_warm_server(self._control.awaited(within_s))) is None:
            raise EOFError("what it sends is no message")
        if message["kind"] == "forked":
            self._codes[message["pid"]] = None
        elif message["kind"] == "gone":
            self._codes[message["pid"]] = message["code"]
        return message

    def close(self) -> None:
        """End it, and with it all that it has started."""
        if self._errors.closed:
            return
        if self._imports:
            # It does not see that it is not waited for any more.
            self._process.kill()
        with suppress(OSError):
            # It may still report how its processes end.
            self._control.connection.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:
            # It has not ended what a module may have started as it was imported.
            kill_group(self._process.pid)
        with suppress(OSError, EOFError):
            while True:
                self._heard(0.0)
        self._control.close()
        self._errors.close()

    def gone(self, otherwise: str = "") -> ServerGoneError:
        """The error that reports its end, with its last words if it had any."""
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip() or otherwise
        last = "".join(f": {line}" for line in said.splitlines()[-1:])
        return ServerGoneError(f"the server of warm starts ended{last}")


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names whose values differ, or that only one has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
