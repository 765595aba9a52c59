"""A lock on a study in its storage, for the search that measures it.

SQLite has a file beside its own; PostgreSQL and MySQL keep the lock for as long as the connection
lasts that took it, so that a search that dies gives it back; a search whose connection broke, as
when the server restarts, takes it again. Other databases have no lock.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import sqlalchemy
from sqlalchemy import Connection, text

from tuner.errors import StudyTakenError, TunerError
from tuner.study.locking import Holder, busy, local_time, locked_file
from tuner.study.storage.address import StudyAddress

_APPLICATION = "rpc-tuner: "
# The server gives the lock of a host that is gone back after a minute, not after hours, and never
# takes it from a search that measures for long.
_POSTGRESQL_SESSION = {
    "tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3,
    "idle_session_timeout": 0,
}  # fmt: skip
_ENDS_WITHIN_S = 5.0
# MySQL closes connections that were idle for this many seconds: as many as it takes.
_MYSQL_IDLE_S = 31_536_000


@contextmanager
def study_lock(address: StudyAddress) -> Iterator[Callable[[], None]]:
    """Keep every other search from the study.

    Yields:
        Makes sure that the lock is still held, and takes it again where it was lost with its
        connection. StudyTakenError if another search has it by now; what SQLAlchemy raises if
        the storage does not answer.

    Raises:
        UsageError: another search has the study, which is named; or the storage cannot be opened.
    """
    if (lock := lock_file(address)) is not None:
        address.check_folder()
        with locked_file(lock, _reason(address), keep=lambda: _is_there(address)):
            yield _nothing
    elif address.backend in _SERVERS:
        with address.telling_why():
            lock_there = _ServerLock(address, _SERVERS[address.backend])
            is_ours, holder = lock_there.take()
        try:
            if not is_ours:
                raise busy(_reason(address), holder)
            yield lock_there.hold
        finally:
            lock_there.close()
    else:
        yield _nothing


def _reason(address: StudyAddress) -> str:
    return f"another search of the study {address.name} is running in the storage {address}"


def _nothing() -> None:
    """A lock that no connection can lose."""


def _is_there(address: StudyAddress) -> bool:
    """Whether the storage has the study, or nobody can tell."""
    try:
        return address.exists()
    except TunerError:
        return True


def lock_file(address: StudyAddress) -> Path | None:
    """The file that stands for the lock of a study in SQLite; None for other storages."""
    database = address.sqlite_file
    if database is None:
        return None
    database = database.resolve()
    return database.with_name(f"{database.name}.{address.name}.lock")


class _ServerLock:
    """A lock that a database server keeps for a connection, which may break."""

    def __init__(self, address: StudyAddress, server: "_Server") -> None:
        self._address = address
        self._server = server
        self._engine = sqlalchemy.create_engine(
            address.engine_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
        )
        self._connection: Connection | None = None
        self._session: int | None = None
        """The server's number of the connection that has the lock, or had it."""

    def take(self) -> "tuple[bool, Holder | str | None]":
        """Whether the lock is ours now; if not, who has it, as far as this can be known."""
        self.close()
        connection = self._connection = self._engine.connect()
        if self._session is not None:
            # The server may not have noticed yet that our earlier connection is gone.
            self._server.end(connection, self._session)
        taken = self._server.take(connection, self._address.name)
        if taken[0]:
            self._session = connection.scalar(text(self._server.session))
        return taken

    def hold(self) -> None:
        """See `study_lock`."""
        if self._connection is not None and not self._connection.invalidated:
            try:
                self._connection.execute(text("SELECT 1"))
                return
            except sqlalchemy.exc.DBAPIError:
                # The lock ended with its connection.
                self.close()
        is_ours, holder = self.take()
        if not is_ours:
            self.close()
            by = "" if holder is None else f" ({holder})"
            raise StudyTakenError(
                f"the search ends here: another one{by} took the study {self._address.name} while "
                f"the storage {self._address} was away; everything measured is kept, and --resume "
                "of the folder's search adds it when the other one has ended"
            )

    def close(self) -> None:
        """Give the lock back."""
        if self._connection is not None:
            # What a broken connection says of its own end helps nobody.
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None


def _take_postgresql(connection: Connection, name: str) -> tuple[bool, Holder | None]:
    """Whether the lock is ours now; if not, who has it, as far as this can be known."""
    here = Holder.here()
    # PostgreSQL shows this name to others, cut at 63 bytes.
    application = {"name": f"{_APPLICATION}{replace(here, since=None)}"}
    connection.execute(text("SELECT set_config('application_name', :name, false)"), application)
    for setting, value in _POSTGRESQL_SESSION.items():
        with suppress(sqlalchemy.exc.DBAPIError):  # an older server, or one with other transports
            connection.execute(text(f"SET {setting} = {value}"))
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


def _end_postgresql(connection: Connection, session: int) -> None:
    """End a connection of this process, unless its number is another one's by now."""
    application = f"{_APPLICATION}{replace(Holder.here(), since=None)}"[:63]
    connection.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid = :session AND application_name = :application"
        ),
        {"session": session, "application": application},
    )
    until_s = time.monotonic() + _ENDS_WITHIN_S
    there = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :session")
    while connection.scalar(there, {"session": session}) and time.monotonic() < until_s:
        time.sleep(0.02)


def _end_mysql(connection: Connection, session: int) -> None:
    """The same for MySQL."""
    with suppress(sqlalchemy.exc.DBAPIError):  # it has ended
        connection.execute(text(f"KILL {session:d}"))


class _Server(NamedTuple):
    """How a kind of database server locks."""

    take: Callable[[Connection, str], tuple[bool, Holder | str | None]]
    end: Callable[[Connection, int], None]
    session: str
    """Asks for the number of the connection."""


_POSTGRESQL = _Server(_take_postgresql, _end_postgresql, "SELECT pg_backend_pid()")
_MYSQL = _Server(_take_mysql, _end_mysql, "SELECT CONNECTION_ID()")
_SERVERS = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL}


def _digest(name: str) -> bytes:
    return hashlib.sha256(f"rpc-tuner study {name}".encode()).digest()
