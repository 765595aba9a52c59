"""A lock on a study in its storage, for the search that measures it.

SQLite has a file beside its own. PostgreSQL keeps the lock for as long as the connection lasts that
took it; a search whose connection broke, as when the server restarts, takes it again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection, text

from tuner.errors import StudyTakenError, TunerError
from tuner.study.file_lock import Holder, busy, local_time, locked_file
from tuner.study.storage.address import StudyAddress

_APPLICATION = "rpc-tuner: "
# The server gives the lock of a host that is gone back after a minute, not after hours, and never
# takes it from a search that measures for long.
_SESSION = {
    "tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3,
    "idle_session_timeout": 0,
}  # fmt: skip
_ENDS_WITHIN_S = 5.0
_NAME = text("SELECT set_config('application_name', :name, false)")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid = :session AND application_name = :application"
)
_IS_THERE = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :session")
_HOLDER = text(
    "SELECT activity.application_name, activity.backend_start FROM pg_locks AS held "
    "JOIN pg_stat_activity AS activity ON activity.pid = held.pid "
    "WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1 "
    "AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND held.classid = CAST(CAST(:high AS bigint) AS oid) "
    "AND held.objid = CAST(CAST(:low AS bigint) AS oid)"
)


@contextmanager
def study_lock(address: StudyAddress) -> Iterator[Callable[[], None]]:
    """Keep every other search from the study. UsageError if one has it, or the storage is away.

    Yields what makes sure that the lock is still held, and takes it again where it was lost with
    its connection: StudyTakenError if another search has it by now.
    """
    reason = f"another search of the study {address.name} is running in the storage {address}"
    if address.is_in_postgresql:
        with address.explaining_errors():
            server_lock = _ServerLock(address)
            is_ours, holder = server_lock.take()
        try:
            if not is_ours:
                raise busy(reason, holder)
            yield server_lock.hold
        finally:
            server_lock.close()
    elif (file := lock_file(address)) is not None:
        address.check_folder()
        with locked_file(file, reason, keep=lambda: _is_there(address)):
            yield lambda: None  # no connection can lose it
    else:
        yield lambda: None


def _is_there(address: StudyAddress) -> bool:
    """Whether the storage has the study, or cannot be asked."""
    try:
        return address.name in address.names()
    except TunerError:
        return True


def lock_file(address: StudyAddress) -> Path | None:
    """The file that stands for the lock of a study in SQLite; None for other storages."""
    database = address.sqlite_file and address.sqlite_file.resolve()
    return database and database.with_name(f"{database.name}.{address.name}.lock")


class _ServerLock:
    """An advisory lock, which PostgreSQL keeps for a connection that may break."""

    def __init__(self, address: StudyAddress) -> None:
        self._address = address
        self._engine = sqlalchemy.create_engine(
            address.engine_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
        )
        self._connection: Connection | None = None
        self._session: int | None = None  # the server's number of the latest one with the lock

    def take(self) -> tuple[bool, Holder | None]:
        """Whether the lock is ours now; if not, who has it, as far as this can be known."""
        self.close()
        connection = self._connection = self._engine.connect()
        if self._session is not None:
            # The server may not have noticed yet that our earlier connection is gone.
            _end(connection, self._session)
        connection.execute(_NAME, {"name": _application()})
        for setting, value in _SESSION.items():
            with suppress(sqlalchemy.exc.DBAPIError):  # an older server, or other transports
                connection.execute(text(f"SET {setting} = {value}"))
        digest = hashlib.sha256(f"rpc-tuner study {self._address.name}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}):
            return False, _holder(connection, key)
        self._session = connection.scalar(text("SELECT pg_backend_pid()"))
        return True, None

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
            by = f" ({holder})" if holder else ""
            raise StudyTakenError(
                f"the search ends here: another one{by} took the study {self._address.name} while "
                f"the storage {self._address} was away. Everything measured is kept. When the "
                "other one has ended, --resume of the folder's search adds it"
            )

    def close(self) -> None:
        """Give the lock back."""
        if self._connection is not None:
            # What a broken connection says of its own end helps no reader.
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None


def _application() -> str:
    """What PostgreSQL shows of this process to others, cut at 63 bytes."""
    return f"{_APPLICATION}{replace(Holder.here(), since=None)}"[:63]


def _holder(connection: Connection, key: int) -> Holder | None:
    """Who has a lock, as far as this can be known."""
    # A key of 64 bits is listed in halves.
    halves = {"high": key >> 32 & 0xFFFFFFFF, "low": key & 0xFFFFFFFF}
    found = connection.execute(_HOLDER, halves).first()
    if found is None:  # it has ended meanwhile
        return None
    holder = Holder.parse(str(found.application_name).removeprefix(_APPLICATION))
    since = found.backend_start and local_time(found.backend_start)
    return holder and replace(holder, since=since)


def _end(connection: Connection, session: int) -> None:
    """End a connection of this process, unless its number is another one's by now."""
    connection.execute(_END, {"session": session, "application": _application()})
    until_s = time.monotonic() + _ENDS_WITHIN_S
    while connection.scalar(_IS_THERE, {"session": session}) and time.monotonic() < until_s:
        time.sleep(0.02)
