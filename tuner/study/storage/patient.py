"""An Optuna storage that waits for its database, and says in a sentence what is wrong with it."""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.study.storage.patience import FAILURES, Patience

DAMAGE = (json.JSONDecodeError, UnicodeError)
"""What Optuna raises besides where a database has been changed by others, or by a bad disk."""

_T = TypeVar("_T")
Refusing = Callable[[Exception], Exception]
"""Makes the error for the person at the keyboard from what a database raises."""

_DAMAGE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)


class _Waiting(BaseStorage):
    """Passes on what is not the same when it is done a second time.

    A write whose answer was lost may have been carried out. To set a value twice is to set it
    once; these make something, or end it.

    It has no heartbeat, as Optuna calls it: that is for trials that are asked for one by one and
    are run by processes that may die. Here every configuration has a trial, which is RUNNING as
    long as its study, over all sessions; one controller tells all of them, and `StudyStore.repair`
    ends what a killed one left. Other programs' `fail_stale_trials` finds no trial without a
    heartbeat stale.
    """

    def __init__(self, storage: BaseStorage, patience: Patience | None, refusing: Refusing) -> None:
        self._storage = storage
        self._patience = patience
        self._refusing = refusing

    def _ask(
        self, do: Callable[[], _T], again: Callable[[], _T] | None = None, *, writes: bool = False
    ) -> _T:
        try:
            if self._patience is None:
                return do()
            return self._patience.ask(do, again, writes=writes)
        except (*FAILURES, *DAMAGE) as error:
            raise self._refusing(error) from error
        except LookupError as error:
            # A KeyError says that there is no such study; else there is a state of no name.
            if isinstance(error, KeyError):
                raise
            raise self._refusing(error) from error

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """See Optuna."""
        make = functools.partial(self._storage.create_new_study, directions, study_name)

        def again() -> int:
            try:
                return make()
            except DuplicatedStudyError:
                assert study_name is not None
                return self._storage.get_study_id_from_name(study_name)

        return self._ask(make, again, writes=True)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """See Optuna."""
        make = functools.partial(self._storage.create_new_trial, study_id, template_trial)

        def again() -> int:
            trials = self._storage.get_all_trials(study_id, deepcopy=False)
            if template_trial is not None and trials and _is_made(trials[-1], template_trial):
                return trials[-1]._trial_id
            return make()

        return self._ask(make, again, writes=True)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """See Optuna."""
        end = functools.partial(self._storage.set_trial_state_values, trial_id, state, values)

        def again() -> bool:
            try:
                return end()
            except UpdateFinishedTrialError:
                if self._storage.get_trial(trial_id).state != state:
                    raise
                return True

        return self._ask(end, again, writes=True)


def _is_made(last: FrozenTrial, wanted: FrozenTrial) -> bool:
    """Whether the last trial of a study is the one that was to be made."""
    return (
        last.datetime_start == wanted.datetime_start
        and last.params == wanted.params
        and last.user_attrs == wanted.user_attrs
    )


def _damaged(error: Exception) -> Exception:
    """What to say of what Optuna raises as it reads rows that it did not write."""
    return ValueError(f"it is damaged ({type(error).__name__}: {error})")


def _passed_on(name: str) -> Callable[..., Any]:
    writes = name.startswith(("set_", "delete_"))

    def method(self: _Waiting, *given: Any, **keys: Any) -> Any:
        do = functools.partial(getattr(self._storage, name), *given, **keys)
        try:
            return self._ask(do, writes=writes)
        except _DAMAGE as error:
            # A KeyError says that what was named is not there; all trials of a study have no name.
            if writes or (isinstance(error, KeyError) and name != "get_all_trials"):
                raise
            raise self._refusing(_damaged(error)) from error

    return method


# Whatever else a storage can do, now and in later versions of Optuna.
_OTHERS = [
    name
    for name in dir(BaseStorage)
    if not name.startswith("_")
    and name not in vars(_Waiting)
    and name != "check_trial_is_updatable"
]
_PatientStorage: type[_Waiting] = type(
    "PatientStorage", (_Waiting,), {name: _passed_on(name) for name in _OTHERS}
)


def patient(storage: BaseStorage, patience: Patience | None, refusing: Refusing) -> BaseStorage:
    """The same storage, whose failures are waited for, or told.

    Args:
        storage: An open storage.
        patience: How long to wait for it; None: not at all.
        refusing: Makes the error to raise from what the database says.
    """
    return _PatientStorage(storage, patience, refusing)


def asked(storage: BaseStorage, read: Callable[[BaseStorage], _T]) -> _T:
    """What a reader finds in a storage as Optuna opened it; a patient one is waited for."""
    if isinstance(storage, _Waiting):
        opened = storage._storage
        return storage._ask(lambda: read(opened))
    return read(storage)
