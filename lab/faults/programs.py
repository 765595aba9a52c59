"""Programs that leave daemons: nothing is left of them, warm or cold."""

import signal
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.commands import still_there
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import Sessions, program

# In a session of its own, without our environment: nothing but its parents tells whose it is.
_DAEMONS = """
if os.fork() == 0:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(1200)", "{mark}"]
    subprocess.Popen(command, start_new_session=True, env={{}})
    os._exit(0)
os.wait()
"""


def _daemons(flags: Sequence[str], number: signal.Signals | None, folder: Path) -> Outcome:
    """Every run of a program leaves a daemon, and the search ends by itself or by a signal."""
    mark, is_killed = uuid.uuid4().hex, number is not None
    sessions = Sessions(folder, (
        "--budget", "10m", "--space", "num_worker_threads=2", *flags,
        "--", sys.executable, "main.py",
    ))  # fmt: skip
    (sessions.here / "main.py").write_text(program(before=_DAEMONS.format(mark=mark)))
    running = sessions.begin("--max-blocks", "300" if is_killed else "3")
    if number is not None:
        sessions.measuring(running, 6)
        running.process.send_signal(number)
    ended = sessions.ended(running, is_killed=is_killed)
    for each in still_there(partial(_marked, mark)):
        sessions.left.append(f"{each.pid}, a daemon")
        with suppress(psutil.Error):
            each.kill()
    return sessions.outcome(ended, -(number or 0))


def _marked(mark: str) -> list[psutil.Process]:
    every = psutil.process_iter(["cmdline"])
    return [each for each in every if mark in (each.info["cmdline"] or [])]


ROWS = tuple(
    Row(f"each run of a program leaves a daemon: {how}", "it is measured, nothing is left",
        partial(_daemons, flags, number))
    for how, flags, number in (
        ("started warm", (), None),
        ("started cold", ("--cold",), None),
        ("warm, and the command is killed", (), signal.SIGKILL),
        ("cold, and the command is killed", ("--cold",), signal.SIGKILL),
    )
)  # fmt: skip
