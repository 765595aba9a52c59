"""The tests that run as rank 0 of a world of three, in a process of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace.record.conftest import ROOT

HERE = Path(__file__).parent
DEADLINE_S = 400


@pytest.mark.world
@pytest.mark.thorough
def test_all_calls_and_profiles_in_a_world() -> None:
    files = [HERE / "calls_in_a_world.py", HERE / "profiles_in_a_world.py"]
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "filterwarnings=default"]
    rank_0 = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *map(str, files)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        printed, _ = rank_0.communicate(timeout=DEADLINE_S)
    finally:
        if rank_0.poll() is None:
            os.killpg(rank_0.pid, signal.SIGKILL)
            rank_0.communicate()
    assert rank_0.returncode == 0, printed
