"""Where a study is: in which storage, by which name, and in which folder its files are; also of one
that was searched before, by the names and folders that a person knows it by."""

import logging
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import optuna
import sqlalchemy
import sqlalchemy.exc

from tuner.errors import DamagedStorageError, UsageError
from tuner.study.folder import STUDIES, StudyFolder, known_folder, studies_in
from tuner.study.storage.retry import Retry, is_away, reason_of, retried
from tuner.study.write_ahead_log import WriteAheadLog
from tuner.text import did_you_mean

# A connection that breaks is explained by a sentence, not by a traceback of the pool's.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

_ATTEMPTS = 30  # making the tables of a storage takes a fraction of a second

_HIDDEN = "***"
_SECRETS = re.compile(r"pass|secret|token|key", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=//)([^/@:]*):.*@")  # in a URL that cannot be parsed
# A server that is gone is noticed in a minute, not after hours; what a URL says itself wins.
_LIBPQ = {
    "connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10",
    "keepalives_count": "3",
}  # fmt: skip
_ERRORS = (
    ImportError, OSError, RuntimeError, ValueError,
    sqlite3.Error, sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError,
)  # fmt: skip
_LIBPQ_DRIVERS = {"postgresql", "postgresql+psycopg", "postgresql+psycopg2"}


@dataclass(frozen=True)
class StudyAddress:
    """Where a study is: a storage URL, and its name in there."""

    url: str = field(repr=False)  # it may hold a password; `str` of the address hides it
    name: str
    in_own_folder: bool  # whether it is the default database, whose folder the search makes
    retry: Retry | None = field(default=None, repr=False, compare=False)  # None: no waiting

    @classmethod
    def in_file(cls, database: Path, name: str) -> "StudyAddress":
        """A study in the SQLite database of its folder, whatever the folder is called."""
        url = sqlalchemy.URL.create("sqlite", database=str(database.resolve()))
        return cls(url.render_as_string(), name, in_own_folder=True)

    @cached_property
    def _parsed_url(self) -> sqlalchemy.URL:
        """UsageError unless it is one of SQLite or of PostgreSQL."""
        with self.explaining_errors():
            parsed = sqlalchemy.engine.make_url(self.url)
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise UsageError(
                f"cannot open the storage {self}: its URL must be one of SQLite, such as "
                "sqlite:///study.db, or of PostgreSQL, such as postgresql://user@host/database"
            )
        return parsed

    @property
    def is_in_postgresql(self) -> bool:
        """Whether the database is a server's, not a SQLite file. UsageError if it is neither."""
        return self._parsed_url.get_backend_name() == "postgresql"

    @property
    def sqlite_file(self) -> Path | None:
        """The file behind a SQLite URL."""
        database = self._parsed_url.database
        is_file = not self.is_in_postgresql and database not in (None, "", ":memory:")
        return Path(str(database)) if is_file else None

    def __str__(self) -> str:
        """The URL as it may be shown: without a password."""
        return _shown(self.url)[0]

    @property
    def engine_url(self) -> str:
        """The URL to connect to, with what notices a PostgreSQL server that is gone."""
        parsed = self._parsed_url
        if parsed.drivername not in _LIBPQ_DRIVERS:
            return self.url
        known = {name: value for name, value in _LIBPQ.items() if name not in parsed.query}
        return parsed.update_query_dict(known).render_as_string(hide_password=False)

    def names(self) -> list[str]:
        """The studies in the storage, which is not made by asking. UsageError if it is away."""
        file = self.sqlite_file
        if file is not None and not file.exists():
            self.check_folder()
            return []
        with self.explaining_errors():
            return optuna.get_all_study_names(self.storage)

    def check_folder(self) -> None:
        """UsageError if the folder of a SQLite file is not there, and no search makes it."""
        file = self.sqlite_file
        if file is not None and not self.in_own_folder and not file.resolve().parent.is_dir():
            raise UsageError(f"cannot open the storage {self}: there is no folder {file.parent}")

    def delete(self) -> None:
        """Remove the study from its storage; a damaged one with the database of its folder."""
        try:
            if self.name in self.names():
                with self.explaining_errors():
                    self._check_sound()
                    optuna.delete_study(study_name=self.name, storage=self.storage)
        except DamagedStorageError:
            if not self.in_own_folder:
                raise
            self.__dict__.pop("storage", None)
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.sqlite_file}{suffix}").unlink(missing_ok=True)

    def _check_sound(self) -> None:
        """ValueError if a SQLite database of its own folder has damage that may show only later."""
        if not self.in_own_folder or self.sqlite_file is None:
            return
        with closing(sqlite3.connect(self.sqlite_file)) as database:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
            orphan = database.execute("PRAGMA foreign_key_check").fetchone()
        if found != "ok" or orphan is not None:
            raise ValueError(found if orphan is None else f"table {orphan[0]} has rows of no owner")

    @cached_property
    def storage(self) -> optuna.storages.BaseStorage:
        """The open storage; its connections end with it. UsageError if it cannot be opened."""
        with self.explaining_errors():
            opened, engine = opened_storage(self.engine_url)
        storage = retried(opened, self.retry, self._refused, engine)
        if engine is not None:  # Optuna does not close it
            weakref.finalize(storage, engine.dispose)
        return storage

    def _refused(self, error: Exception) -> UsageError:
        kind = UsageError if is_away(error) else DamagedStorageError
        return kind(f"cannot use the storage {self}: {without_secrets(reason_of(error), self.url)}")

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Turn what a storage raises into a UsageError; a DamagedStorageError if it stays."""
        try:
            yield
        except _ERRORS as error:
            reason = without_secrets(reason_of(error), self.url)
            cause = error.__cause__ or error
            if isinstance(cause, ImportError) and cause.name == "psycopg":
                reason += "; pip install 'rpc-tuner[postgresql]'"
            may_pass = isinstance(error, ImportError | OSError) or is_away(error)
            kind = UsageError if may_pass else DamagedStorageError
            raise kind(f"cannot open the storage {self}: {reason}") from error


def opened_storage(url: str) -> tuple[optuna.storages.BaseStorage, sqlalchemy.Engine | None]:
    """The storage, whose tables are made if it is new, and the engine of its database."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            database = optuna.storages.RDBStorage(url)
            return optuna.storages.get_storage(database), database.engine
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            errors = (error, error.__cause__)
            is_there = any(isinstance(error, sqlalchemy.exc.IntegrityError) for error in errors)
            if not left or not (is_there or any("already exists" in str(each) for each in errors)):
                raise
            # Another search of this storage is making its tables right now.
            time.sleep(0.1)
    raise AssertionError


class StudyPlace(NamedTuple):
    """Where a study is, and the folder of its files."""

    address: StudyAddress
    folder: StudyFolder

    @classmethod
    def named(
        cls, name: str, *, storage: str | None = None, out: Path | None = None
    ) -> "StudyPlace":
        """Where a search puts a study: in SQLite in the folder `studies/NAME` unless it is said."""
        folder = StudyFolder(out or STUDIES / name)
        if storage is None:
            return cls(StudyAddress.in_file(folder.database, name), folder)
        return cls(StudyAddress(storage, name, in_own_folder=False), folder)

    def write_ahead_log(self) -> WriteAheadLog:
        """What keeps each world until the storage has it."""
        return WriteAheadLog(self.folder, self.address.name, self.address.sqlite_file)


def _shown(url: str) -> tuple[str, list[str]]:
    """A storage URL without its passwords, wherever these stand, and they."""
    try:
        parsed = sqlalchemy.engine.make_url(url)
        secrets = {name: str(each) for name, each in parsed.query.items() if _SECRETS.search(name)}
        hidden = parsed.update_query_dict(dict.fromkeys(secrets, _HIDDEN))
        shown = hidden.render_as_string(hide_password=True)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return _CREDENTIALS.sub(rf"\1:{_HIDDEN}@", url), []
    found = [str(parsed.password or ""), *secrets.values()]
    return shown.replace(quote(_HIDDEN, safe=""), _HIDDEN), [*filter(None, found)]


def without_secrets(text: str, url: str) -> str:
    """What a database said, without the password of the URL, as it is or as a URL quotes it."""
    shown, secrets = _shown(url)
    cleaned = text.replace(url, shown)
    for secret in secrets:
        cleaned = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _HIDDEN, cleaned)
    return cleaned


def place_of(reference: str, *, storage: str | None = None, out: Path | None = None) -> StudyPlace:
    """Where a study is, by its name or the path of its folder, and what its search was given;
    UsageError if it is not there."""
    if storage is None:
        return _in_folder(out or known_folder(reference), None if out is None else reference)
    place = StudyPlace.named(reference, storage=storage, out=out)
    if reference not in (names := place.address.names()):
        tail = did_you_mean(reference, names) if names else "; it holds none"
        raise UsageError(f"there is no study {reference!r} in {place.address}{tail}")
    return place


def places_in(folder: Path) -> list[StudyPlace]:
    """The studies of one folder's database, by name. UsageError if it cannot be opened."""
    names = StudyAddress.in_file(StudyFolder(folder).database, "").names()
    return [StudyPlace.named(name, out=folder) for name in sorted(names)]


def earlier_studies(place: StudyPlace) -> Iterator[StudyPlace]:
    """The studies in the storage of a new one, or in its folder's folder, the latest first."""
    address, folder = place
    if not address.in_own_folder:
        for name in reversed(address.names()):
            yield StudyPlace.named(name, storage=address.url)
        return
    written_s = dict[Path, float]()
    for study in studies_in(folder.root.absolute().parent):
        with suppress(FileNotFoundError):  # another search deletes it just now
            written_s[study] = StudyFolder(study).database.stat().st_mtime
    for each in sorted(written_s, key=written_s.__getitem__, reverse=True):
        with suppress(UsageError):
            yield from places_in(each)


def _in_folder(folder: Path, name: str | None) -> StudyPlace:
    """The study `name` of a folder's database; without a name, its only one."""
    places = {place.address.name: place for place in places_in(folder)}
    if not places:
        raise UsageError(f"there is no study in the folder {folder}")
    if name is None and len(places) > 1:
        raise UsageError(
            f"the folder {folder} holds the studies {', '.join(places)}: name one of them, "
            f"with --out {folder}"
        )
    if name is not None and name not in places:
        tail = did_you_mean(name, [*places])
        raise UsageError(f"there is no study {name!r} in the folder {folder}{tail}")
    return places[name or next(iter(places))]
