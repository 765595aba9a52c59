"""Ends the processes of a program: gently where asked, and all of them in the end."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tuner.world.command.order import ORDER_VARIABLE

_GENTLE: tuple[tuple[int, float], ...] = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))
"""Signals, and how many seconds each gets to have its effect."""
_GONE_S = 5.0
_POLL_S = 0.02


def stop_gently(pids: Sequence[int], have_ended: Callable[[], bool]) -> None:
    """Ask the process groups of these leaders to end, as Ctrl-C and then a shutdown would."""
    for number, seconds in _GENTLE:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if have_ended():
                return
            time.sleep(_POLL_S)


def end_tree(pids: Sequence[int], reports: Path) -> None:
    """Kill what is left of a program: its groups, its descendants, and what carries its order.

    Args:
        pids: The leaders of its process groups.
        reports: The folder of the order, which every process has in its environment that did not
            make one of its own.
    """
    until = time.monotonic() + _GONE_S
    # As it stands in the order, which is JSON.
    mark = json.dumps(str(reports.resolve()))[1:-1]
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    while time.monotonic() < until:
        left = list(_left(pids, mark))
        if not left:
            return
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL_S)


def _left(pids: Sequence[int], mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            is_marked = mark in process.environ().get(ORDER_VARIABLE, "")
            if is_marked or any(parent.pid in pids for parent in process.parents()):
                yield process
