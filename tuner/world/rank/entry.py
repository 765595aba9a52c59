"""The functions that a new process starts in.

The launcher names them without importing torch; the process that runs them has imported it.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from socket import socket

from tuner.json_text import json_of
from tuner.workloads_package import own_workloads
from tuner.world.descendants import keep_orphans, signal_with_parent
from tuner.world.launcher import RankTask
from tuner.world.own_network import join

RESTORED = "RPC_TUNER_RESTORED"
"""The environment variable that lists for a forkserver which others to restore, as JSON."""


def restore(environment: Mapping[str, str | None]) -> None:
    """Set these environment variables, or remove those that are None."""
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def start_pinned(cpus: Sequence[int], target: Callable[..., None], *arguments: object) -> None:
    """Run `target`, kept to these logical CPUs with all that it starts."""
    os.sched_setaffinity(0, cpus)
    target(*arguments)


def start_rank(task: RankTask, connection: socket) -> None:
    """Run one rank of a world."""
    if task.network:
        # First: only a process of one thread may, and new rights undo what `_settle_in` asks for.
        join(task.network)
    _settle_in(task.folder)
    from tuner.world.rank.run_rank import run_rank

    run_rank(task, connection)


def start_describing(
    folder: Path, answer: socket, reference: str, options: Mapping[str, object]
) -> None:
    """Send what a workload is, whose file may be named from `folder`."""
    _settle_in(folder)
    # What a workload's module prints is kept apart from the command's answer.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    from tuner.world.rank.describe import describe

    answer.sendall(json_of(describe(reference, options)) + b"\n")


def _settle_in(folder: Path) -> None:
    """Put this process in a group of its own, in this folder, and have it end with its parent. A
    process group keeps a Ctrl-C at the terminal for the launcher, and lets it end whatever this
    process starts. A session would distort the measurement: the kernel shares CPU time among
    sessions first (autogroup), so a peer that polls would take a whole CPU from one that works."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked in the forkserver
    signal_with_parent(signal.SIGKILL)
    keep_orphans()
    # The forkserver is to end with the launcher, whatever holds this process's descriptors.
    if (alive := getattr(forkserver._forkserver, "_forkserver_alive_fd", None)) is not None:
        os.close(alive)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    # A forkserver's children start where the parent was when it imported multiprocessing.
    os.chdir(folder)
    # Done already, unless the program has a forkserver that it started before us.
    own_workloads()
