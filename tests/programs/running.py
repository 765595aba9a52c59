"""What tests need to run the programs."""

import random
import socket
import sys
from contextlib import suppress
from pathlib import Path

PROGRAMS = Path(__file__).parent
PYTHON = [sys.executable, "-W", "ignore"]


def free_port() -> str:
    """A port that is free, and the next one too; the kernel gives them to no client meanwhile."""
    while True:
        port = random.randrange(20_000, 29_000)
        with suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return str(port)
