"""A channel between two processes over a socket: a line of JSON a message, and file descriptors
beside it. Standard library only: the server of warm starts has it, too."""

import json
import math
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Self

# Beyond all that a process has to say, but a bound to what one can make the other side hold.
MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 20
_DESCRIPTORS_BYTES = 253 * 4
"""What Linux passes in one message: so many C ints."""


class SocketChannel:
    """One end. A process may stop in the middle of a message: what has come of it is kept until the
    rest is there."""

    def __init__(self, connection: socket.socket, *, most_bytes: int = MOST_BYTES) -> None:
        self.connection = connection
        self.is_open = True
        """Whether anything may still come."""
        self._most_bytes = most_bytes
        self._received = bytearray()
        self._whole: list[object] = []

    @classmethod
    def pair(cls) -> tuple[Self, socket.socket]:
        """An end that never blocks, and the socket of the other one."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return cls(ours), theirs

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message; the descriptors stay open here. OSError if the other side is gone, or
        reads nothing and this end never blocks; or if a descriptor is not open, or one too many."""
        # Names of files are bytes in the end: json writes what is no UTF-8 as lone surrogates.
        self.send_json(json.dumps(message).encode(), descriptors)

    def send_json(self, text: bytes, descriptors: Sequence[int] = ()) -> None:
        """As `send`, of a message that is JSON already, in one line."""
        line, sent = text + b"\n", 0
        if descriptors:
            sent = socket.send_fds(self.connection, [line], list(descriptors), socket.MSG_NOSIGNAL)
        # By default the signal of a side that is gone would end a program.
        self.connection.sendall(line[sent:], socket.MSG_NOSIGNAL)

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for the next message, and its descriptors, not inheritable: one that has some is
        sent when those before it are received, or Linux joins them. EOFError if there will be none;
        OSError as the socket has it."""
        descriptors: list[int] = []
        try:
            while (end := self._received.find(b"\n")) < 0:
                # Not `socket.recv_fds`, which drops the flags.
                part, beside, _, _ = self.connection.recvmsg(
                    _READ_BYTES, socket.CMSG_LEN(_DESCRIPTORS_BYTES), socket.MSG_CMSG_CLOEXEC
                )
                for level, kind, content in beside:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        descriptors += memoryview(content).cast("i")
                self._received += part
                if not part:
                    raise EOFError("the other side is gone")
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return json.loads(line), descriptors

    def messages(self) -> list[object]:
        """What has come in whole since the last time, without waiting, and without descriptors; no
        more once the other side is gone, or has sent what is no message."""
        self._take()
        found, self._whole = self._whole, []
        return found

    def awaited(self, seconds: float) -> object:
        """The next message. EOFError if there will be none; TimeoutError after so many seconds."""
        until, poller = time.monotonic() + seconds, select.poll()
        self._take()
        while not self._whole:
            if not self.is_open:
                raise EOFError("the other side is gone")
            if (left_s := until - time.monotonic()) <= 0:
                raise TimeoutError("no message came in time")
            poller.register(self.connection, select.POLLIN)
            poller.poll(None if left_s == math.inf else 1000 * left_s)
            self._take()
        return self._whole.pop(0)

    def _take(self) -> None:
        while self.is_open and len(self._received) <= self._most_bytes:
            try:
                part = self.connection.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            self.is_open = bool(part)
            self._received += part
        *lines, self._received = self._received.split(b"\n")
        try:
            self._whole.extend(json.loads(line) for line in lines)
            if len(self._received) > self._most_bytes:
                raise ValueError
        except (ValueError, RecursionError):
            self.is_open = False  # nothing that follows can be relied upon

    def close(self) -> None:
        """Take no more messages."""
        self.is_open = False
        self.connection.close()
