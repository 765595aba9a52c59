"""A server of warm starts, and the processes that it starts, as the tuner holds them."""

import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.errors import LauncherError
from tuner.world.command.order import HOOK
from tuner.world.command.warm.rpc_tuner_server import messages

_START_S = 300.0
"""The longest that a server may take to import all: a slow disk is no failure."""
# None at all would mean that nothing waits.
_LEAST_START_S = 1.0
# The longest that a server takes to fork; one that was stopped never does.
_FORK_S = 20.0
_END_S = 20.0


class ServerGoneError(LauncherError):
    """A server has ended, and what it had started with it."""


class WarmProcess:
    """A process of a server; it is a `tuner.world.command.program_commands.Started`."""

    def __init__(self, pid: int, answers: int, command: Sequence[str]) -> None:
        """Take over the descriptor on which the server writes the exit code."""
        self.pid = pid
        self.is_lost = False
        """Whether it ended with its server, so that its exit code is unknown."""
        self._answers = answers
        self._command = command
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code if it has ended: negative for a signal, as `subprocess` has it."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """See `Started.wait`."""
        if self._code is None:
            if not _is_readable(self._answers, timeout):
                raise subprocess.TimeoutExpired(list(self._command), timeout or 0.0)
            answer = _line(self._answers)
            os.close(self._answers)
            if not answer:
                # The server is gone, and the process with it; not so the children of that.
                self.is_lost = True
                _kill_group(self.pid)
            self._code = int(answer or -signal.SIGKILL)
        return self._code


class Server:
    """A process that imports modules once, and forks itself for each run."""

    def __init__(
        self,
        interpreter: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        order: Mapping[str, object],
        until_s: float,
    ) -> None:
        """Start it and have it import.

        Args:
            interpreter: Python and its options, and what goes before it.
            environment: Its variables.
            cwd: Its folder.
            order: `modules` and `one_by_one`; see `rpc_tuner_server.preloading.preload`.
            until_s: When to give it up, by `time.monotonic`.

        Raises:
            LauncherError: It does not come up.
        """
        self._control, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        folders = [str(Path(__file__).parent), str(HOOK)]
        code = (
            f"import sys; sys.path[:0] = {folders!r}; from rpc_tuner_server.main import main; "
            f"main({theirs.fileno()})"
        )
        try:
            self._process = subprocess.Popen(
                [*interpreter, "-c", code],
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            self._errors.close()
            raise LauncherError(f"cannot start {interpreter[0]!r}: {error.strerror}") from None
        finally:
            theirs.close()
        self.found = self._imported(order, until_s)
        """What came of the imports."""

    def _imported(self, order: Mapping[str, object], until_s: float) -> dict[str, Any]:
        """Have it import, and wait for what comes of that. LauncherError if it ends."""
        left_s = until_s - time.monotonic()
        self._control.settimeout(min(_START_S, max(_LEAST_START_S, left_s)))
        try:
            messages.send(self._control, order)
            found: dict[str, Any] = messages.receive(self._control)[0]
        except (OSError, EOFError) as error:
            gone = self.gone(str(error))
            # What still imports does not see that it is not waited for any more.
            self._process.kill()
            self.close()
            raise gone from None
        except BaseException:
            self.close()
            raise
        self._control.settimeout(None)
        return found

    def start(
        self, order: Mapping[str, object], stdout: int, stderr: int, command: Sequence[str]
    ) -> WarmProcess:
        """Have it start a process; see `rpc_tuner_server.main`.

        Raises:
            ServerGoneError: It has ended.
        """
        answers, write = os.pipe()
        try:
            messages.send(self._control, order, [stdout, stderr, write])
        except OSError:
            os.close(answers)
            raise self.gone() from None
        finally:
            os.close(write)
        if not _is_readable(answers, _FORK_S):
            self._process.kill()
        if not (pid := _line(answers)):
            os.close(answers)
            raise self.gone()
        return WarmProcess(int(pid), answers, command)

    def close(self) -> None:
        """End it, and with it all that it has started."""
        self._control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:
            # It has not ended what a module may have started as it was imported.
            _kill_group(self._process.pid)
        self._errors.close()

    def gone(self, otherwise: str = "") -> ServerGoneError:
        """The error that reports its end, with its last words if it had any."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines() or [otherwise]
        return ServerGoneError(
            ": ".join(filter(None, ["the server of warm starts ended", lines[-1]]))
        )


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _is_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Whether something can be read there, or nothing will ever be, within that time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _line(descriptor: int) -> bytes:
    """The next line, without its end; empty if there is none."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line
