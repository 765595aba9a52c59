"""The tests that run as rank 0 of a world of three, in a process of their own."""

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
    # The kernel ends the other ranks together with rank 0.
    rank_0 = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert rank_0.returncode == 0, rank_0.stdout
