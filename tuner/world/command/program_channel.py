"""The channel between the tool and the processes of a program: a socket in a folder of the run. A
process connects to it for each message, so a program may fork, close descriptors and be killed; a
rank keeps one more connection, by which it is asked what it does. Standard library only."""

import json
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from tuner.errors import LauncherError
from tuner.world.command.collecting import Collector
from tuner.world.command.order import CHANNEL
from tuner.world.command.reports import ProgramReport
from tuner.world.descendants import status_of
from tuner.world.messages import Message, gone, of_program
from tuner.world.socket_channel import SocketChannel

_EXIT_CODE = 49
"""Its place in /proc/PID/stat, after the name."""
_MOST_BYTES, _MOST_OF_ALL = 1 << 24, 1 << 28
"""So much is kept of one process, and of all; of how they ended twice as much."""
_ENDS = ("exit", "gone", "record-end", "shutdown", "ended")
_MOST_LINE = 1 << 22
_AT_ONCE = 64
"""So many connections are accepted before they are read and closed: descriptors are scarce."""
_MOST_WAITING = 4096
"""So many connections may wait for the thread, or fewer as the kernel has it."""
_POLL_S = 0.02


class Question(NamedTuple):
    """What ranks are asked: always their state, and their `stacks`, or what their `threads` do,
    which takes some milliseconds."""

    number: int
    more: Literal["", "stacks", "threads"] = ""


class ProgramChannel:
    """The tool's side of it, for the folder of the hook's order, until it is closed. A thread
    receives, so that no process waits for us."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.question = Question(0)
        """The last one; the first has the number 1."""
        self._connections: dict[int, SocketChannel] = {}
        """By descriptor, in the order in which they were made."""
        self._listening: set[SocketChannel] = set()
        self._messages: dict[int, list[Message]] = {}
        self._collector = Collector()
        self._sizes: Counter[int] = Counter()
        self._size = 0
        self._here: set[int] = set()
        """The processes that we see, and have not seen to be gone."""
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino
        self._receiving = threading.Lock()
        self._is_over = False
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._bind()
        except OSError as error:
            self._listener.close()
            why = f"the folder for temporary files has no sockets ({error.strerror})"
            raise LauncherError(f"{why}; set TMPDIR to one on a local disk") from error
        self._poller = select.epoll()
        self._poller.register(self._listener, select.EPOLLIN)
        self._thread = threading.Thread(
            target=self._receive_on, name="rpc-tuner channel", daemon=True
        )
        self._thread.start()

    def _bind(self) -> None:
        # The address of a socket holds 107 bytes; the path of a folder may have more.
        at = os.open(self.folder, os.O_PATH)
        try:
            self._listener.bind(f"/proc/self/fd/{at}/{CHANNEL}")
        finally:
            os.close(at)
        self._listener.listen(_MOST_WAITING)
        self._listener.setblocking(False)

    def close(self) -> None:
        """Take no more messages; what has come can be read."""
        if self._is_over:
            return
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._thread.join()
        self._listener.close()
        self._poller.close()
        for connection in self._connections.values():
            connection.close()

    def messages(self) -> list[list[Message]]:
        """What each process has reported so far, in order; of one that is gone all that it sent."""
        with self._receiving:
            self._receive()
            return [[*of_process] for of_process in self._messages.values()]

    def report(self) -> ProgramReport:
        """The same, rank by rank."""
        with self._receiving:
            self._receive()
            return self._collector.report()

    def take(self, messages: Iterable[Message]) -> None:
        """Keep what processes of another host have reported."""
        with self._receiving:
            for message in messages:
                self._keep(message)

    def note_gone(self) -> None:
        """Report, on their own machine, which processes are gone: a killed one cannot do it."""
        with self._receiving:
            self._receive()
            for pid in [*self._here]:
                status = status_of(pid)
                if status and status[0] not in (b"Z", b"X"):
                    continue
                self._here.remove(pid)
                # Its parent need not have asked for it yet, and then it is there to be read.
                code = os.waitstatus_to_exitcode(int(status[_EXIT_CODE])) if status else None
                self._keep(gone(pid, code))

    def ask(self, more: Literal["", "stacks", "threads"] = "") -> int:
        """Ask every rank for its state, and more; the number of the question."""
        self.pass_on(Question(self.question.number + 1, more))
        return self.question.number

    def pass_on(self, question: Question) -> None:
        """Ask what was asked elsewhere, unless that was done."""
        with self._receiving:
            if question == self.question:
                return
            self.question = question
            self._receive()
            for rank in [*self._listening]:
                try:
                    rank.send(question._asdict())
                except OSError:  # it is gone, or has not read for long
                    self._listening.remove(rank)

    def answers(
        self, number: int, pids: Collection[int] | None = None, within_s: float = 0.0
    ) -> dict[int, Message]:
        """The answers to a question by process id; those of `pids` are waited for, for a time."""
        until_s = time.monotonic() + within_s
        while True:
            states = [state for state in self.report().states if state["number"] == number]
            found = {each["pid"]: each for each in states if pids is None or each["pid"] in pids}
            if pids is None or len(found) == len(pids) or time.monotonic() >= until_s:
                return found
            time.sleep(_POLL_S)

    def _receive_on(self) -> None:
        while not self._is_over:
            self._poller.poll()
            with self._receiving:
                self._receive()

    def _receive(self) -> None:
        """Take what has come, without waiting. A process closes one connection before it makes the
        next: what is complete is taken in the order in which it was sent."""
        for _ in range(_MOST_WAITING // _AT_ONCE):
            if self._is_over or not self._accept():
                break
            self._take_what_came()
        if not self._is_over:
            self._take_what_came()

    def _accept(self) -> bool:
        """Accept some; whether there may be more."""
        try:
            for _ in range(_AT_ONCE):
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._poller.register(connection, select.EPOLLIN)
                channel = SocketChannel(connection, most_bytes=_MOST_LINE)
                self._connections[connection.fileno()] = channel
        except BlockingIOError:
            return False
        except OSError:  # no descriptor is left
            time.sleep(_POLL_S)
            return False
        return True

    def _take_what_came(self) -> None:
        events = self._poller.poll(0, len(self._connections) + 1)
        ready = {descriptor for descriptor, _ in events}
        for descriptor in [each for each in self._connections if each in ready]:
            channel = self._connections[descriptor]
            for message in filter(None, map(of_program, channel.messages())):
                if message["kind"] == "listening":
                    self._listening.add(channel)
                    continue
                # A sandbox may have ids of its own.
                if message.get("pid_namespace", self._namespace) == self._namespace:
                    self._here.add(message["pid"])
                self._keep(message)
            if not channel.is_open:
                del self._connections[descriptor]
                self._listening.discard(channel)
                self._poller.unregister(descriptor)
                channel.close()

    def _keep(self, message: Message) -> None:
        pid, size = message["pid"], len(json.dumps(message))
        factor = 2 if message["kind"] in _ENDS else 1
        is_one_too_many = self._sizes[pid] + size > factor * _MOST_BYTES
        if not is_one_too_many and self._size + size <= factor * _MOST_OF_ALL:
            self._sizes[pid] += size
            self._size += size
            self._messages.setdefault(pid, []).append(message)
            self._collector.take(pid, message)
