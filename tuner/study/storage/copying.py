"""A copy of a study in another storage, with all that a dashboard shows of it."""

import copy

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial
from optuna_dashboard import get_note

from tuner.study.storage.address import StudyPlace
from tuner.study.storage.notes import put_note
from tuner.study.storage.opening import load_study
from tuner.study.storage.reading import RECORD_KEY

# Notes are kept by the ids of trials, which differ in a copy.
_NOTE_KEYS = "dashboard:"


def copy_study(place: StudyPlace, into: BaseStorage, name: str) -> None:
    """Copy a study under a name: its trials, attributes, notes, and the list of its artifacts.

    The measurements themselves are not copied. UsageError if the study cannot be read.
    """
    load_study(place)
    address = place.address
    storage = address.storage
    with address.telling_why():
        source = optuna.load_study(study_name=address.name, storage=storage)
        trials = source.get_trials(deepcopy=False)
        study_attributes = storage.get_study_system_attrs(_id(source, storage))
        notes = {trial.number: get_note(_trial(source, storage, trial.number)) for trial in trials}
        study_note = get_note(source)
    made = optuna.create_study(storage=into, study_name=name, direction=source.direction)
    for key, value in study_attributes.items():
        if not key.startswith(_NOTE_KEYS):
            into.set_study_system_attr(_id(made, into), key, value)
    for key, value in source.user_attrs.items():
        made.set_user_attr(key, value)
    made.add_trials([_without_records(trial) for trial in trials])
    put_note(made, study_note)
    for number, note in notes.items():
        put_note(_trial(made, into, number), note)


def _without_records(trial: FrozenTrial) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.system_attrs = {
        key: value for key, value in trial.system_attrs.items() if not key.startswith(RECORD_KEY)
    }
    return shown


def _id(study: optuna.Study, storage: BaseStorage) -> int:
    return storage.get_study_id_from_name(study.study_name)


def _trial(study: optuna.Study, storage: BaseStorage, number: int) -> Trial:
    trial_id = storage.get_trial_id_from_study_id_trial_number(_id(study, storage), number)
    return Trial(study, trial_id)
