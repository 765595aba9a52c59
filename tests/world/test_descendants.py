"""Whatever a process has started ends, daemons that have left its session among it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.world import descendants
from tuner.world.descendants import end_descendants, holds, living_children

DAEMONS = """
import os, sys, time
from tuner.world.descendants import keep_orphans
keep_orphans()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


def awaited(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("lists", [True, False])
def test_daemons_are_ended(monkeypatch: pytest.MonkeyPatch, lists: bool) -> None:
    if not lists:
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda path: path.name != "children" and exists(path))
    process = subprocess.Popen([sys.executable, "-c", DAEMONS], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert awaited(lambda: len(living_children(process.pid)) == 3)
        daemons = living_children(process.pid)
        end_descendants(process.pid)
        assert not any(map(descendants._is_alive, daemons))
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_who_holds_a_pipe_is_known() -> None:
    reader, writer = os.pipe()
    pipe = os.fstat(writer)
    holder = subprocess.Popen(["sleep", "600"], pass_fds=[writer])
    other = subprocess.Popen(["sleep", "600"])
    try:
        assert holds(holder.pid, pipe)
        assert awaited(lambda: not holds(other.pid, pipe))
    finally:
        for process in (holder, other):
            process.kill()
            process.wait()
        os.close(reader)
        os.close(writer)
    assert not holds(holder.pid, pipe)
