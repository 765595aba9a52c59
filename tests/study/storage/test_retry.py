"""A storage that goes away in the middle of a search: nothing is lost, or counted twice."""

import os
import pwd
import re
import shutil
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from testing import made
from testing.disks import FILLING, fill, small_disk
from testing.fakes import FakeLauncher
from testing.postgresql import PASSWORD, Server
from tests.searching.tuning import Listening
from tuner.errors import StorageLostError, StudyTakenError, UsageError
from tuner.present.study_result import StudyResult
from tuner.study.folder import StudyFolder
from tuner.study.records import Record
from tuner.study.storage import retry
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.study_lock import study_lock
from tuner.study.write_ahead_log import WriteAheadLog
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

pytestmark = pytest.mark.slow


@dataclass
class Losing(FakeLauncher):
    """A launcher in whose world number `at` something happens to the storage."""

    at: int = 6
    happens: Callable[[], object] = lambda: None

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if len(self.orders) == self.at:
            self.happens()
        return super().run(order)

    @property
    def worlds(self) -> int:
        return len(self.orders) + len(self.traced)


def search(out: Path, launcher: Losing, storage: str | None = None, **changes: Any) -> StudyResult:
    """Search for four blocks; the study has the name of its folder."""
    keys = {"max_blocks": 4, "storage": storage, "name": out.name, **changes}
    return made.search(out, launcher, **keys)


def lost(out: Path, launcher: Losing, storage: str | None = None) -> str:
    """What is said at the end of a search whose storage does not come back."""
    with pytest.raises(StorageLostError) as caught:
        search(out, launcher, storage)
    assert caught.value.exit_code == 130
    assert "\n" not in str(caught.value)
    return str(caught.value)


def records_of(out: Path, storage: str | None = None) -> list[Record]:
    """Every world that the storage has, each once."""
    records = load_study(StudyPlace.named(out.name, storage=storage, out=out)).records()
    keys = {(record.trial, record.block, record.again) for record in records}
    assert len(keys) == len(records), "a world counts twice"
    return records


def goes_on(out: Path, stored: int, storage: str | None = None, *, is_kept: bool = True) -> None:
    """Resumes a search whose storage is back, and has so many worlds; one more, if that is kept,
    waits beside it. Nothing is lost, or counts twice."""
    assert len(records_of(out, storage)) == stored
    hearing, later = Listening(), Losing()
    assert search(out, later, storage, resume=True, observer=hearing).blocks == 4
    waited = f"what waited in {out}/unsaved.jsonl is in the storage now: 1 world"
    assert (waited in hearing.told) == is_kept
    assert len(records_of(out, storage)) == stored + is_kept + later.worlds
    assert not list(out.glob("unsaved*"))


def said_meanwhile(out: Path, happens: Callable[[], object], storage: str) -> str:
    """What a search says whose storage goes away, and comes back: nothing is lost."""
    hearing, launcher = Listening(), Losing(happens=happens)
    assert search(out, launcher, storage, observer=hearing).blocks == 4
    away, back = (each for each in hearing.told if each.startswith("the storage "))
    assert back.startswith("the storage is back after ")
    assert len(records_of(out, storage)) == launcher.worlds
    assert not list(out.glob("unsaved*"))
    return away


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is enough to wait."""
    monkeypatch.setattr(retry, "MOST_S", 0.5)
    monkeypatch.setattr(retry, "LEAST_S", 0.5)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(small_disk(tmp_path, 4))
        except PermissionError as error:
            pytest.skip(str(error))
        yield folder


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

    said = said_meanwhile(tmp_path / "one", block, storage)
    assert "does not answer (database is locked): waiting for it" in said


@pytest.mark.usefixtures("short_waits")
def test_a_disk_that_stays_full_ends_the_search_and_loses_nothing(disk: Path) -> None:
    out, launcher = disk / "one", Losing(happens=lambda: fill(disk))
    said = lost(out, launcher)
    assert "disk is full" in said
    assert f"Everything measured is kept, the last of it in {out}/unsaved.jsonl" in said
    (disk / FILLING).unlink()
    goes_on(out, launcher.worlds - 1)


def test_a_disk_that_is_full_at_the_start_is_told_in_a_line(disk: Path) -> None:
    out = disk / "one"
    search(out, Losing())
    before = len(records_of(out))
    fill(disk)
    told = r"cannot lock \S+search.lock: No space left on device$"
    for changes in ({"resume": True, "max_blocks": 8}, {"overwrite": True}):
        with pytest.raises(UsageError, match=told):
            search(out, Losing(), **changes)
    with pytest.raises(UsageError, match=told):
        search(disk / "two", Losing())
    (disk / FILLING).unlink()
    assert len(records_of(out)) == before


@pytest.mark.usefixtures("short_waits")
def test_a_folder_that_was_removed_is_not_said_to_be_kept(tmp_path: Path) -> None:
    out = tmp_path / "one"
    said = lost(out, Losing(happens=lambda: shutil.rmtree(out)))
    assert f"{out}/study.db is gone, and with it what was measured. If it comes back" in said
    assert "is kept" not in said
    assert not out.exists()


@pytest.mark.usefixtures("short_waits")
def test_a_folder_that_comes_back_is_its_owners(tmp_path: Path) -> None:
    out = tmp_path / "one"

    def replace() -> None:
        """As a trace that is written then would."""
        shutil.rmtree(out)
        (out / "traces").mkdir(parents=True)

    lost(out, Losing(happens=replace))
    assert stat.filemode(out.stat().st_mode) == "drwx------"


@pytest.mark.usefixtures("short_waits")
def test_an_interrupt_after_the_folder_was_removed_does_not_say_that_all_is_kept(
    tmp_path: Path,
) -> None:
    out = tmp_path / "one"

    def remove() -> None:
        shutil.rmtree(out)
        raise KeyboardInterrupt

    said = lost(out, Losing(happens=remove))
    assert "is gone, and with it what was measured" in said
    assert not out.exists()


def test_a_storage_that_goes_before_the_study_begins_has_kept_nothing(tmp_path: Path) -> None:
    out = tmp_path / "one"
    log = StudyPlace.named("one", out=out).write_ahead_log()
    log.has_begun = False
    assert log.going_on("it is back") == (
        "The study has not begun, and holds nothing. When it is back, the same command begins it"
    )


@pytest.mark.usefixtures("short_waits")
def test_a_folder_that_cannot_be_written_takes_the_last_world_with_it(tmp_path: Path) -> None:
    out = tmp_path / "one"

    def seal() -> None:
        """Nobody may write there from now on, and root is nobody."""
        out.chmod(0o555)
        if os.getuid() == 0:
            os.seteuid(pwd.getpwnam("nobody").pw_uid)

    launcher = Losing(happens=seal)
    try:
        said = lost(out, launcher)
    finally:
        os.seteuid(os.getuid())
        out.chmod(0o755)
    assert f"cannot be kept in {out}/unsaved.jsonl either (Permission denied). Everything" in said
    goes_on(out, launcher.worlds - 1, is_kept=False)


def test_a_write_whose_answer_was_lost_is_done_once(tmp_path: Path) -> None:
    lost: set[str] = set()

    def forgetful(name: str) -> Callable[..., Any]:
        def method(self: InMemoryStorage, *given: Any, **keys: Any) -> Any:
            found = getattr(InMemoryStorage, name)(self, *given, **keys)
            if name not in lost:
                lost.add(name)
                raise sqlalchemy.exc.OperationalError(name, None, Exception("gone"))
            return found

        return method

    writes = {"create_new_study", "create_new_trial", "set_trial_state_values"}
    forgetting = type("Forgetful", (InMemoryStorage,), {each: forgetful(each) for each in writes})
    waiting = retry.Retry("shared.db", WriteAheadLog(StudyFolder(tmp_path), "udf"), print)
    again = retry.retried(forgetting(), waiting, lambda error: error)
    study = optuna.create_study(storage=again, study_name="udf")
    study.add_trial(optuna.create_trial(state=TrialState.RUNNING))
    study.tell(0, 1.0)
    assert lost == writes
    assert [(trial.state.name, trial.value) for trial in study.trials] == [("COMPLETE", 1.0)]


@pytest.fixture
def running(server: Server) -> Iterator[Server]:
    """It runs again after a test, whatever that has done."""
    yield server
    server.stop()
    server.start()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_is_waited_for_and_told(
    running: Server, tmp_path: Path, how: signal.Signals
) -> None:
    def restart() -> None:
        running.stop(how)
        threading.Timer(1.0, running.start).start()

    out = tmp_path / f"restart{how}"
    said = said_meanwhile(out, restart, running.url)
    assert said.startswith(f"the storage postgresql://tester:***@127.0.0.1:{running.port}/postgres")
    assert said.endswith(f"Everything measured is kept, the last of it in {out}/unsaved.jsonl")
    assert "--resume continues it" in made.refusal(out, storage=running.url, name=out.name)


@pytest.mark.usefixtures("short_waits")
def test_what_a_lost_storage_did_not_take_is_written_by_resume(
    running: Server, tmp_path: Path
) -> None:
    out, launcher = tmp_path / "lost", Losing(happens=running.stop)
    said = lost(out, launcher, running.url)
    assert re.search(r"and did not within [\d.]+ ?m?s\. Everything measured is kept", said)
    assert said.endswith("When the storage is back, the same command with --resume continues it")
    assert PASSWORD not in said
    running.start()
    goes_on(out, launcher.worlds - 1, running.url)


def test_a_lock_whose_connection_ended_is_taken_again(running: Server) -> None:
    address = StudyAddress(running.url, "held", in_own_folder=False)
    with study_lock(address) as hold:
        running.stop()
        with pytest.raises(sqlalchemy.exc.OperationalError):
            hold()
        running.start()
        hold()
        told = "another search of the study held is running"
        with pytest.raises(UsageError, match=told), study_lock(address):
            pass


def test_whoever_took_the_study_meanwhile_keeps_it(running: Server, tmp_path: Path) -> None:
    """Its connection is ended, and somebody is faster than the search that had it."""
    out = tmp_path / "taken"
    address = StudyAddress(running.url, out.name, in_own_folder=False)
    other = study_lock(address)

    def take_over() -> None:
        engine = sqlalchemy.create_engine(running.url, poolclass=sqlalchemy.NullPool)
        end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(end))
        other.__enter__()
        # A lock that was just made sure of is not asked for again.
        time.sleep(1.1)

    launcher = Losing(happens=take_over)
    try:
        with pytest.raises(StudyTakenError, match="took the study taken while the storage"):
            search(out, launcher, running.url)
    finally:
        other.__exit__(None, None, None)
    goes_on(out, launcher.worlds - 1, running.url)
