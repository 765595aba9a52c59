"""Messages over a Unix socket: JSON, and file descriptors beside it."""

import json
import os
import socket
from collections.abc import Sequence
from typing import Any

_HEADER = 8
_MOST_DESCRIPTORS = 253
"""What Linux passes in one message."""


def send(connection: socket.socket, message: object, descriptors: Sequence[int] = ()) -> None:
    """Send a message; the descriptors stay open here. OSError if the other side is gone, one of
    them is not open, or they are too many."""
    # Names of files are bytes in the end: json writes what is no UTF-8 as lone surrogates.
    content = json.dumps(message).encode()
    socket.send_fds(connection, [len(content).to_bytes(_HEADER, "big")], list(descriptors))
    connection.sendall(content)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """The next message and its descriptors, not inheritable; EOFError if the other side ended."""
    flags = socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
    header, descriptors, _, _ = socket.recv_fds(connection, _HEADER, _MOST_DESCRIPTORS, flags)
    left = int.from_bytes(header, "big")
    content = b""
    while left and (part := connection.recv(min(left, 1 << 20))):
        content += part
        left -= len(part)
    if left or not content:
        for descriptor in descriptors:
            os.close(descriptor)
        raise EOFError("the other side is gone")
    return json.loads(content), descriptors
