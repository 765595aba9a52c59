"""A PostgreSQL server that goes away in the middle of a search: nothing is lost, or doubled."""

import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from tests.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from tests.fakes import FakeLauncher
from tests.study.storage.losing import Hearing, Losing, nothing_unsaved, records_of, search
from tests.study.storage.server import PASSWORD, Server, postgresql_server
from tuner.errors import StorageLostError, StudyTakenError, UsageError
from tuner.study.storage import patience
from tuner.study.storage.address import StudyAddress
from tuner.study.storage.study_lock import study_lock

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql_server() as started:
        yield started


@pytest.fixture
def running(server: Server) -> Server:
    """It runs before a test, whatever another one has done."""
    server.stop()
    server.start()
    return server


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_is_waited_for_and_told(
    running: Server, tmp_path: Path, how: signal.Signals
) -> None:
    def restart() -> None:
        running.stop(how)
        timer = threading.Timer(1.0, running.start)
        timer.start()

    hearing, out = Hearing(), tmp_path / f"restart{how}"
    launcher = Losing(happens=restart)
    found = search(out, launcher, running.url, observer=hearing)
    assert found.blocks == 4
    away, back = hearing.of_the_storage
    assert away.startswith(f"the storage postgresql://tester:***@127.0.0.1:{running.port}/postgres")
    assert away.endswith(f"everything measured is kept, the last of it in {out}/unsaved.jsonl")
    assert back.startswith("the storage is back after ")
    assert len(records_of(out, running.url)) == launcher.worlds
    assert nothing_unsaved(out)
    with pytest.raises(UsageError, match="--resume continues it"):
        search(out, FakeLauncher(), running.url)


def test_what_a_lost_storage_did_not_take_is_written_by_resume(
    running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "MOST_S", 0.5)
    monkeypatch.setattr(patience, "LEAST_S", 0.5)
    out, launcher = tmp_path / "lost", Losing(happens=running.stop)
    with pytest.raises(StorageLostError) as caught:
        search(out, launcher, running.url)
    said = str(caught.value)
    kept = r"and did not within (\d+ ?ms|\d+\.?\d* ?s); everything measured is kept"
    assert re.search(kept, said)
    assert said.endswith(
        f", the last of it in {out}/unsaved.jsonl, and when the storage is back the same command "
        "with --resume continues it"
    )
    assert caught.value.exit_code == 130
    assert PASSWORD not in said
    assert "\n" not in said
    measured = launcher.worlds
    running.start()
    assert len(records_of(out, running.url)) == measured - 1
    hearing, later = Hearing(), Losing()
    assert search(out, later, running.url, resume=True, observer=hearing).blocks == 4
    assert f"what waited in {out}/unsaved.jsonl is in the storage now: 1 world" in hearing.said
    assert len(records_of(out, running.url)) == measured + later.worlds
    assert nothing_unsaved(out)


def test_whoever_took_the_study_meanwhile_keeps_it(running: Server, tmp_path: Path) -> None:
    """The lock's connection is ended, and somebody is faster than the search that had it."""
    out = tmp_path / "taken"
    address = StudyAddress(running.url, out.name, in_own_folder=False)
    other = study_lock(address)

    def take_over() -> None:
        engine = sqlalchemy.create_engine(running.url, poolclass=sqlalchemy.NullPool)
        end = sqlalchemy.text(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
        )
        with engine.connect() as connection:
            connection.execute(end)
        other.__enter__()
        # A lock that was just made sure of is not asked for again.
        time.sleep(1.1)

    launcher = Losing(happens=take_over)
    try:
        with pytest.raises(StudyTakenError, match="took the study taken while the storage"):
            search(out, launcher, running.url)
    finally:
        other.__exit__(None, None, None)
    measured = launcher.worlds
    assert len(records_of(out, running.url)) == measured - 1
    later = Losing()
    assert search(out, later, running.url, resume=True).blocks == 4
    assert len(records_of(out, running.url)) == measured + later.worlds


def test_a_lock_whose_connection_ended_is_taken_again(running: Server) -> None:
    address = StudyAddress(running.url, "held", in_own_folder=False)
    with study_lock(address) as hold:
        running.stop()
        with pytest.raises(sqlalchemy.exc.OperationalError):
            hold()
        running.start()
        hold()
        with pytest.raises(UsageError, match="another search of the study held is running"), \
                study_lock(address):  # fmt: skip
            pass
