"""What starts one program again and again; the cold way: the command as it is."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tuner.errors import LauncherError


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
