"""The commands of one run of a program: started, asked whether they have ended, and ended."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tuner.errors import LauncherError
from tuner.world.command.order import ORDER_VARIABLE
from tuner.world.descendants import end_groups

REAPED_S = 5.0
_GENTLE: tuple[tuple[int, float], ...] = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))
"""Signals, and how many seconds each gets to have its effect."""
_POLL_S = 0.02


class Started(Protocol):
    """A process that was started; it leads a session and a process group of its own."""

    @property
    def pid(self) -> int:
        """Its id, and that of its group."""

    def poll(self) -> int | None:
        """Its exit code if it has ended: negative for a signal, as `subprocess` has it."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            The exit code, as `poll` gives it.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """


class Starter(Protocol):
    """Starts one program."""

    def start(self, environment: Mapping[str, str], stdout: int, stderr: int) -> Started:
        """Start the program once more, with its stdin at its end.

        Args:
            environment: All of its variables.
            stdout: The descriptor that it writes to; it stays open here.
            stderr: Likewise.

        Raises:
            LauncherError: It cannot be started.
        """


class ColdStarter:
    """Starts a command as it is."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        self._command = command
        self._cwd = cwd

    def start(
        self, environment: Mapping[str, str], stdout: int, stderr: int
    ) -> "subprocess.Popen[bytes]":
        """See `Starter`."""
        try:
            return subprocess.Popen(
                self._command,
                env=environment,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise LauncherError(f"cannot start {self._command[0]!r}: {error.strerror}") from None


class Commands(Protocol):
    """The commands of one run, wherever they run."""

    def start(self, output: int) -> None:
        """Start them; what they print goes to this descriptor. LauncherError if one cannot be."""

    def codes(self) -> tuple[int | None, ...]:
        """The exit code of each; None while it runs, negative for a signal."""

    def stop_gently(self) -> None:
        """Ask them to end, as Ctrl-C and then a shutdown would."""

    def end(self) -> None:
        """Kill what is left of them, and of all that they started."""


class LocalCommands:
    """Commands on this machine.

    Args:
        starters: What starts each of them.
        environment: What they are started with, the hook in it.
        reports: The folder of the hook's order, by which their processes are found.
    """

    def __init__(
        self, starters: Sequence[Starter], environment: Mapping[str, str], reports: Path
    ) -> None:
        self._starters = starters
        self._environment = environment
        self._reports = reports
        self._processes: list[Started] = []

    def start(self, output: int) -> None:
        """See `Commands`."""
        for starter in self._starters:
            self._processes.append(starter.start(self._environment, output, output))

    def codes(self) -> tuple[int | None, ...]:
        """See `Commands`."""
        return tuple(process.poll() for process in self._processes)

    def stop_gently(self) -> None:
        """See `Commands`."""
        stop_gently([process.pid for process in self._processes], lambda: None not in self.codes())

    def end(self) -> None:
        """See `Commands`."""
        end_tree([process.pid for process in self._processes], self._reports)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(REAPED_S)


def stop_gently(pids: Sequence[int], have_ended: Callable[[], bool]) -> None:
    """Ask the process groups of these leaders to end, as Ctrl-C and then a shutdown would."""
    for number, seconds in _GENTLE:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if have_ended():
                return
            time.sleep(_POLL_S)


def end_tree(pids: Sequence[int], reports: Path) -> None:
    """Kill what is left of a program: its groups, its descendants, and what carries its order.

    Args:
        pids: The leaders of its process groups.
        reports: The folder that the order names.
    """
    # As it stands in the order, which is JSON.
    end_groups(pids, ORDER_VARIABLE, json.dumps(str(reports.resolve()))[1:-1])
