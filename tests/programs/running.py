"""What tests need to run the programs."""

import socket
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent
PYTHON = [sys.executable, "-W", "ignore"]


def free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])
