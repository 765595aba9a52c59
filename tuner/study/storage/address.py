"""Where a study is: in which storage, by which name, and in which folder its files are."""

import logging
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import optuna
import sqlalchemy
import sqlalchemy.exc

from tuner.errors import DamagedStorageError, UsageError
from tuner.study.folder import STUDIES, StudyFolder
from tuner.study.storage.patience import Patience, is_away, reason_of
from tuner.study.storage.patient import patient
from tuner.study.storage.urls import connected, shown, without_secrets

# A connection that breaks is told in a sentence, not by a traceback of the pool's.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

# Making the tables of a storage takes a fraction of a second.
_ATTEMPTS = 30


@dataclass(frozen=True)
class StudyAddress:
    """Where a study is: a storage URL, and its name in there."""

    url: str = field(repr=False)
    """It may hold a password; `str` of the address hides it."""
    name: str
    in_own_folder: bool
    """Whether it is the default database, whose folder the search makes."""
    patience: Patience | None = field(default=None, repr=False, compare=False)
    """How long an open storage that does not answer is waited for; None: not at all."""

    @classmethod
    def in_file(cls, database: Path, name: str) -> "StudyAddress":
        """A study in the SQLite database of its folder, whatever the folder is called."""
        url = sqlalchemy.URL.create("sqlite", database=str(database.resolve()))
        return cls(url.render_as_string(), name, in_own_folder=True)

    @property
    def backend(self) -> str:
        """The kind of database: `sqlite`, `postgresql`, `mysql` and so on."""
        with self.telling_why():
            return sqlalchemy.engine.make_url(self.url).get_backend_name()

    @property
    def sqlite_file(self) -> Path | None:
        """The file behind a SQLite URL."""
        with self.telling_why():
            database = sqlalchemy.engine.make_url(self.url).database
        is_file = self.backend == "sqlite" and database not in (None, "", ":memory:")
        return Path(str(database)) if is_file else None

    def __str__(self) -> str:
        """The URL as it may be shown: without a password."""
        return shown(self.url)

    @property
    def engine_url(self) -> str:
        """The URL to connect to."""
        return connected(self.url)

    def exists(self) -> bool:
        """Whether the study is there. UsageError if the storage cannot be opened."""
        return self.name in self.names()

    def names(self) -> list[str]:
        """The names of all studies in the storage. UsageError if it cannot be opened.

        A SQLite file that does not exist is not created by asking.
        """
        file = self.sqlite_file
        if file is not None and not file.exists():
            self.check_folder()
            return []
        with self.telling_why():
            return optuna.get_all_study_names(self.storage)

    def check_folder(self) -> None:
        """UsageError if the folder of a SQLite file is not there, and no search makes it."""
        file = self.sqlite_file
        if file is not None and not self.in_own_folder and not file.resolve().parent.is_dir():
            raise UsageError(f"cannot open the storage {self}: there is no folder {file.parent}")

    def delete(self) -> None:
        """Remove the study from its storage; a damaged one with the database of its folder."""
        try:
            if self.exists():
                with self.telling_why():
                    self._check_sound()
                    optuna.delete_study(study_name=self.name, storage=self.storage)
        except DamagedStorageError:
            if not self.in_own_folder:
                raise
            self._discard()

    def _check_sound(self) -> None:
        """ValueError if a SQLite database of its own folder has damage that may show only later."""
        if not self.in_own_folder or self.sqlite_file is None:
            return
        with closing(sqlite3.connect(self.sqlite_file)) as database:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
            orphan = database.execute("PRAGMA foreign_key_check").fetchone()
        if found != "ok" or orphan is not None:
            raise ValueError(found if orphan is None else f"table {orphan[0]} has rows of no owner")

    def _discard(self) -> None:
        """Remove the database, whatever is in it, with what SQLite keeps beside it."""
        self.__dict__.pop("storage", None)
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{self.sqlite_file}{suffix}").unlink(missing_ok=True)

    @cached_property
    def storage(self) -> optuna.storages.BaseStorage:
        """The open storage; its connections end with it. UsageError if it cannot be opened."""
        with self.telling_why():
            opened = _opened(self.engine_url)
        storage = patient(opened, self.patience, self._refused)
        # Optuna wraps its database in a cache, and closes neither.
        engine = getattr(getattr(opened, "_backend", None), "engine", None)
        if engine is not None:
            weakref.finalize(storage, engine.dispose)
        return storage

    def _refused(self, error: Exception) -> UsageError:
        """What a person is told of what an open storage raised."""
        reason = without_secrets(reason_of(error), self.url)
        kind = UsageError if is_away(error) else DamagedStorageError
        return kind(f"cannot use the storage {self}: {reason}")

    @contextmanager
    def telling_why(self) -> Iterator[None]:
        """Turn what a storage raises into a UsageError that names it.

        It is a DamagedStorageError where to try again later would not help.
        """
        try:
            yield
        except (
            ImportError,
            OSError,
            RuntimeError,
            ValueError,
            sqlite3.Error,
            sqlalchemy.exc.SQLAlchemyError,
            optuna.exceptions.OptunaError,
        ) as error:
            reason = without_secrets(reason_of(error), self.url)
            cause = error.__cause__ or error
            if isinstance(cause, ImportError) and cause.name == "psycopg":
                reason += "; pip install 'rpc-tuner[postgresql]'"
            told = f"cannot open the storage {self}: {reason}"
            if isinstance(error, ImportError | OSError) or is_away(error):
                raise UsageError(told) from error
            raise DamagedStorageError(told) from error


def _opened(url: str) -> optuna.storages.BaseStorage:
    """The storage, whose tables are made if it is new."""
    for _ in range(_ATTEMPTS):
        try:
            return optuna.storages.get_storage(url)
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            told = (error, error.__cause__)
            is_there = any(isinstance(each, sqlalchemy.exc.IntegrityError) for each in told)
            if not is_there and not any("already exists" in str(each) for each in told):
                raise
            # Another search of this storage is making its tables right now.
            time.sleep(0.1)
    return optuna.storages.get_storage(url)


class StudyPlace(NamedTuple):
    """Where a study is, and the folder of its files."""

    address: StudyAddress
    folder: StudyFolder

    def waiting(self, patience: Patience) -> "StudyPlace":
        """The same place, whose storage is waited for."""
        return self._replace(address=replace(self.address, patience=patience))

    @classmethod
    def named(
        cls, name: str, *, storage: str | None = None, out: Path | None = None
    ) -> "StudyPlace":
        """Where a search puts a study.

        `storage` is a URL; None means SQLite in the folder. `out` is the folder; None means
        `studies/NAME`.
        """
        folder = StudyFolder(out or STUDIES / name)
        if storage is None:
            return cls(StudyAddress.in_file(folder.database, name), folder)
        return cls(StudyAddress(storage, name, in_own_folder=False), folder)
