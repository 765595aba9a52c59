"""Waits for a storage that does not answer, for a while, and then ends the search clearly."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import optuna
import sqlalchemy.exc

from tuner.errors import StorageLostError, StudyTakenError
from tuner.study.spool import Spool
from tuner.text import duration

MOST_S = 60.0
"""A server that restarts, or a backup that holds a lock, takes less."""
LEAST_S = 2.0
"""Even where the budget is spent: the study is about to be closed."""
_PAUSE_S = 0.25
_GUARDED_FOR_S = 1.0

# What may be over in a moment; SQLite has one class of exceptions for these and for damage.
_SQLITE_CODES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
}  # fmt: skip

FAILURES = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)
"""What an open storage raises when its database does not do what it is asked for."""

_T = TypeVar("_T")


def is_away(error: BaseException) -> bool:
    """Whether a storage failed in a way that may pass: it stopped, is locked, full or read-only."""
    for each in _chain(error):
        if isinstance(each, sqlite3.Error):
            return getattr(each, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CODES
        if isinstance(each, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
            if not isinstance(each.orig, sqlite3.Error):
                return True
        elif isinstance(each, sqlalchemy.exc.DBAPIError) and each.connection_invalidated:
            return True
    return False


def reason_of(error: BaseException) -> str:
    """What the database said, in a line."""
    for each in _chain(error):
        if isinstance(each, sqlalchemy.exc.DBAPIError) and each.orig is not None:
            return _first_line(each.orig)
    return _first_line(error.__cause__ or error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and what led to it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
            yield error.orig
        error = error.__cause__ or error.__context__


class Patience:
    """How a search waits for its storage.

    Args:
        storage: The storage's URL as it may be shown.
        spool: Keeps what the storage does not take meanwhile.
        tell: Is given a sentence when the storage goes away, and when it is back.
        left_s: The seconds that are left of the search; MOST_S at most are waited.
        clock: Seconds from any beginning.
        sleep: Passes so many seconds.
    """

    def __init__(
        self,
        storage: str,
        spool: Spool,
        tell: Callable[[str], None],
        left_s: Callable[[], float] = lambda: MOST_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.left_s = left_s
        self.guard: Callable[[], None] = lambda: None
        """Makes sure that the study is still this search's; StudyTakenError if it is not."""
        self._storage = storage
        self.spool = spool
        self._tell = tell
        self._clock = clock
        self._sleep = sleep
        self._guarded_s = clock()
        self._is_at_end = False
        self._end: StorageLostError | StudyTakenError | None = None

    def stop_waiting(self) -> None:
        """Wait no more: the person wants the search to end."""
        self._is_at_end = True

    def ask(
        self, do: Callable[[], _T], again: Callable[[], _T] | None = None, *, writes: bool = False
    ) -> _T:
        """What `do` returns, as soon as the storage answers.

        Args:
            do: Asks the storage.
            again: Instead of `do` once it has failed: it may have been carried out all the same.
            writes: Whether it changes the study, which must be this search's then.

        Raises:
            StorageLostError: the storage does not come back in time, now or before.
            StudyTakenError: another search has taken the study meanwhile.
        """
        if self._end is not None:
            raise self._end
        try:
            if writes and self._clock() >= self._guarded_s + _GUARDED_FOR_S:
                self._make_sure()
            return do()
        except FAILURES as error:
            if not is_away(error):
                raise
            return self._wait(again or do, error)

    def _make_sure(self) -> None:
        try:
            self.guard()
        except StudyTakenError as error:
            self._end = error
            raise
        self._guarded_s = self._clock()

    def _wait(self, do: Callable[[], _T], error: Exception) -> _T:
        """Ask again until the storage answers; `error` is what it said."""
        began_s, limit_s = self._clock(), self._limit_s()
        if limit_s:
            self._tell(
                f"the storage {self._storage} does not answer ({reason_of(error)}): waiting for "
                f"it, {duration(limit_s)} at most; {self.spool.kept}"
            )
        while (waited_s := self._clock() - began_s) < limit_s:
            self._sleep(min(_PAUSE_S, limit_s - waited_s))
            self.spool.try_again()
            try:
                self._make_sure()
                found = do()
            except FAILURES as failure:
                if not is_away(failure):
                    raise
                error = failure
            else:
                self._tell(f"the storage is back after {duration(self._clock() - began_s)}")
                return found
        self._end = self._lost(reason_of(error), waited_s)
        raise self._end from error

    def _limit_s(self) -> float:
        return 0.0 if self._is_at_end else max(LEAST_S, min(MOST_S, self.left_s()))

    def _lost(self, reason: str, waited_s: float) -> StorageLostError:
        waited = "" if self._is_at_end else f", and did not within {duration(waited_s)}"
        return StorageLostError(
            f"the search ends here: the storage {self._storage} does not answer ({reason}){waited}"
            f"; {self.spool.kept}, and when the storage is back the same command with --resume "
            "continues it"
        )
