"""A lock on a study in its storage, for the search that measures it.

SQLite has a file beside its own; PostgreSQL and MySQL keep the lock for as long as the connection
lasts that took it, so that a search that dies gives it back. Other databases have no lock.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection, text

from tuner.study.locking import Holder, busy, local_time, locked_file
from tuner.study.storage.address import StudyAddress

_APPLICATION = "rpc-tuner: "
# MySQL closes connections that were idle for this many seconds: as many as it takes.
_MYSQL_IDLE_S = 31_536_000


@contextmanager
def study_lock(address: StudyAddress) -> Iterator[None]:
    """Keep every other search from the study. UsageError names the one that has it."""
    reason = f"another search of the study {address.name} is running in the storage {address}"
    if (file := address.sqlite_file) is not None and (lock := lock_file(address)) is not None:
        address.check_folder()
        with locked_file(lock, reason, keep=file.exists):
            yield
    elif (take := _TAKING.get(address.backend)) is not None:
        with address.telling_why():
            engine = sqlalchemy.create_engine(
                address.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
            )
            connection = engine.connect()
        with connection:
            with address.telling_why():
                is_ours, holder = take(connection, address.name)
            if not is_ours:
                raise busy(reason, holder)
            yield
    else:
        yield


def lock_file(address: StudyAddress) -> Path | None:
    """The file that stands for the lock of a study in SQLite; None for other storages."""
    database = address.sqlite_file
    if database is None:
        return None
    database = database.resolve()
    return database.with_name(f"{database.name}.{address.name}.lock")


def _take_postgresql(connection: Connection, name: str) -> tuple[bool, Holder | None]:
    """Whether the lock is ours now; if not, who has it, as far as this can be known."""
    here = Holder.here()
    # PostgreSQL shows this name to others, cut at 63 bytes.
    application = {"name": f"{_APPLICATION}{replace(here, since=None)}"}
    connection.execute(text("SELECT set_config('application_name', :name, false)"), application)
    key = int.from_bytes(_digest(name)[:8], "big", signed=True)
    if connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}):
        return True, None
    # A key of 64 bits is listed in halves.
    halves = {"high": key >> 32 & 0xFFFFFFFF, "low": key & 0xFFFFFFFF}
    found = connection.execute(
        text(
            "SELECT activity.application_name, activity.backend_start FROM pg_locks AS held "
            "JOIN pg_stat_activity AS activity ON activity.pid = held.pid "
            "WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1 "
            "AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND held.classid = CAST(CAST(:high AS bigint) AS oid) "
            "AND held.objid = CAST(CAST(:low AS bigint) AS oid)"
        ),
        halves,
    ).first()
    if found is None:  # it has ended meanwhile
        return False, None
    holder = Holder.parse(str(found.application_name).removeprefix(_APPLICATION))
    if holder is None or found.backend_start is None:
        return False, holder
    return False, replace(holder, since=local_time(found.backend_start))


def _take_mysql(connection: Connection, name: str) -> tuple[bool, str | None]:
    """The same for MySQL, whose locks are the server's, whatever the database."""
    connection.execute(text(f"SET SESSION wait_timeout = {_MYSQL_IDLE_S}"))
    database = connection.scalar(text("SELECT DATABASE()"))
    lock = {"lock": f"rpc-tuner {_digest(f'{database}/{name}').hex()[:40]}"}
    if connection.scalar(text("SELECT GET_LOCK(:lock, 0)"), lock):
        return True, None
    client = connection.scalar(
        text("SELECT host FROM information_schema.processlist WHERE id = IS_USED_LOCK(:lock)"), lock
    )
    return False, f"a connection from {client}" if client else None


_Taking = Callable[[Connection, str], tuple[bool, Holder | str | None]]
_TAKING: dict[str, _Taking] = {
    "postgresql": _take_postgresql,
    "mysql": _take_mysql,
    "mariadb": _take_mysql,
}


def _digest(name: str) -> bytes:
    return hashlib.sha256(f"rpc-tuner study {name}".encode()).digest()
