"""Processes are started whole, or not at all."""

import os
import signal
import time
from multiprocessing.context import ForkServerProcess

import pytest

from tuner.world.local.processes import Processes, end_process

pytestmark = pytest.mark.world


def test_an_interruption_waits_until_a_process_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is started by half has no one to read from, and prints a traceback."""
    started: list[ForkServerProcess] = []
    start = ForkServerProcess.start

    def interrupted(process: ForkServerProcess) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        start(process)
        started.append(process)

    monkeypatch.setattr(ForkServerProcess, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Processes().start(time.sleep, 0.0)
    (process,) = started
    end_process(process)
