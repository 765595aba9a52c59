"""SIGKILL of what a search has started, at random moments: it goes on, and bars nothing for it."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import SEARCH, Sessions, program

KILLS, LEAST_KILLS = 30, 10
MORE = ("--budget", "150s", "--max-blocks", "300", "--epsilon", "0.1%")

Victims = Callable[[psutil.Process], Sequence[psutil.Process]]
"""From the process of a search to those that may be killed."""


def _servers(text: str, search: psutil.Process) -> list[psutil.Process]:
    """The children of a search whose command line has the text."""
    return [child for child in search.children() if text in " ".join(child.cmdline())]


def _ranks(text: str, search: psutil.Process) -> list[psutil.Process]:
    return [rank for server in _servers(text, search) for rank in server.children()]


def _killed(victims: Victims, arguments: Sequence[str], folder: Path) -> Outcome:
    """A search one of whose processes is killed each time that two more worlds are measured."""
    sessions = Sessions(folder, arguments)
    (sessions.here / "main.py").write_text(program())
    running = sessions.begin()
    search = psutil.Process(running.process.pid)
    killed = sessions.kills(running, lambda: victims(search), KILLS)
    ended = sessions.ended(running)
    failed = [line for line in ended.stderr.splitlines() if "crashed" in line or "failed" in line]
    told = "".join(f"; it says {line[:200]}" for line in failed[:1])
    sessions.judge(f"{killed} kills{told}", killed >= LEAST_KILLS and not failed)
    return sessions.outcome(ended)


_FORKSERVER = "multiprocessing.forkserver"
_OF_WORKLOAD = (*SEARCH, *MORE)
_OF_PROGRAM = (*MORE, "--space", "num_worker_threads=2,4", "--", sys.executable, "main.py")

ROWS = tuple(
    Row(f"SIGKILL of {what} at {KILLS} random moments",
        "the search goes on, nothing is lost, no configuration is barred",
        partial(_killed, victims, arguments))
    for what, victims, arguments in (
        ("a rank", partial(_ranks, _FORKSERVER), _OF_WORKLOAD),
        ("the forkserver", partial(_servers, _FORKSERVER), _OF_WORKLOAD),
        ("a rank of a program", partial(_ranks, "rpc_tuner_server"), _OF_PROGRAM),
    )
)  # fmt: skip
