"""Asks a storage that does not answer again, for a while, and then ends the search clearly."""

import functools
import json
import operator
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import optuna
import sqlalchemy
import sqlalchemy.exc
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import StorageLostError, StudyTakenError
from tuner.study.write_ahead_log import WriteAheadLog
from tuner.text import duration

MOST_S = 60.0  # a server that restarts, or a backup that holds a lock, takes less
LEAST_S = 2.0  # even where the budget is spent: the study is about to be closed
_PAUSE_S = 0.25
_GUARDED_FOR_S = 1.0

# What may be over in a moment; SQLite has one class of exceptions for these and for damage.
_SQLITE_CODES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
}  # fmt: skip

# What a storage raises when its database does not do what it is asked for; and besides, where that
# was changed by others, or by a bad disk; and as it reads rows that it did not write.
_FAILURES = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)
_UNREADABLE = (json.JSONDecodeError, UnicodeError)
_DAMAGE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)

_T = TypeVar("_T")
Refusing = Callable[[Exception], Exception]  # from what a database raises to what a person reads


def is_away(error: BaseException) -> bool:
    """Whether a storage failed in a way that may pass: it stopped, is locked, full or read-only."""
    for cause in _chain(error):
        if isinstance(cause, sqlite3.Error):
            return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CODES
        if isinstance(cause, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
            if not isinstance(cause.orig, sqlite3.Error):
                return True
        elif isinstance(cause, sqlalchemy.exc.DBAPIError) and cause.connection_invalidated:
            return True
    return False


def reason_of(error: BaseException) -> str:
    """What the database said, in a line."""
    wrapped = (each.orig for each in _chain(error) if isinstance(each, sqlalchemy.exc.DBAPIError))
    said = next(filter(None, wrapped), error.__cause__ or error)
    return str(said).strip().split("\n")[0] or type(said).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and what led to it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
            yield error.orig
        error = error.__cause__ or error.__context__


class Retry:
    """How a search waits for its storage, by the name that may be shown, and says so."""

    def __init__(
        self, storage: str, write_ahead_log: WriteAheadLog, notify: Callable[[str], None]
    ) -> None:
        self.left_s: Callable[[], float] = lambda: MOST_S  # of the search; MOST_S at most is waited
        # Makes sure that the study is still this search's; StudyTakenError if it is not.
        self.guard: Callable[[], None] = lambda: None
        self.write_ahead_log = write_ahead_log
        self._storage = storage
        self._notify = notify
        self._guarded_s = time.monotonic()
        self._is_at_end = False
        self._end: StorageLostError | StudyTakenError | None = None

    def stop(self) -> None:
        """Wait no more: the person wants the search to end."""
        self._is_at_end = True

    def run(
        self, do: Callable[[], _T], again: Callable[[], _T] | None = None, *, writes: bool = False
    ) -> _T:
        """What `do` returns, as soon as the storage answers; `again` is asked once `do` has failed.

        What `writes` must find the study to be still this search's: StudyTakenError if it is not.
        StorageLostError if the storage does not come back in time, now or before.
        """
        if self._end is not None:
            raise self._end
        try:
            if writes and time.monotonic() >= self._guarded_s + _GUARDED_FOR_S:
                self._make_sure()
            return do()
        except _FAILURES as error:
            if not is_away(error):
                raise
            return self._wait(again or do, error)

    def _make_sure(self) -> None:
        try:
            self.guard()
        except StudyTakenError as error:
            self._end = error
            raise
        self._guarded_s = time.monotonic()

    def _wait(self, do: Callable[[], _T], error: Exception) -> _T:
        """Ask again until the storage answers; `error` is what it said."""
        began_s = time.monotonic()
        limit_s = 0.0 if self._is_at_end else max(LEAST_S, min(MOST_S, self.left_s()))
        if self.write_ahead_log.is_lost:
            limit_s = min(LEAST_S, limit_s)  # what was removed does not come back
        if limit_s:
            self._notify(
                f"the storage {self._storage} does not answer ({reason_of(error)}): waiting for "
                f"it, {duration(limit_s)} at most. {self.write_ahead_log.kept}"
            )
        while (waited_s := time.monotonic() - began_s) < limit_s:
            time.sleep(min(_PAUSE_S, limit_s - waited_s))
            self.write_ahead_log.retry()
            try:
                self._make_sure()
                found = do()
            except _FAILURES as failure:
                if not is_away(failure):
                    raise
                error = failure
            else:
                self._notify(f"the storage is back after {duration(time.monotonic() - began_s)}")
                return found
        waited = f", and did not within {duration(waited_s)}" if limit_s else ""
        self._end = StorageLostError(
            f"the search ends here: the storage {self._storage} does not answer "
            f"({reason_of(error)}){waited}. "
            f"{self.write_ahead_log.going_on('the storage is back')}"
        )
        raise self._end from error


# Named as in Optuna, which calls them by keyword, too.
def _study_again(
    storage: BaseStorage, make: Callable[[], int], directions: object, study_name: str
) -> int:
    try:
        return make()
    except DuplicatedStudyError:
        return storage.get_study_id_from_name(study_name)


def _trial_again(
    storage: BaseStorage, make: Callable[[], int], study_id: int, template_trial: FrozenTrial
) -> int:
    facts = operator.attrgetter("datetime_start", "params", "user_attrs")
    trials = storage.get_all_trials(study_id, deepcopy=False)
    if not trials or facts(trials[-1]) != facts(template_trial):
        return make()
    return storage.get_trial_id_from_study_id_trial_number(study_id, trials[-1].number)


def _end_again(
    storage: BaseStorage,
    end: Callable[[], bool],
    trial_id: int,
    state: TrialState,
    values: object = None,
) -> bool:
    try:
        return end()
    except UpdateFinishedTrialError:
        if storage.get_trial(trial_id).state != state:
            raise
        return True


# Instead of the same again, where a write whose answer was lost may have been carried out, and
# makes something, or ends it: to set a value twice is to set it once.
_AGAIN: dict[str, Callable[..., Any]] = {
    "create_new_study": _study_again,
    "create_new_trial": _trial_again,
    "set_trial_state_values": _end_again,
}


class _Retried:
    """Stands for a storage, which is asked again where it does not answer; without a heartbeat, so
    that no trial is stale to other programs: one is RUNNING as long as its study, over all
    sessions."""

    def __init__(
        self, storage: BaseStorage, engine: sqlalchemy.Engine | None, retry: Retry | None,
        refusing: Refusing,
    ) -> None:  # fmt: skip
        self._storage, self._engine = storage, engine
        self._retry = retry
        self._refusing = refusing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Whatever a storage can do, now and in later versions of Optuna."""
        if name.startswith("_") or not hasattr(BaseStorage, name):
            raise AttributeError(name)
        return functools.partial(self._do, name)

    def _do(self, name: str, *given: Any, **keys: Any) -> Any:
        writes = name.startswith(("create_", "set_", "delete_"))
        do = again = functools.partial(getattr(self._storage, name), *given, **keys)
        if name in _AGAIN:
            again = functools.partial(_AGAIN[name], self._storage, do, *given, **keys)
        try:
            return self._run(do, again, writes=writes)
        except _DAMAGE as error:
            # A KeyError says that what was named is not there; all trials of a study have no name.
            if writes or (isinstance(error, KeyError) and name != "get_all_trials"):
                raise
            damage = ValueError(f"it is damaged ({type(error).__name__}: {error})")
            raise self._refusing(damage) from error

    def read(self, read: Callable[[BaseStorage, sqlalchemy.Engine | None], _T]) -> _T:
        """What a reader finds in the storage as Optuna opened it, and in its database."""
        return self._run(lambda: read(self._storage, self._engine))

    def _run(
        self, do: Callable[[], _T], again: Callable[[], _T] | None = None, *, writes: bool = False
    ) -> _T:
        try:
            return do() if self._retry is None else self._retry.run(do, again, writes=writes)
        except KeyError:
            raise  # there is no such study
        except (*_FAILURES, *_UNREADABLE, LookupError) as error:  # or there is a state of no name
            raise self._refusing(error) from error


BaseStorage.register(_Retried)


def retried(
    storage: BaseStorage, retry: Retry | None, refusing: Refusing,
    engine: sqlalchemy.Engine | None = None,
) -> BaseStorage:  # fmt: skip
    """The same storage, which is asked again where it does not answer; None: not at all. The engine
    is that of the database behind it, if there is one, for `read_from`."""
    return cast("BaseStorage", _Retried(storage, engine, retry, refusing))


def read_from(
    storage: BaseStorage, read: Callable[[BaseStorage, sqlalchemy.Engine | None], _T]
) -> _T:
    """What a reader finds in a storage, which may be one of `retried`, as Optuna opened it."""
    return storage.read(read) if isinstance(storage, _Retried) else read(storage, None)
