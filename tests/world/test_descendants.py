"""Whatever a process has started ends, daemons that have left its session among it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.world.launcher_contract import awaited, ends
from tuner.plan.config import Config
from tuner.world import descendants
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import end_tree
from tuner.world.descendants import CLUSTER_VARIABLE, cluster_reaped, end_descendants, holds

DAEMONS = """
import os, time
from tuner.world.descendants import keep_orphans
keep_orphans()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(600)
time.sleep(600)
"""

DAEMON = """
import os, time
os.fork() and os._exit(0)
os.setsid()
os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""

LATE = """
import os, sys, time
from tuner.world.descendants import keep_orphans
keep_orphans()
if os.fork() == 0:
    sys.stdin.read()
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


@contextmanager
def sleeping(*command: str, **more: Any) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command or ("sleep", "600"), **more) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("lists", [True, False])
def test_daemons_are_ended(monkeypatch: pytest.MonkeyPatch, lists: bool) -> None:
    if not lists:
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda path: path.name != "children" and exists(path))
    with sleeping(sys.executable, "-c", DAEMONS, stdout=subprocess.PIPE) as process:
        lines = iter(process.stdout or ())
        daemons = {int(next(lines)) for _ in range(3)}
        assert awaited(lambda: {*descendants.living_children(process.pid)} == daemons)
        end_descendants(process.pid)
        assert not any(map(descendants.is_alive, daemons))
        assert descendants.living_children(process.pid) == []
        assert process.poll() is None


def test_a_child_that_ends_while_it_is_looked_at_leaves_no_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its daemon is a child of the process after the children were listed."""
    is_alive = descendants.is_alive

    def ending(pid: int) -> bool:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
            assert awaited(lambda: not is_alive(pid))
        return is_alive(pid)

    with sleeping(sys.executable, "-c", LATE, stdin=subprocess.PIPE) as process:
        assert awaited(lambda: len(descendants.living_children(process.pid)) == 1)
        monkeypatch.setattr(descendants, "is_alive", ending)
        end_descendants(process.pid)
        assert descendants.living_children(process.pid) == []


def test_who_holds_a_pipe_is_known() -> None:
    reader, writer = os.pipe()
    pipe = os.fstat(writer)
    with sleeping(pass_fds=[writer]) as holder, sleeping() as other:
        assert holds(holder.pid, pipe)
        assert awaited(lambda: not holds(other.pid, pipe))
    os.close(reader)
    os.close(writer)
    assert not holds(holder.pid, pipe)


@pytest.mark.world
@pytest.mark.thorough
def test_of_a_cluster_what_has_the_mark_or_a_file_of_the_folder_ends_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = tmp_path / "link" / "cluster"
    folder.mkdir()
    marked = {**os.environ, CLUSTER_VARIABLE: str(folder)}
    log = (folder / "agent.log").open("w")
    with sleeping(env=marked) as heir, sleeping(stderr=log) as agent, sleeping() as other:
        with cluster_reaped(folder):
            log.close()
        assert ends(heir.pid, within_s=60)
        assert ends(agent.pid, within_s=60)
        assert other.poll() is None
    assert not folder.exists()


def test_a_daemon_of_a_program_is_found_by_its_order(tmp_path: Path) -> None:
    order = HookOrder(config=Config.of({}), reports=tmp_path).environment(os.environ)
    with sleeping(sys.executable, "-c", DAEMON, stdout=subprocess.PIPE, env=order) as process:
        daemon = int(next(iter(process.stdout or ())))
        assert awaited(lambda: process.poll() is not None)
        assert descendants.is_alive(daemon)
        end_tree([process.pid], tmp_path)
        assert not descendants.is_alive(daemon)
