"""A rank's end of the channel to its launcher."""

import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

# By its name: a workload may patch the clock for itself.
from time import time_ns
from typing import Any

from tuner.json_text import json_of
from tuner.world.postmortem import CHANNEL_CLOSED
from tuner.world.socket_channel import SocketChannel


class RankEnd:
    """The end of one rank. A thread answers probes at any time, by what `probed` gives."""

    def __init__(self, connection: socket.socket, probed: Callable[[], dict[str, Any]]) -> None:
        self._channel = SocketChannel(connection)
        self._probed = probed
        self._is_socket = _identity(connection)
        self._sending = threading.Lock()
        self._arrived = {kind: SimpleQueue[dict[str, Any]]() for kind in ("go", "stop", "leave")}
        self.phase = "start"
        self.steps_done = 0
        threading.Thread(target=self._listen, name="rpc-tuner-control", daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        """Send a message. The process ends if the workload has closed the channel."""
        content = json_of({"kind": kind, "pid": os.getpid(), "time_ns": time_ns(), **fields})
        with self._sending:
            self._check()
            self._channel.send_json(content)

    def enter(self, phase: str) -> None:
        """Report that a phase begins."""
        self.phase = phase
        self.send("phase", phase=phase)

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The next message of this kind, once it has come: `go`, `stop` or `leave`."""
        return self._arrived[kind].get()

    def _listen(self) -> None:
        try:
            with suppress(OSError, EOFError):
                while True:
                    self._take(self._channel.receive()[0])
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
        if _identity(self._channel.connection) != self._is_socket:
            # Not by an exception: the workload may catch it, and the channel is closed.
            os._exit(CHANNEL_CLOSED)


def _identity(connection: socket.socket) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.fstat(connection.fileno())
        return status.st_dev, status.st_ino
    return None
