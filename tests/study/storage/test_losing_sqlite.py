"""A SQLite storage that is locked, full or not to be written any more, in a search's middle."""

import os
import pwd
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from tests.study.storage.losing import Hearing, Losing, nothing_unsaved, records_of, search
from tuner.errors import StorageLostError
from tuner.study.storage import patience

pytestmark = pytest.mark.slow


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is enough to wait."""
    monkeypatch.setattr(patience, "MOST_S", 0.5)
    monkeypatch.setattr(patience, "LEAST_S", 0.5)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can make a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """Fill a disk to the last byte; returns what fills it."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filling


def lock(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    # SQLite itself waits so long, each time.
    storage = f"sqlite:///{tmp_path}/shared.db?timeout=0.1"

    def block() -> None:
        locked = lock(tmp_path / "shared.db")
        threading.Timer(1.0, locked.close).start()

    hearing, launcher = Hearing(), Losing(happens=block)
    assert search(tmp_path / "one", launcher, storage, observer=hearing).blocks == 4
    away, back = hearing.of_the_storage
    assert "does not answer (database is locked): waiting for it" in away
    assert back.startswith("the storage is back after ")
    assert len(records_of(tmp_path / "one", storage)) == launcher.worlds
    assert nothing_unsaved(tmp_path / "one")


@pytest.mark.usefixtures("impatient")
def test_a_database_that_stays_locked_ends_the_search(tmp_path: Path) -> None:
    storage, out = f"sqlite:///{tmp_path}/shared.db?timeout=0.1", tmp_path / "one"
    held = []
    launcher = Losing(happens=lambda: held.append(lock(tmp_path / "shared.db")))
    with pytest.raises(StorageLostError, match="database is locked") as caught:
        search(out, launcher, storage)
    assert f"the last of it in {out}/unsaved.jsonl" in str(caught.value)
    held[0].close()
    later = Losing()
    assert search(out, later, storage, resume=True).blocks == 4
    assert len(records_of(out, storage)) == launcher.worlds + later.worlds
    assert nothing_unsaved(out)


def test_a_full_disk_is_waited_for(disk: Path) -> None:
    def block() -> None:
        filling = fill(disk)
        threading.Timer(1.0, filling.unlink).start()

    hearing, launcher = Hearing(), Losing(happens=block)
    assert search(disk / "one", launcher, observer=hearing).blocks == 4
    away, _ = hearing.of_the_storage
    assert "does not answer (database or disk is full): waiting for it" in away
    assert away.endswith(f"the last of it in {disk}/one/unsaved.jsonl")
    assert len(records_of(disk / "one")) == launcher.worlds
    assert nothing_unsaved(disk / "one")


@pytest.mark.usefixtures("impatient")
def test_a_disk_that_stays_full_ends_the_search_and_loses_nothing(disk: Path) -> None:
    out, launcher = disk / "one", Losing(happens=lambda: fill(disk))
    with pytest.raises(StorageLostError, match="disk is full") as caught:
        search(out, launcher)
    assert f"everything measured is kept, the last of it in {out}/unsaved.jsonl" in str(
        caught.value
    )
    (disk / "filling").unlink()
    later = Losing()
    assert search(out, later, resume=True).blocks == 4
    assert len(records_of(out)) == launcher.worlds + later.worlds
    assert nothing_unsaved(out)


@pytest.mark.usefixtures("impatient")
def test_a_folder_that_cannot_be_written_takes_the_last_world_with_it_and_says_so(
    tmp_path: Path,
) -> None:
    out = tmp_path / "one"
    launcher = Losing(happens=lambda: seal(out))
    try:
        with pytest.raises(StorageLostError) as caught:
            search(out, launcher)
    finally:
        unseal(out)
    assert (
        f"what was measured last cannot be kept in {out}/unsaved.jsonl either (Permission denied), "
        "everything before it is in the storage" in str(caught.value)
    )
    assert len(records_of(out)) == launcher.worlds - 1
    later = Losing()
    assert search(out, later, resume=True).blocks == 4
    assert len(records_of(out)) == launcher.worlds - 1 + later.worlds
    assert nothing_unsaved(out)


def seal(folder: Path) -> None:
    """Nobody may write there from now on, and root is nobody."""
    folder.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)


def unseal(folder: Path) -> None:
    if os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o755)
