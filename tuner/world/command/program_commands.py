"""The commands of a program: what starts them, cold or warm, and how those of one run are ended."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Protocol

from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.process_knobs import THREAD_VARIABLES
from tuner.text import first_of
from tuner.trace.record.clock import ClockOffset
from tuner.world.command.order import ORDER_VARIABLE, HookOrder
from tuner.world.command.reports import ProgramReport
from tuner.world.command.warm.python_command import PythonCommand, named_modules, recognise
from tuner.world.command.warm.warm_starting import Learnt, WarmProcess, WarmStarter
from tuner.world.descendants import end_groups, keeping
from tuner.world.environment import MachineState
from tuner.world.own_network import OwnNetwork

REAPED_S = 5.0
MOST_OTHERS = 2
"""Numbers of threads beside the program's own whose servers are kept: each holds all imports."""
_GENTLE: tuple[tuple[int, float], ...] = ((signal.SIGINT, 1.0), (signal.SIGTERM, 2.0))
"""Signals, and how many seconds each gets to have its effect: what waits in C++ sees no SIGINT."""
_FLUSHED_S = 0.1
"""So long, of this, for ranks that are not recorded and have run their exit handlers."""
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


class _Servers(ExitStack):
    """Servers of the commands that can be started warm; the others start cold."""

    def __init__(self, cold: Sequence[ColdStarter]) -> None:
        super().__init__()
        self.each: list[Starter] = []
        self.are_awaited = False
        self._cold = cold

    def begin(
        self, learnt: Learnt, until_s: float, variables: Mapping[str, str], prefix: Sequence[str],
        note: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Have them import at the same time, until a time by `time.monotonic`; `note` gets why one
        cannot be."""
        environment = HookOrder(config=Config.of({}), reports=Path()).environment(
            {**os.environ, **variables}
        )
        if learnt.environment is not None:
            learnt = replace(learnt, environment={**learnt.environment, **variables})
        for each in self._cold:
            try:
                warm = WarmStarter(each.command, environment, each.cwd, learnt, prefix=prefix,
                                   until_s=until_s, beside=self.warm)  # fmt: skip
            except LauncherError as error:
                note(str(error))
                self.each.append(each)
            else:
                self.each.append(self.push(warm))

    @property
    def warm(self) -> list[WarmStarter]:
        """Those that have a server."""
        return [each for each in self.each if isinstance(each, WarmStarter)]

    def wait(self, note: Callable[[str], None]) -> dict[str, str]:
        """Wait until all have imported; one that cannot, as `note` is told, starts cold. What each
        run imports anew, and why."""
        left_out: dict[str, str] = {}
        self.are_awaited = True
        for place, each in enumerate(self.each):
            if isinstance(each, WarmStarter):
                try:
                    each.wait()
                    left_out |= each.left_out
                except LauncherError as error:
                    note(str(error))
                    self.each[place] = self._cold[place]
        return left_out


class Starters(AbstractContextManager["Starters"]):
    """A starter for each command of a program: cold ones, until `warm_up` has others, which have to
    be ended. `notify` gets why runs are cold, and what each imports anew; the network is where they
    run, if it is one of their own. What is to be cold always has `why_cold`."""

    def __init__(
        self, commands: Sequence[Sequence[str]], network: OwnNetwork,
        notify: Callable[[str], None], why_cold: str = "",
    ) -> None:  # fmt: skip
        self._commands, self._network, self._notify = commands, network, notify
        self._servers: _Servers | None = None  # which may still import
        self._learnt, self._longest_s = Learnt(), 0.0
        self._may_start_again = True
        self._by_threads: dict[tuple[tuple[str, str], ...], _Servers] = {}
        """Of other numbers of threads, by the variables that tell these; no starters where there
        can be no servers. What was used last is last."""
        self._why_cold, self._is_always_cold = why_cold, bool(why_cold)
        self.each: Sequence[Starter] = self._cold()
        """In the order of the commands, for the next run."""

    def __exit__(self, *ending: object) -> None:
        self._end_servers()

    @property
    def in_own_network(self) -> bool:
        """Whether the next run may have a network of its own."""
        return bool(self._network.prefix)

    @property
    def is_warm(self) -> bool:
        """Whether any command is started warm."""
        return any(isinstance(each, WarmStarter) for each in self.each)

    @property
    def how(self) -> str:
        """How the next run starts, and why, as a phrase; empty where that is not known."""
        if not self.is_warm:
            return f"cold: {self._why_cold}" if self._why_cold else ""
        count, all_ = sum(isinstance(each, WarmStarter) for each in self.each), len(self.each)
        some = "" if count == all_ else f" ({count} of {all_} commands)"
        return f"warm{some}: from a process that has imported the same packages"

    def start_cold(self, *, alone: bool = True, keeps_servers: bool = False) -> None:
        """From the next run on start the commands as they are, `alone` in a network of its own. Its
        servers are kept for later runs alone that are in the same one."""
        if not keeps_servers:
            self._end_servers()
        self.each = self._cold(alone=alone)

    def _cold(self, *, alone: bool = True) -> Sequence[ColdStarter]:
        def prefix() -> list[str]:
            return [*(self._network.prefix if alone else ()), *keeping(ORDER_VARIABLE)]

        return [ColdStarter(command, Path.cwd(), prefix) for command in self._commands]

    def leave_network(self) -> None:
        """From the next run on start the commands in the machine's network, and cold."""
        self._network.leave()
        self.start_cold()

    def may_be_warm(self) -> bool:
        """Whether all commands are such as can be started warm."""
        return not self._is_always_cold and len(self._recognised()) == len(self._commands)

    def _recognised(self) -> list[PythonCommand]:
        """The commands that can be started warm."""
        found = [recognise(each, os.environ, Path.cwd()) for each in self._commands]
        return [each for each in found if not isinstance(each, str)]

    def begin(self, until_s: float) -> None:
        """Where all commands can be started warm, have servers import until a time by
        `time.monotonic` what the program's files name."""
        if self.may_be_warm():
            named = [named_modules(each, Path.cwd()) for each in self._recognised()]
            modules = tuple(dict.fromkeys(chain.from_iterable(named)))
            self._begin(Learnt(modules=modules, environment=None), until_s, lambda why: None)

    def use_begun(self) -> bool:
        """Start runs from the servers that `begin` has begun, where each command has one."""
        if self._servers is None:
            return False
        self._servers.wait(lambda why: None)  # the first run will tell
        if len(self._servers.warm) == len(self._commands):
            self.each = self._servers.each
        return self.is_warm

    def warm_up(self, learnt: Learnt, until_s: float) -> bool:
        """From the next run on start each command warm that can be; whether there is one."""
        if self._is_always_cold:
            return False
        if self._servers is None or len(self._servers.warm) < len(self._commands):
            if self._servers is None or learnt != self._learnt:
                self._begin(learnt, until_s)
        elif learnt != self._learnt:
            self._learnt = learnt
            for each in self._servers.warm:
                each.learn(learnt, until_s)
        self._await_servers()
        return self.is_warm

    def _begin(
        self, learnt: Learnt, until_s: float, note: Callable[[str], None] | None = None
    ) -> None:
        self._end_servers()
        self._learnt, self._longest_s = learnt, max(0.0, until_s - time.monotonic())
        self._servers = _Servers(self._cold())
        self._import(self._servers, {}, note or self._note_cold)

    def _await_servers(self) -> None:
        assert self._servers is not None
        self._wait(self._servers, self._note_cold)
        self.each = self._servers.each

    def _import(
        self, servers: _Servers, variables: Mapping[str, str], note: Callable[[str], None]
    ) -> None:
        until_s, prefix = time.monotonic() + self._longest_s, self._network.prefix
        servers.begin(self._learnt, until_s, variables, prefix, note)

    def _wait(self, servers: _Servers, note: Callable[[str], None]) -> None:
        if left_out := servers.wait(note):
            some = first_of([f"{name} ({why})" for name, why in left_out.items()], _MOST_NAMED)
            self._notify(f"imported anew by each run: {some}")

    def for_environment(
        self, environment: Mapping[str, str]
    ) -> tuple[Sequence[Starter], Mapping[str, str]]:
        """`each`, or where the environment has other numbers of threads, those that have these,
        too; the first time that takes as long as the imports, if nobody expected it. And the
        environment, without these where no server can have them: all runs start alike, warm."""
        for each in self._by_threads.values():
            self._await_others(each)  # none imports beside a run
        threads = {name: environment[name] for name in THREAD_VARIABLES if name in environment}
        others = {name: text for name, text in threads.items() if os.environ.get(name) != text}
        if not self.is_warm or not others:
            return self.each, environment
        key = tuple(threads.items())
        if (servers := self._by_threads.pop(key, None)) is None:
            servers = self._others(threads)
            self._await_others(servers)
        self._by_threads[key] = servers
        if servers.each:
            return servers.each, environment
        return self.each, {k: v for k, v in environment.items() if k not in others}

    def expect_threads(self, numbers: Sequence[int]) -> None:
        """Have servers import for runs with these intra-op threads, until the next run."""
        for number in numbers[:MOST_OTHERS] if self.is_warm else ():
            threads = {name: os.environ.get(name, str(number)) for name in THREAD_VARIABLES}
            key = tuple(threads.items())
            if key not in self._by_threads and any(v not in os.environ for v in THREAD_VARIABLES):
                self._by_threads[key] = self._others(threads)

    def _others(self, threads: Mapping[str, str]) -> _Servers:
        """Servers with these variables, which libraries read as they are imported: they begin to
        import. Those that were used longest ago are ended."""
        kept = [each for each, those in self._by_threads.items() if those.each]
        for oldest in kept[: len(kept) + 1 - MOST_OTHERS]:
            self._by_threads.pop(oldest).close()
        servers = _Servers(self._cold())
        self._import(servers, threads, self._note_alike)
        return servers

    def _await_others(self, servers: _Servers) -> None:
        """Wait until these have imported; they are none where not the same commands are warm."""
        if not servers.are_awaited:
            self._wait(servers, self._note_alike)
            if [*map(type, servers.each)] != [*map(type, self.each)]:
                servers.close()
                servers.each = []

    def _note_alike(self, why: str) -> None:
        variables = " and ".join(THREAD_VARIABLES)
        self._notify(f"{variables} are not set before a run, and torch.set_num_threads is: {why}")

    def start_again(self, why: str) -> None:
        """Start the servers once more; what ends a second time is not worth it, and all is cold."""
        if not self._may_start_again:
            self.cool_down(why)
            return
        self._may_start_again = False
        self._notify(f"{why}; it is started again")
        self._begin(self._learnt, time.monotonic() + self._longest_s)
        self._await_servers()

    def cool_down(self, why: str) -> None:
        """End the servers; from the next run on, all is cold."""
        self._note_cold(why)
        self.start_cold()

    def _end_servers(self) -> None:
        for each in filter(None, [self._servers, *self._by_threads.values()]):
            each.close()
        self._servers = None
        self._by_threads.clear()

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
    report: Callable[[], ProgramReport]
    """What is known of its processes."""
    is_recorded: bool = False
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
        pids = [process.pid for process in self._processes]
        for number, usual_s in _GENTLE:
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, number)
            until = time.monotonic() + usual_s + self.is_recorded * _HAND_OVER_S
            longest = until + _MOST_HAND_OVER_S
            while (now := time.monotonic()) < until or (now < longest and self._is_writing()):
                if None not in self.codes():
                    return
                if not self.is_recorded and self.report().has_run(pids):
                    until = longest = min(until, now + _FLUSHED_S)
                time.sleep(_POLL_S)

    def _is_writing(self) -> bool:
        return self.is_recorded and self.report().is_handing_over

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
