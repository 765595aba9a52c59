"""What serves pages to the browser: a folder, and the dashboard command as a person starts it."""

import functools
import http.server
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DASHBOARD = (sys.executable, "-m", "tuner.dashboard")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the files of a folder, on the loopback."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def dashboard(
    *arguments: str, what: str = ".+", ending: signal.Signals = signal.SIGINT,
    command: Sequence[str] = DASHBOARD, cwd: Path = ROOT,
) -> Iterator[str]:  # fmt: skip
    """The address that the command prints of `what` it shows; a signal must end it silently."""
    running = subprocess.Popen(
        [*command, "--port", "0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        line = re.compile(rf"{what}: (http://127\.0\.0\.1:\d+/\S*) \(.*\)\n")
        found = line.fullmatch(running.stdout.readline())
        assert found, running.communicate(timeout=60)
        yield found[1]
        running.send_signal(ending)
        assert running.communicate(timeout=60) == ("", "")
        assert running.returncode == 0
    finally:
        running.kill()
        running.communicate()
