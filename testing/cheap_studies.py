"""Studies on the fake launcher are thrown away: whatever takes time and is not looked at is off."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from alembic.config import Config as AlembicConfig
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tuner.study.storage import address
from tuner.study.storage.address import opened_storage
from tuner.study.storage.artifacts import Attachments
from tuner.study.storage.store import StudyStore
from tuner.world.measurement import TraceNumbers

NUMBERS = TraceNumbers(
    rpc_cpu_total_ms=8.0, rpc_p99_ms=2.0, parallelism_mean=3.5, parallelism_max=4.0,
    diagnosis="No clear limit.",
)  # fmt: skip


@contextmanager
def cheaply(*, publishes: bool = False, reads_traces: bool = False) -> Iterator[None]:
    """For fixtures that search for several tests; a test gets the same by its own fixture."""
    with pytest.MonkeyPatch.context() as patch:
        # A third of such a study's time; tests/present draws reports.
        patch.setattr("tuner.api.write_study_report", lambda answer: None)
        if not reads_traces:  # another third
            patch.setattr("tuner.searching.runner.numbers_of", lambda path, ranks: NUMBERS)
            patch.setattr("tuner.searching.session.changes_by", lambda path, ranks, most_s: ())
        if not publishes:  # a tenth
            patch.setattr(StudyStore, "publish", lambda *arguments: None)
            patch.setattr(StudyStore, "announce", lambda store: None)
            patch.setattr(Attachments, "attach_world", lambda *arguments: None)
        yield


@pytest.fixture(autouse=True)
def cheap_study(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without the report, and without what the test's marks do not ask for."""
    with cheaply(
        publishes="publishes" in request.keywords, reads_traces="reads_traces" in request.keywords
    ):
        yield


Storage = str | optuna.storages.BaseStorage | None


def sqlite_file(storage: Storage) -> Path | None:
    """The file of an SQLite URL; None for any other storage."""
    url = sqlalchemy.engine.make_url(storage) if isinstance(storage, str) else None
    if url is None or url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(url.database)


class MemoryStorages:
    """Keeps in memory what goes to SQLite files, which are created empty: without its file a study
    is gone. Stands for what opens them, of ours and of Optuna's."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._by_file: dict[Path, optuna.storages.InMemoryStorage] = {}
        self._theirs = optuna.storages.get_storage
        patch.setattr(optuna.storages, "get_storage", self.get_storage)
        patch.setattr(address, "opened_storage", self.opened_storage)

    def get_storage(self, storage: Storage) -> optuna.storages.BaseStorage:
        file = sqlite_file(storage)
        return self._theirs(storage) if file is None else self._in(file)

    def opened_storage(self, url: str) -> tuple[optuna.storages.BaseStorage, Engine | None]:
        file = sqlite_file(url)
        return opened_storage(url) if file is None else (self._in(file), None)

    def _in(self, file: Path) -> optuna.storages.BaseStorage:
        if file not in self._by_file or not file.exists():
            file.touch()
            self._by_file[file] = optuna.storages.InMemoryStorage()
        return self._by_file[file]


@pytest.fixture(autouse=True, scope="session")
def migrations_are_read_once() -> Iterator[None]:
    """Optuna reads its database migrations whenever it opens a storage."""
    read, known = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: AlembicConfig) -> ScriptDirectory:
        folder = config.get_main_option("script_location")
        if folder not in known:
            known[folder] = read(config)
        return known[folder]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        yield


@contextmanager
def without_waiting_for_the_disk() -> Iterator[None]:
    """Nothing of these studies has to survive a power cut."""

    def relax(connection: Any, record: object) -> None:
        del record
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", relax)
    yield
    event.remove(Engine, "connect", relax)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    with without_waiting_for_the_disk():
        yield
