"""The functions that a new process starts in.

The launcher names them without importing torch; the process that runs them has it preloaded.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection

from tuner.world.rank.task import RankTask

_PR_SET_PDEATHSIG = 1
PRELOADED = "tuner.world.rank.preload"


def leave_with_parent() -> None:
    """Put this process in a group of its own, and have the kernel end it with its parent.

    A process group: a Ctrl-C at the terminal is the launcher's to handle, and whatever this
    process starts can be ended with it. Not a session: the kernel shares CPU time among sessions
    first (autogroup), and a busy-polling peer in another session would take a whole core from the
    one that works.
    """
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_rank(task: RankTask, connection: Connection) -> None:
    """Run one rank of a world."""
    leave_with_parent()
    from tuner.world.rank.main import run_rank

    run_rank(task, connection)


def start_describing(reference: str, options: Mapping[str, object], answer: Connection) -> None:
    """Describe a workload."""
    _keep_to_stderr()
    from tuner.world.rank.describe import describe

    describe(reference, options, answer)


def start_listing(answer: Connection) -> None:
    """Describe all shipped workloads."""
    _keep_to_stderr()
    from tuner.world.rank.describe import list_shipped

    list_shipped(answer)


def _keep_to_stderr() -> None:
    """What a workload's module prints must not mix with the command's answer."""
    leave_with_parent()
    os.dup2(2, 1)
    sys.stdout = sys.stderr
