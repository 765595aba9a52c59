"""What starts the commands of a program: cold or warm, in a network of its own or the machine's."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.plan.program_spec import ProgramRequest
from tuner.text import first_of
from tuner.world.command.order import ORDER_VARIABLE, HookOrder
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import Learnt, WarmStarter
from tuner.world.descendants import keeping
from tuner.world.own_network import OwnNetwork

_MOST_NAMED = 3


class Starters:
    """A starter for each command; a context manager.

    Args:
        notify: Gets why runs are cold, and what is imported anew by each, a sentence each.
    """

    def __init__(self, notify: Callable[[str], None], *, isolation: bool = True) -> None:
        self._notify = notify
        self._isolation = isolation
        self._network = OwnNetwork()
        self._open = ExitStack()
        self._servers = ExitStack()
        self._cold: list[Starter] = []
        self._warm: list[WarmStarter] = []
        self._again: Callable[[], bool] | None = None
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
        return bool(self._warm)

    @property
    def how(self) -> str:
        """How the next run starts, and why, as a phrase; empty before the first one has shown."""
        if self._warm:
            count, all_ = len(self._warm), len(self.each)
            some = "" if count == all_ else f" ({count} of {all_} commands)"
            return f"warm{some}: from a process that has imported the same packages"
        return f"cold: {self._why_cold}" if self._why_cold else ""

    def start_cold(self, request: ProgramRequest, *, alone: bool = True) -> None:
        """Start the commands as they are, from the next run on.

        Args:
            request: The program.
            alone: Whether in a network of its own, where it can have one.
        """
        prefix = [*(self._network.prefix if alone else []), *keeping(ORDER_VARIABLE)]
        self._cold = [ColdStarter([*prefix, *command], Path.cwd()) for command in request.commands]
        self.each = self._cold

    def leave_network(self, request: ProgramRequest) -> None:
        """Start the commands in the machine's network, and cold, from the next run on."""
        self._network.leave()
        self.start_cold(request)

    def warm_up(self, request: ProgramRequest, learnt: Learnt, until_s: float) -> bool:
        """Start a server for each command that can be started warm; whether there is one.

        Args:
            request: The program.
            learnt: What its first run showed.
            until_s: When to give up a server that still imports, by `time.monotonic`.
        """
        longest_s = max(0.0, until_s - time.monotonic())
        self._again = partial(self._start_servers, request, learnt, longest_s)
        return self._again()

    def _start_servers(self, request: ProgramRequest, learnt: Learnt, longest_s: float) -> bool:
        self._why_cold = "--cold asks for it" if request.cold else self._why_cold
        if not request.cold:
            until_s = time.monotonic() + longest_s
            pairs = zip(request.commands, self._cold, strict=True)
            self.each = [self._warmed(command, learnt, until_s) or cold for command, cold in pairs]
        return self.is_warm

    def start_again(self, why: str) -> None:
        """Start the servers once more; what ends a second time is not worth it, and all is cold."""
        if self._again is None:
            self.cool_down(why)
            return
        again, self._again = self._again, None
        self._notify(f"{why}; it is started again")
        self._end_servers()
        again()

    def cool_down(self, why: str) -> None:
        """End the servers; from the next run on, all is cold."""
        self._notify_cold(why)
        self._end_servers()

    def _notify_cold(self, why: str) -> None:
        self._why_cold = why
        self._notify(f"each run starts cold: {why}")

    def _end_servers(self) -> None:
        self.each, self._warm = self._cold, []
        self._servers.close()

    def check_servers(self) -> None:
        """ServerGoneError if a server has ended, and with it what it had started."""
        for starter in self._warm:
            starter.check()

    def _warmed(self, command: Sequence[str], learnt: Learnt, until_s: float) -> WarmStarter | None:
        environment = HookOrder(config=Config.of({}), reports=Path()).environment(os.environ)
        prefix = self._network.prefix
        try:
            warm = self._servers.enter_context(
                WarmStarter(
                    command, environment, Path.cwd(), learnt, prefix=prefix, until_s=until_s
                )
            )
        except LauncherError as error:
            self._notify_cold(str(error))
            return None
        self._warm.append(warm)
        if warm.left_out:
            some = [f"{name} ({why})" for name, why in warm.left_out.items()]
            self._notify(f"imported anew by each run: {first_of(some, _MOST_NAMED)}")
        return warm
