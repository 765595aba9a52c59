"""However it ends, nothing is left of what a warm starter has started."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.world.command.warm.starting_both import PYTHON, hooked, learnt_with, run_to_end
from tuner.errors import LauncherError
from tuner.world.command.warm import warm_starting
from tuner.world.command.warm.warm_starting import WarmProcess, WarmStarter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
TREE = """
import multiprocessing as mp, os, subprocess, sys, time
def wait():
    away = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print("child", os.getpid(), away.pid, flush=True)
    time.sleep(600)
if __name__ == "__main__":
    child = mp.get_context("spawn").Process(target=wait)
    child.start()
    time.sleep(600)
"""
STARTER = """
import os, sys, time
from pathlib import Path
from tests.world.command.warm.test_leaves_nothing import starting
with starting(Path(sys.argv[1])) as (warm, environment):
    warm.start(environment, 1, 2)
    time.sleep(600)
"""


def first_line(descriptor: int, timeout_s: float = 60.0) -> list[str]:
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([descriptor], [], [], timeout_s)[0]
        line += os.read(descriptor, 1000)
    return line.decode().split()


def gone(pid: int, timeout_s: float = 20.0) -> bool:
    """Whether a process has ended, and its parent has taken note, unless that is pid 1."""
    deadline = time.monotonic() + timeout_s
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while not (process.status() == psutil.STATUS_ZOMBIE and process.ppid() == 1):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
    return True


@contextmanager
def starting(folder: Path) -> Iterator[tuple[WarmStarter, dict[str, str]]]:
    (folder / "tree.py").write_text(TREE)
    environment = hooked(folder)
    learnt = learnt_with(environment)
    with WarmStarter([PYTHON, "tree.py"], environment, folder, learnt) as warm:
        yield warm, environment


def started(warm: WarmStarter, environment: dict[str, str]) -> tuple[WarmProcess, list[int], int]:
    """A run: its process, what it has started, and the end of the pipe that they print into."""
    reader, writer = os.pipe()
    process = warm.start(environment, writer, writer)
    os.close(writer)
    return process, [int(pid) for pid in first_line(reader)[1:]], reader


def is_closed(reader: int) -> bool:
    """Whether no process holds the other end any more."""
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read() == b""


def test_at_the_end_of_the_starter(tmp_path: Path) -> None:
    with starting(tmp_path) as (warm, environment):
        process, below, reader = started(warm, environment)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        run = psutil.Process(process.pid)
        assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
        pids = [process.pid, *below, run.ppid()]
        pids += [child.pid for child in run.children(recursive=True)]
    assert all(gone(pid) for pid in pids)
    assert process.wait(1.0) == -signal.SIGKILL
    assert is_closed(reader)


def test_the_group_can_be_killed_and_the_next_run_is_none_the_worse(tmp_path: Path) -> None:
    with starting(tmp_path) as (warm, environment):
        for _ in range(2):
            process, below, reader = started(warm, environment)
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(20.0) == -signal.SIGTERM
            # What has left the group, and the session, ends with the run, too.
            assert all(gone(pid) for pid in below)
            assert is_closed(reader)


def test_when_the_tuner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as tuner:
        assert tuner.stdout is not None
        _, child, away = first_line(tuner.stdout.fileno())
        below = [each.pid for each in psutil.Process(tuner.pid).children(recursive=True)]
        assert {int(child), int(away)} < set(below)
        tuner.kill()
    assert all(gone(pid) for pid in below)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_server_is_killed_or_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    with starting(tmp_path) as (warm, environment):
        process, below, reader = started(warm, environment)
        monkeypatch.setattr(warm_starting, "_FORK_S", 0.5)
        psutil.Process(psutil.Process(process.pid).ppid()).send_signal(how)
        with pytest.raises(LauncherError, match="the server of warm starts"):
            run_to_end(warm, environment)
        assert process.wait(20.0) == -signal.SIGKILL
    os.kill(below[1], signal.SIGKILL)  # in a session of its own, that nobody knows
    assert all(gone(pid) for pid in (process.pid, *below))
    assert is_closed(reader)


def test_an_interpreter_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    (tmp_path / "python").chmod(0o700)
    (tmp_path / "main.py").touch()
    environment = hooked(tmp_path)
    with pytest.raises(LauncherError, match="the server of warm starts ended: no such thing"):
        WarmStarter(["./python", "main.py"], environment, tmp_path, learnt_with(environment)).wait()


def test_a_start_that_is_not_reported_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with starting(tmp_path) as (warm, environment):
        monkeypatch.setattr(warm_starting, "of_warm_server", lambda sent: None)
        with pytest.raises(LauncherError, match="the server of warm starts ended"):
            warm.start(environment, 1, 2)
        monkeypatch.undo()
        with pytest.raises(LauncherError, match="the server of warm starts ended"):
            warm.start(environment, 1, 2)
