"""What tests need to run the programs."""

import os
import random
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "tests" / "programs"
PYTHON = [sys.executable, "-W", "ignore"]


# Below those that the kernel gives to clients, and above those of the Ray launcher.
_PORTS = range(32_000, 32_766, 2)
_MOST_TAKEN = 8
_taken: deque[int] = deque()


def free_port() -> str:
    """A port that is free, and the next one too; tests in other processes get others meanwhile."""
    while True:
        port = random.choice(_PORTS)
        taken = socket.socket(socket.AF_UNIX)
        try:
            # Until a program listens, only this name says that its port is taken.
            taken.bind(f"\0rpc-tuner-test-port-{port}")
            with socket.socket() as first, socket.socket() as second:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
        except OSError:
            taken.close()
            continue
        _taken.append(taken.detach())
        if len(_taken) > _MOST_TAKEN:
            os.close(_taken.popleft())
        return str(port)


def with_sitecustomize(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give all programs a `sitecustomize` of their own, and return a file to look at.

    It has a line of each process that imported it, be it a server of warm starts.
    """
    seen = folder / "imported"
    (folder / "sitecustomize.py").write_text(
        f"import os\nwith open({str(seen)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return seen


@contextmanager
def busy_machine() -> Iterator[None]:
    """Another program computes meanwhile."""
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        hog.kill()
        hog.wait()
