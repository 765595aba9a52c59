"""The dashboard command, as a person starts it and stops it again."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def dashboard(*arguments: str) -> Iterator[str]:
    """The address that the command prints; Ctrl-C must end it without an error or a message."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tuner.dashboard", "--port", "0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", running.stdout.readline())
        assert found, running.communicate(timeout=60)
        yield found[0]
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60) == ("", "")
        assert running.returncode == 0
    finally:
        running.kill()
        running.communicate()
