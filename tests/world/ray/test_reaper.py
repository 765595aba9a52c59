"""What ends the processes that a cluster leaves; it takes no cluster to see that."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.launcher_contract import ends
from tuner.world.ray.reaper import marked, reaped

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_what_has_the_mark_or_a_file_of_the_folder_ends_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = tmp_path / "link" / "cluster"
    folder.mkdir()
    other = subprocess.Popen(SLEEPS)
    with reaped(folder):
        with marked(folder):
            heir = subprocess.Popen(SLEEPS)
        with (folder / "agent.log").open("w") as log:
            agent = subprocess.Popen(SLEEPS, stderr=log)
    try:
        assert ends(heir.pid, within_s=60)
        assert ends(agent.pid, within_s=60)
        assert other.poll() is None
        assert not folder.exists()
    finally:
        for process in (other, heir, agent):
            process.kill()
            process.wait()
