"""The launcher's end of the channel to a process: messages as they come, without ever blocking."""

import os
import struct
import time
from multiprocessing.connection import Connection, wait

import orjson

# Beyond all that a rank has to say, but a bound to what one can make the launcher hold.
MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 20
_LENGTH = struct.Struct("!i")


class Channel:
    """Reads the messages of a `multiprocessing` connection, whose other end sends JSON.

    A process may stop in the middle of a message, and one that never ends must not block others:
    what has come of a message is kept until the rest is there.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = bytearray()
        self.is_open = True
        """Whether anything may still come."""
        os.set_blocking(connection.fileno(), False)

    @property
    def connection(self) -> Connection:
        """What to wait for."""
        return self._connection

    def send(self, content: bytes) -> None:
        """Send a message. OSError if the other side is gone, or reads nothing."""
        self._connection.send_bytes(content)

    def messages(self) -> list[object]:
        """What has come in whole since the last time; no more once the other side is gone."""
        while self.is_open:
            try:
                part = os.read(self._connection.fileno(), _READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                self.is_open = False
            self._received += part
            if len(part) < _READ_BYTES:
                break
        found = []
        while (content := self._next()) is not None:
            try:
                found.append(orjson.loads(content))
            except orjson.JSONDecodeError:
                self.is_open = False  # nothing that follows can be relied upon
                break
        return found

    def awaited(self, seconds: float) -> object:
        """The next message. EOFError if there will be none; TimeoutError after so many seconds."""
        until = time.monotonic() + seconds
        while self.is_open and (left_s := until - time.monotonic()) > 0:
            wait([self._connection], left_s)
            if found := self.messages():
                return found[0]
        if self.is_open:
            raise TimeoutError
        raise EOFError

    def close(self) -> None:
        """Close this end."""
        self.is_open = False
        self._connection.close()

    def _next(self) -> bytes | None:
        """The first whole message, which is taken out; None if there is none."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + length
        if not 0 <= length <= MOST_BYTES:
            self.is_open = False
            self._received.clear()
            return None
        if len(self._received) < end:
            return None
        content = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return content
