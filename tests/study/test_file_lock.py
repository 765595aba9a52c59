"""One process at a time holds a file, and another one hears which."""

import fcntl
import os
import re
from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.study.file_lock import locked_file


def keep() -> bool:
    return True


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught, locked_file(path, "busy", keep=keep):
        raise AssertionError("two hold it")
    return str(caught.value)


def test_who_holds_it_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "a" / "lock"
    with locked_file(lock, "busy", keep=keep):
        date = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        assert re.fullmatch(rf"busy: process {os.getpid()} on \S+, since {date}; .*", refusal(lock))


def test_a_lock_whose_holder_is_not_known_is_refused_too(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("process twelve")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert refusal(lock).startswith("busy; wait for its end, or give this one another --study")


def test_the_file_stays_if_it_is_to_so_that_nobody_locks_another_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked_file(lock, "busy", keep=keep):
        first = lock.stat().st_ino
    with locked_file(lock, "busy", keep=lambda: False):
        assert lock.stat().st_ino == first
    assert not lock.exists()


def test_a_file_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking it, another process gives it back and removes it."""
    lock, flock = tmp_path / "lock", fcntl.flock
    inodes: list[int] = []

    def late(file: int, how: int) -> None:
        if not inodes:
            lock.unlink()
        inodes.append(os.fstat(file).st_ino)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked_file(lock, "busy", keep=keep):
        assert lock.stat().st_ino == inodes[-1]
        assert len(inodes) == 2
        assert refusal(lock).startswith("busy: process")


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    lock, nowhere = tmp_path / "lock", tmp_path / "nowhere"
    lock.mkdir()
    assert refusal(lock) == f"cannot lock {lock}: Is a directory"
    nowhere.symlink_to(tmp_path / "a" / "b")
    assert refusal(nowhere).startswith(f"cannot lock {nowhere}: ")
