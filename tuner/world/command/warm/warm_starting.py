"""The warm way to start a program: from a server that has imported what the program imports."""

import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tuner.errors import LauncherError
from tuner.world.command.events import read_events
from tuner.world.command.hook.rpc_tuner_imports import read_at_import
from tuner.world.command.order import ORDER_VARIABLE
from tuner.world.command.warm.serving import Server, WarmProcess

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_KEPT = "bBdOPqRsu"
"""Options that the server is started with too, so that each has the effect that it has."""
_KEPT_X = {"dev", "faulthandler", "frozen_modules", "int_max_str_digits", "no_debug_ranges",
           "pycache_prefix", "utf8", "warn_default_encoding"}  # fmt: skip
_WITHOUT_HOOK = "EIS"


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What the ranks of a program had done by the time they called `init_rpc`."""

    modules: tuple[str, ...] = ()
    """Installed ones that they had imported, in that order."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The variables they had that are read as libraries are imported."""


def learn(reports: Path) -> Learnt:
    """What the processes of a run have reported to their folder, for an order with `learn`."""
    modules: dict[str, None] = {}
    environment: dict[str, str] = {}
    for file in sorted(reports.glob("*.jsonl")):
        for event in read_events(file):
            if event["event"] == "imported":
                modules.update(dict.fromkeys(event["modules"]))
                environment.update(event["environment"])
    return Learnt(modules=tuple(modules), environment=environment)


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


@dataclass(frozen=True, kw_only=True)
class PythonCommand:
    """A command that runs a script or a module in Python."""

    interpreter: tuple[str, ...]
    """Python and the options that are its own."""
    kind: str
    """`script` or `module`."""
    name: str
    """The script's path as it is given, or the module's name."""
    arguments: tuple[str, ...]
    """What is the program's own."""


def recognise(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> PythonCommand | str:
    """The parts of a command that can be started warm; of another one, a clause that says why not.

    Args:
        command: The program and its arguments.
        environment: What it is started with; `PATH` says where Python is.
        cwd: The folder it is started in.
    """
    if not command or _INTERPRETER.fullmatch(Path(command[0]).name) is None:
        return "it does not start with python"
    if shutil.which(cwd / command[0] if "/" in command[0] else command[0],
                    path=environment.get("PATH")) is None:  # fmt: skip
        return f"{command[0]} cannot be started"
    after = 1
    for letter, value, place in _options(command):
        if letter == "m":
            # What is before -m in the same argument is an option too: `-um`.
            before = command[after][1 : command[after].index("m")]
            interpreter = (*command[:after], *([f"-{before}"] if before else []))
            return PythonCommand(
                interpreter=interpreter, kind="module", name=value, arguments=tuple(command[place:])
            )
        if (problem := _problem(letter, value)) is not None:
            return problem
        after = place
    return _script(command, after, cwd)


def _options(command: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Each option of the interpreter: its letter, its value, and where the next argument is."""
    place = 1
    while place < len(command) and command[place].startswith("-") and command[place] != "-":
        argument = command[place]
        for at, letter in enumerate(argument[1:], start=1):
            if letter in "cmWX":
                value = argument[at + 1 :]
                if not value:
                    place += 1
                    value = command[place] if place < len(command) else ""
                yield letter, value, place + 1
                break
            # It takes effect with the rest of its argument.
            yield letter, "", place + (at == len(argument) - 1)
        place += 1


def _problem(letter: str, value: str) -> str | None:
    """Why an option of the interpreter rules a warm start out; None if it does not."""
    if letter in _KEPT or letter == "W":
        return None
    if letter == "X":
        name = value.partition("=")[0]
        return None if name in _KEPT_X else f"-X {name} looks at how Python starts"
    if letter in _WITHOUT_HOOK:
        return f"-{letter} keeps the hook out"
    if letter == "c":
        return "it runs the code after -c"
    return f"the option -{letter} of python asks for another way of running"


def _script(command: Sequence[str], place: int, cwd: Path) -> PythonCommand | str:
    if place >= len(command) or command[place] == "-":
        return "it names no script"
    name = command[place]
    if not (cwd / name).is_file() or Path(name).suffix in {".pyc", ".zip", ".pyz"}:
        return f"{name} is no file of Python's source"
    return PythonCommand(
        interpreter=tuple(command[:place]),
        kind="script",
        name=name,
        arguments=tuple(command[place + 1 :]),
    )
