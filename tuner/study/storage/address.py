"""Where a study is: in which storage, by which name, and in which folder its files are."""

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import optuna
import sqlalchemy
import sqlalchemy.exc

from tuner.errors import UsageError
from tuner.study.folder import STUDIES, StudyFolder

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
        try:
            return sqlalchemy.engine.make_url(self.url).render_as_string(hide_password=True)
        except sqlalchemy.exc.ArgumentError:
            return self.url

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
        """Remove the study from its storage."""
        with self.telling_why():
            optuna.delete_study(study_name=self.name, storage=self.storage)

    @cached_property
    def storage(self) -> optuna.storages.BaseStorage:
        """The open storage; its connections end with it. UsageError if it cannot be opened."""
        with self.telling_why():
            storage = _opened(self.url)
        # Optuna wraps its database in a cache, and closes neither.
        engine = getattr(getattr(storage, "_backend", None), "engine", None)
        if engine is not None:
            weakref.finalize(storage, engine.dispose)
        return storage

    @contextmanager
    def telling_why(self) -> Iterator[None]:
        """Turn what a storage raises into a UsageError that names it."""
        try:
            yield
        except (
            ImportError,
            OSError,
            RuntimeError,
            ValueError,
            sqlalchemy.exc.SQLAlchemyError,
            optuna.exceptions.OptunaError,
        ) as error:
            cause = error.__cause__ or error
            reason = str(cause).strip().split("\n")[0].replace(self.url, str(self))
            if isinstance(cause, ImportError) and cause.name == "psycopg":
                reason += "; pip install 'rpc-tuner[postgresql]'"
            raise UsageError(f"cannot open the storage {self}: {reason}") from error


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
