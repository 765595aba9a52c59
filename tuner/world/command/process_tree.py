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
    mark = json.dumps(str(reports.resolve()))[1:-1].encode()
    # Before they are orphans, whose parents are not known any more.
    known = [process for pid in pids for process in _tree(pid)]
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    while time.monotonic() < until:
        left = [*_marked(mark), *(each.pid for each in known if _is_alive(each))]
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        top = psutil.Process(pid)
        return [*top.children(recursive=True), top]
    return []


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _marked(mark: bytes) -> Iterator[int]:
    """The processes whose order has the mark; one that has ended has no environment any more."""
    variable = f"{ORDER_VARIABLE}=".encode()
    # A glob calls exists() on each file, which raises if the process has ended.
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            lines = (process / "environ").read_bytes().split(b"\0")
            if any(line.startswith(variable) and mark in line for line in lines):
                yield int(process.name)
