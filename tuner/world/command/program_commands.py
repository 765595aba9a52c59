"""The commands of a program: what starts them, cold or warm, and how those of one run are ended."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.plan.program_request import ProgramRequest
from tuner.process_knobs import THREAD_VARIABLES
from tuner.text import first_of
from tuner.trace.record.clock import ClockOffset
from tuner.world.command.order import ORDER_VARIABLE, HookOrder
from tuner.world.command.warm.warm_starting import (
    Learnt,
    WarmProcess,
    WarmStarter,
    recognise,
)
from tuner.world.descendants import end_groups, keeping
from tuner.world.environment import MachineState
from tuner.world.own_network import OwnNetwork

REAPED_S = 5.0
MOST_OTHERS = 2
"""Numbers of threads beside the program's own whose servers are kept: each holds all imports."""
_GENTLE: tuple[tuple[int, float], ...] = ((signal.SIGINT, 1.0), (signal.SIGTERM, 2.0))
"""Signals, and how many seconds each gets to have its effect: what waits in C++ sees no SIGINT."""
_HAND_OVER_S = 2.0
"""So much longer for ranks that are recorded, until they begin to write; then _MOST_HAND_OVER_S."""
_MOST_HAND_OVER_S = 30.0
_POLL_S = 0.02
_MOST_NAMED = 3


@dataclass(frozen=True)
class ColdStarter:
    """Starts a command as it is, in a session of its own."""

    command: Sequence[str]
    cwd: Path
    prefix: Callable[[], Sequence[str]] = tuple
    """Gives what goes before the command when it starts."""

    def start(
        self, environment: Mapping[str, str], stdout: int, stderr: int
    ) -> "subprocess.Popen[bytes]":
        """Start it once more, its stdin at its end; the descriptors stay open here. LauncherError
        if it cannot be."""
        try:
            return subprocess.Popen(
                [*self.prefix(), *self.command], env=environment, cwd=self.cwd,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            )  # fmt: skip
        except OSError as error:
            raise LauncherError(f"cannot start {self.command[0]!r}: {error.strerror}") from None


Starter = ColdStarter | WarmStarter
_Threads = tuple[tuple[str, str], ...]
"""The variables that say how many threads compute, and their values."""


class Starters:
    """A starter for each command; a context manager. `notify` gets why runs are cold, and what each
    imports anew; with `isolation` they have a network of their own, where they can."""

    def __init__(self, notify: Callable[[str], None], *, isolation: bool = True) -> None:
        self._notify = notify
        self._isolation = isolation
        self._network = OwnNetwork()
        self._open = ExitStack()
        self._servers = ExitStack()
        self._cold: Sequence[Starter] = ()
        self._begun: tuple[Learnt, Sequence[WarmStarter | None]] | None = None
        self._again: Callable[[], None] | None = None
        self._with: Callable[[Mapping[str, str], ExitStack], Sequence[Starter]] | None = None
        self._by_threads: dict[_Threads, tuple[Sequence[Starter], ExitStack]] = {}
        """Of other numbers of threads than the servers of `each` have, by their variables, with
        what ends them; no starters where there can be no servers. What was used last is last."""
        self._why_cold = ""
        self.each: Sequence[Starter] = ()
        """In the order of the commands, for the next run."""

    def __enter__(self) -> Self:
        if self._isolation:
            self._open.enter_context(self._network)
        self._open.enter_context(self._servers)
        return self

    def __exit__(self, *ending: object) -> None:
        self._open.close()

    @property
    def in_own_network(self) -> bool:
        """Whether the next run has a network of its own."""
        return bool(self._network.prefix)

    @property
    def is_warm(self) -> bool:
        """Whether any command is started warm."""
        return any(isinstance(each, WarmStarter) for each in self.each)

    @property
    def how(self) -> str:
        """How the next run starts, and why, as a phrase; empty before the first one."""
        if not self.is_warm:
            return f"cold: {self._why_cold}" if self._why_cold else ""
        count, all_ = sum(isinstance(each, WarmStarter) for each in self.each), len(self.each)
        some = "" if count == all_ else f" ({count} of {all_} commands)"
        return f"warm{some}: from a process that has imported the same packages"

    def start_cold(self, request: ProgramRequest, *, alone: bool = True) -> None:
        """From the next run on start the commands as they are, `alone` in a network of its own."""
        self._begun = None  # perhaps in another network
        self._end_servers()
        prefix = self._prefix_alone if alone else partial(keeping, ORDER_VARIABLE)
        self.each = [ColdStarter(command, Path.cwd(), prefix) for command in request.commands]
        self._cold = self.each

    def _prefix_alone(self) -> list[str]:
        return [*self._network.prefix, *keeping(ORDER_VARIABLE)]

    def leave_network(self, request: ProgramRequest) -> None:
        """From the next run on start the commands in the machine's network, and cold."""
        self._network.leave()
        self.start_cold(request)

    def may_be_warm(self, request: ProgramRequest) -> bool:
        """Whether all commands are such as can be started warm, and `--cold` is not asked for."""
        found = [recognise(command, os.environ, Path.cwd()) for command in request.commands]
        return not request.cold and not any(isinstance(each, str) for each in found)

    def begin(self, request: ProgramRequest, until_s: float, learnt: Learnt) -> None:
        """Start servers that import this while a first run goes on; `warm_up` waits for them."""
        self._end_servers()
        self._begun = (learnt, self._importing(request, learnt, until_s, {}, self._servers))

    def warm_up(self, request: ProgramRequest, learnt: Learnt, until_s: float) -> bool:
        """Start a server for each command that can be started warm; whether there is one. One that
        still imports at `until_s`, by `time.monotonic`, is given up."""
        if request.cold:
            self._why_cold = "--cold asks for it"
        else:
            longest_s = max(0.0, until_s - time.monotonic())
            self._again = partial(self._start_servers, request, learnt, longest_s)
            self._again()
        return self.is_warm

    def _start_servers(self, request: ProgramRequest, learnt: Learnt, longest_s: float) -> None:
        if self._begun is None or self._begun[0] != learnt:
            self.begin(request, time.monotonic() + longest_s, learnt)
        assert self._begun is not None
        (_, begun), self._begun = self._begun, None
        self.each = self._ready(begun, self._note_cold)
        # Libraries read these as they are imported, so that other servers have to do that.
        self._with = lambda variables, own: self._ready(
            self._importing(request, learnt, time.monotonic() + longest_s, variables, own),
            self._note_alike,
        )

    def for_environment(
        self, environment: Mapping[str, str]
    ) -> tuple[Sequence[Starter], Mapping[str, str]]:
        """`each`, or where the environment has other numbers of threads, those that have these,
        too; the first time that takes as long as the imports. And the environment, without these
        where no server can have them: all runs start alike, warm."""
        threads = {name: environment[name] for name in THREAD_VARIABLES if name in environment}
        others = {name: text for name, text in threads.items() if os.environ.get(name) != text}
        if not self.is_warm or self._with is None or not others:
            return self.each, environment
        key = tuple(threads.items())
        found = self._by_threads.pop(key, None)
        if found is None:
            kept = [each for each, (starters, _) in self._by_threads.items() if starters]
            for oldest in kept[: len(kept) + 1 - MOST_OTHERS]:
                self._by_threads.pop(oldest)[1].close()
            own = self._servers.enter_context(ExitStack())
            begun = self._with(threads, own)
            found = begun, own
            if [*map(type, begun)] != [*map(type, self.each)]:
                own.close()
                found = (), own
        self._by_threads[key] = found
        if starters := found[0]:
            return starters, environment
        return self.each, {k: v for k, v in environment.items() if k not in others}

    def _ready(
        self, begun: Sequence[WarmStarter | None], note: Callable[[str], None]
    ) -> Sequence[Starter]:
        """Once all have imported; `note` gets why one has not, and is cold."""
        return [
            cold if warm is None or not self._is_ready(warm, note) else warm
            for warm, cold in zip(begun, self._cold, strict=True)
        ]

    def _note_alike(self, why: str) -> None:
        variables = " and ".join(THREAD_VARIABLES)
        self._notify(f"{variables} are not set before a run, and torch.set_num_threads is: {why}")

    def _importing(
        self, request: ProgramRequest, learnt: Learnt, until_s: float,
        variables: Mapping[str, str], into: ExitStack,
    ) -> Sequence[WarmStarter | None]:  # fmt: skip
        """A server for each command, which import at the same time; None where one cannot be.
        `into` closes them."""
        given = {**os.environ, **variables}
        environment = HookOrder(config=Config.of({}), reports=Path()).environment(given)
        learnt = replace(learnt, environment={**learnt.environment, **variables})
        commands = request.commands
        return [self._server(command, environment, learnt, until_s, into) for command in commands]

    def _server(
        self, command: Sequence[str], environment: Mapping[str, str], learnt: Learnt,
        until_s: float, into: ExitStack,
    ) -> WarmStarter | None:  # fmt: skip
        prefix, here = self._network.prefix, Path.cwd()
        try:
            warm = WarmStarter(command, environment, here, learnt, prefix=prefix, until_s=until_s)
        except LauncherError as error:
            self._note_cold(str(error))
            return None
        return into.push(warm)

    def _is_ready(self, warm: WarmStarter, note: Callable[[str], None]) -> bool:
        try:
            warm.wait()
        except LauncherError as error:
            note(str(error))
            return False
        if warm.left_out:
            some = [f"{name} ({why})" for name, why in warm.left_out.items()]
            self._notify(f"imported anew by each run: {first_of(some, _MOST_NAMED)}")
        return True

    def start_again(self, why: str) -> None:
        """Start the servers once more; what ends a second time is not worth it, and all is cold."""
        again, self._again = self._again, None
        if again is None:
            self.cool_down(why)
            return
        self._notify(f"{why}; it is started again")
        again()

    def cool_down(self, why: str) -> None:
        """End the servers; from the next run on, all is cold."""
        self._note_cold(why)
        self.each = self._cold
        self._end_servers()

    def _end_servers(self) -> None:
        self._by_threads.clear()
        self._with = None
        self._servers.close()

    def _note_cold(self, why: str) -> None:
        # Several commands often have one reason.
        if why != self._why_cold:
            self._notify(f"each run starts cold: {why}")
        self._why_cold = why


class Commands(Protocol):
    """The commands of one run, wherever they run."""

    def start(self, output: int) -> None:
        """Start them; what they print goes to this descriptor. LauncherError if one cannot be."""

    def codes(self) -> tuple[int | None, ...]:
        """The exit code of each; None while it runs, negative for a signal."""

    def stop_gently(self) -> None:
        """Ask them to end, as Ctrl-C and then a shutdown would."""

    def end(self) -> MachineState | None:
        """Kill what is left of them, and of all they started; what the machine did meanwhile."""

    def check(self) -> None:
        """LauncherError if they have ended for what says nothing of the program."""

    def clocks(self) -> Mapping[str, ClockOffset]:
        """The clocks of other hosts against ours, as far as there are any."""


@dataclass
class LocalCommands:
    """Commands on this machine; their processes are found by the folder of the hook's order."""

    starters: Sequence[Starter]
    environment: Mapping[str, str]
    reports: Path
    machine: Callable[[], MachineState]
    """Gives what the machine did since the start."""
    handing_over: Callable[[], bool] | None = None
    """Whether ranks write what they recorded; None: none is recorded."""
    _processes: list[subprocess.Popen[bytes] | WarmProcess] = field(default_factory=list)

    def start(self, output: int) -> None:
        """See `Commands`."""
        for starter in self.starters:
            self._processes.append(starter.start(self.environment, output, output))

    def codes(self) -> tuple[int | None, ...]:
        """See `Commands`."""
        return tuple(process.poll() for process in self._processes)

    def stop_gently(self) -> None:
        """See `Commands`."""
        for number, usual_s in _GENTLE:
            is_writing = self.handing_over or (lambda: False)
            seconds = usual_s + (self.handing_over is not None) * _HAND_OVER_S
            for process in self._processes:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
            until = time.monotonic() + seconds
            longest = until + _MOST_HAND_OVER_S
            while (now := time.monotonic()) < until or (now < longest and is_writing()):
                if None not in self.codes():
                    return
                time.sleep(_POLL_S)

    def end(self) -> MachineState:
        """See `Commands`."""
        end_tree([process.pid for process in self._processes], self.reports)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(REAPED_S)
        return self.machine()

    def check(self) -> None:
        """See `Commands`: ServerGoneError where a server ended, and what it had started."""
        for starter in self.starters:
            if isinstance(starter, WarmStarter):
                starter.check()

    def clocks(self) -> Mapping[str, ClockOffset]:
        """See `Commands`: there is one."""
        return {}


def end_tree(pids: Sequence[int], reports: Path) -> None:
    """Kill what is left of a program: the groups of these leaders, descendants, and what carries an
    order with this folder of reports."""
    # As it stands in the order, which is JSON.
    end_groups(pids, ORDER_VARIABLE, json.dumps(str(reports.resolve()))[1:-1])
