"""Files are whole or not there, and as private as their folder; what the dead left is swept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner import files
from tuner.files import OWNERS, make_folder, own_prefix, read_bounded, sweep, written_atomically


def write(path: Path, text: str, error: Exception | None = None) -> None:
    with written_atomically(path) as partial:
        partial.write_text(text)
        assert (partial.parent, partial.suffix) == (path.parent, path.suffix)
        assert partial.name.startswith(".")
        if error is not None:
            raise error


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path = tmp_path / "plan.toml"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_bounded(path)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(OSError, match="it has more than 1 MB"):
        read_bounded(path)


def test_a_file_is_whole_or_not_there_with_the_folders_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "studies" / "udf" / "result.json"
    with pytest.raises(RuntimeError, match="disk on fire"):
        write(path, "half", RuntimeError("disk on fire"))
    assert list(path.parent.iterdir()) == []
    write(path, "old")
    with pytest.raises(RuntimeError, match="disk on fire"):
        write(path, "half", RuntimeError("disk on fire"))
    assert (path.read_text(), list(path.parent.iterdir())) == ("old", [path])
    write(path, "new")
    assert (path.read_text(), list(path.parent.iterdir())) == ("new", [path])


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_a_private_folder_has_private_files_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path, shared = tmp_path / "studies" / "mine" / "traces" / "one.json", tmp_path / "ours"
    before = os.umask(umask)
    try:
        make_folder(path.parents[1], OWNERS)
        shared.mkdir()
        shared.chmod(0o750)
        make_folder(shared, OWNERS)
        for each in (path, shared / "traces" / "one.json", tmp_path / "result.json"):
            write(each, "new")
    finally:
        os.umask(before)
    assert [mode(each) for each in (path.parents[1], path.parent, path)] == [0o700, 0o700, 0o600]
    assert mode(tmp_path / "studies") == 0o755 & ~umask
    assert mode(tmp_path / "result.json") == 0o644 & ~umask
    # A folder that is there keeps its rights, and what is in it has them.
    found = [mode(each) for each in (shared, *sorted(shared.rglob("*")))]
    assert found == [0o750, 0o750 & ~umask, 0o640 & ~umask]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def gone_prefix() -> str:
    """That of a process that has ended."""
    code = "from tuner.files import own_prefix; print(own_prefix())"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


def test_what_the_dead_left_goes_with_what_was_beside_it(temporary: Path) -> None:
    left = temporary / f"{gone_prefix()}abc"
    (left / "world-1").mkdir(parents=True)
    sockets, mine = temporary / "pymp-12345678", temporary / "mine"
    for folder in (sockets, mine):
        folder.mkdir()
        files.note_beside(left, folder)
    sweep()
    # multiprocessing does not name its folders so
    assert list(temporary.iterdir()) == [mine]


def test_what_is_of_the_living_or_of_nobody_stays(temporary: Path) -> None:
    number, gone = os.getpid(), gone_prefix()
    namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    assert gone.endswith(f".{namespace}-")
    elsewhere = gone.replace(namespace, f"{namespace}1")
    stay = {f"{own_prefix()}abc", "rpc-tuner-abc", f"rpc-tuner-{number}", f"{elsewhere}abc"}
    for name in (*stay, f"rpc-tuner-{number}.1.{namespace}-abc"):  # the last one: an older process
        (temporary / name).mkdir()
    (temporary / f"{gone}link").symlink_to(temporary / "rpc-tuner-abc")
    sweep()
    assert {path.name for path in temporary.iterdir()} == {*stay, f"{gone}link"}
