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
    _, _, namespace = own_prefix().split(".")
    left = temporary / f"rpc-tuner-{os.getpid()}.1.{namespace}abc"
    left.mkdir()
    sweep()
    assert not left.exists()


def test_what_is_of_another_pid_namespace_stays(temporary: Path) -> None:
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    gone = gone_prefix()
    assert gone.endswith(f".{namespace}-")
    (temporary / f"{gone.replace(str(namespace), str(namespace + 1))}abc").mkdir()
    (temporary / f"{gone}abc").mkdir()
    sweep()
    assert [path.name for path in temporary.iterdir()] == [
        f"{gone.replace(str(namespace), str(namespace + 1))}abc"
    ]


def test_a_process_of_another_pid_namespace_is_left_alone(temporary: Path) -> None:
    code = "from tuner.scratch import own_prefix; print(own_prefix())"
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no PID namespaces are allowed here")
    done = subprocess.run(
        [*command, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    theirs = temporary / f"{done.stdout.strip()}abc"
    theirs.mkdir()
    sweep()
    assert theirs.exists()
