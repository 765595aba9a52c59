"""A rank's channel to the launcher: JSON messages. A thread answers probes at any time."""

import os
import signal
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

# By its name: a workload may patch the clock for itself.
from time import time_ns
from typing import Any, NoReturn

import orjson

from tuner.json_text import json_of
from tuner.world.postmortem import CHANNEL_CLOSED
from tuner.world.rank import thread_states


class LauncherChannel:
    """The channel of one rank."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_socket = _identity(connection)
        self._sending = threading.Lock()
        self._arrived: dict[str, dict[str, Any]] = {}
        self._arrival = threading.Condition()
        self.phase = "start"
        self.steps_done = 0
        threading.Thread(target=self._listen, name="rpc-tuner-control", daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        """Send a message. The process ends if the workload has closed the channel."""
        content = json_of({"kind": kind, "time_ns": time_ns(), **fields})
        with self._sending:
            self._check()
            self._connection.send_bytes(content)

    def enter(self, phase: str) -> None:
        """Report that a phase begins."""
        self.phase = phase
        self.send("phase", phase=phase)

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The message of this kind, once it has come."""
        with self._arrival:
            self._arrival.wait_for(lambda: kind in self._arrived)
            return self._arrived[kind]

    def _listen(self) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    self._take(orjson.loads(self._connection.recv_bytes()))
        finally:
            self._check()
            # The launcher is gone, or has let go of this world: nothing of it may stay.
            os.killpg(0, signal.SIGKILL)

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] != "probe":
            with self._arrival:
                self._arrived[message["kind"]] = message
                self._arrival.notify_all()
            return
        try:
            state = thread_states.rpc_state()
        except Exception:
            # Only an answer is lost: without this thread the rank would outlive its launcher.
            traceback.print_exc()
            return
        self.send("state", steps_done=self.steps_done, **state)

    def _check(self) -> None:
        """End the process if the descriptor is another file now: it may be one of the workload."""
        if _identity(self._connection) != self._is_socket:
            _leave()


def _identity(connection: Connection) -> tuple[int, int] | None:
    try:
        status = os.fstat(connection.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _leave() -> NoReturn:
    # Not by an exception: the workload may catch it, and the channel is closed.
    os._exit(CHANNEL_CLOSED)
