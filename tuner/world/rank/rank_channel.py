"""The channel between a launcher and a process that it has started: a line of JSON a message."""

import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from queue import SimpleQueue

# By its name: a workload may patch the clock for itself.
from time import time_ns
from typing import Any, NamedTuple

import msgspec

from tuner.json_text import json_of
from tuner.world.postmortem import CHANNEL_CLOSED

SPOKEN = ("phase", "failed", "finished", "state", "result")
"""The kinds of what a rank says itself; what a workload may have sent has another, or none."""
DIED = "died"
"""The kind of the message that reports the end of a rank's process."""
# Beyond all that a rank has to say, but a bound to what one can make the launcher hold.
MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 20


class Message(NamedTuple):
    """A message of one rank, or that its process is gone."""

    rank: int
    content: dict[str, Any]
    """Its `kind` says what it is; `time_ns` is Unix time by one clock for all ranks."""


class LauncherEnd:
    """The launcher's end. A process may stop in the middle of a message, and one that never ends
    must not block others: what has come of a message is kept until the rest is there."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_open = True
        """Whether anything may still come."""
        self._received = bytearray()
        connection.setblocking(False)

    def send(self, content: object) -> None:
        """Send a message, unless the other side is gone, or reads nothing."""
        with suppress(OSError):
            self.connection.sendall(msgspec.json.encode(content) + b"\n")

    def messages(self) -> list[object]:
        """What has come in whole since the last time; no more once the other side is gone."""
        while self.is_open and len(self._received) <= MOST_BYTES:
            try:
                part = self.connection.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            self.is_open = bool(part)
            self._received += part
        *lines, self._received = self._received.split(b"\n")
        found: list[object] = []
        try:
            found.extend(msgspec.json.decode(line) for line in lines)
            if len(self._received) > MOST_BYTES:
                raise msgspec.DecodeError
        except msgspec.DecodeError:
            self.is_open = False  # nothing that follows can be relied upon
        return found

    def awaited(self, seconds: float) -> object:
        """The next message. EOFError if there will be none; TimeoutError after so many seconds."""
        until = time.monotonic() + seconds
        while self.is_open and (left_s := until - time.monotonic()) > 0:
            wait([self.connection], left_s)
            if found := self.messages():
                return found[0]
        raise TimeoutError if self.is_open else EOFError

    def close(self) -> None:
        """Take no more messages."""
        self.is_open = False
        self.connection.close()


class RankEnd:
    """The end of one rank. A thread answers probes at any time, by what `probed` gives."""

    def __init__(self, connection: socket.socket, probed: Callable[[], dict[str, Any]]) -> None:
        self._connection = connection
        self._probed = probed
        self._is_socket = _identity(connection)
        self._sending = threading.Lock()
        self._arrived = {kind: SimpleQueue[dict[str, Any]]() for kind in ("go", "stop", "leave")}
        self.phase = "start"
        self.steps_done = 0
        threading.Thread(target=self._listen, name="rpc-tuner-control", daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        """Send a message. The process ends if the workload has closed the channel."""
        content = json_of({"kind": kind, "time_ns": time_ns(), **fields})
        with self._sending:
            self._check()
            self._connection.sendall(content + b"\n")

    def enter(self, phase: str) -> None:
        """Report that a phase begins."""
        self.phase = phase
        self.send("phase", phase=phase)

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The next message of this kind, once it has come: `go`, `stop` or `leave`."""
        return self._arrived[kind].get()

    def _listen(self) -> None:
        try:
            with suppress(OSError):
                for line in self._connection.makefile("rb"):
                    self._take(msgspec.json.decode(line))
        finally:
            self._check()
            # The launcher is gone, or has let go of this world: nothing of it may stay.
            os.killpg(0, signal.SIGKILL)

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] != "probe":
            self._arrived[message["kind"]].put(message)
            return
        try:
            state = self._probed()
        except Exception:
            # Only an answer is lost: without this thread the rank would outlive its launcher.
            traceback.print_exc()
            return
        self.send("state", steps_done=self.steps_done, **state)

    def _check(self) -> None:
        """End the process if the descriptor is another file now: it may be one of the workload."""
        if _identity(self._connection) != self._is_socket:
            # Not by an exception: the workload may catch it, and the channel is closed.
            os._exit(CHANNEL_CLOSED)


def _identity(connection: socket.socket) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.fstat(connection.fileno())
        return status.st_dev, status.st_ino
    return None
