"""Threads that call at the same time lose no call, with a GIL and without one."""

import os
import shutil
import subprocess
import sys

import pytest

from testing.programs import PROGRAMS, free_port
from tests.world.command.recorded import recorded

pytestmark = [pytest.mark.world, pytest.mark.thorough]

NAMES = [f"python3.{minor}t" for minor in range(13, 20)]
"""Of interpreters that can do without a GIL; the one whose tests these are may be one, too."""


def without_gil() -> str:
    """An interpreter with PyTorch, and without a GIL."""
    look = "import sys, torch; sys.exit(sys._is_gil_enabled())"
    environment = {**os.environ, "PYTHON_GIL": "0"}
    for path in filter(None, [sys.executable, *map(shutil.which, NAMES)]):
        done = subprocess.run([path, "-c", look], env=environment, capture_output=True, check=False)
        if done.returncode == 0:
            return path
    pytest.skip(f"no free-threaded Python with PyTorch is on the PATH, such as {NAMES[0]}")


@pytest.mark.parametrize("has_gil", [True, False])
def test_calls_of_several_threads_are_counted_and_recorded(
    has_gil: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = sys.executable if has_gil else without_gil()
    if not has_gil:
        monkeypatch.setenv("PYTHON_GIL", "0")
    run = recorded(python, "-W", "ignore", str(PROGRAMS / "threads_call.py"), free_port())
    assert run.counted == sum(rank.calls for rank in run.end.report.ranks) == len(run.trace.calls)
    assert f"a GIL: {has_gil}" in run.printed
    assert run.trace.losses == ()
