"""What killed commands have left is swept, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner import scratch
from tuner.scratch import own_prefix, sweep


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def gone_prefix() -> str:
    """That of a process that has ended."""
    code = "from tuner.scratch import own_prefix; print(own_prefix())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_the_dead_left_goes_with_what_was_beside_it(temporary: Path) -> None:
    left = temporary / f"{gone_prefix()}abc"
    (left / "world-1").mkdir(parents=True)
    sockets, mine = temporary / "pymp-12345678", temporary / "mine"
    for folder in (sockets, mine):
        folder.mkdir()
        scratch.note_beside(left, folder)
    sweep()
    assert not left.exists()
    assert not sockets.exists()
    assert mine.exists()  # multiprocessing does not name its folders so


def test_what_is_of_the_living_or_of_nobody_stays(temporary: Path) -> None:
    number = os.getpid()
    names = [f"{own_prefix()}abc", "rpc-tuner-abc", f"rpc-tuner-{number}", "notes"]
    for name in names:
        (temporary / name).mkdir()
    (temporary / f"{gone_prefix()}link").symlink_to(temporary / "notes")
    sweep()
    assert all((temporary / name).exists() for name in names)


def test_another_process_with_the_same_number_is_not_the_owner(temporary: Path) -> None:
    left = temporary / f"rpc-tuner-{os.getpid()}.1-abc"
    left.mkdir()
    sweep()
    assert not left.exists()
