"""Studies as optuna-dashboard shows them: one on its own storage, or copies of several."""

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import optuna
import optuna_dashboard
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import Trial
from optuna_dashboard import get_note

from tuner.errors import UsageError
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.artifacts import SeveralFolders, WholeFiles, put_note
from tuner.study.storage.opening import load_study
from tuner.study.storage.trials import RECORD_KEY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_NOTE_KEYS = "dashboard:"  # notes are kept by the ids of trials, which differ in a copy
_REFUSED = b'{"reason": "this is a copy; start the dashboard with the name of the study"}'


class Site(NamedTuple):
    """What a web server needs: the application, and the path of the page to begin with."""

    application: "WSGIApplication"
    page: str


def study_site(place: StudyPlace) -> Site:
    """A study on its own storage, whose changes show. UsageError if it cannot be read."""
    load_study(place)
    storage, name = place.address.storage, place.address.name
    application = optuna_dashboard.wsgi(storage, artifact_store=WholeFiles(place.folder))
    return Site(application, f"/dashboard/studies/{storage.get_study_id_from_name(name)}")


class Copies(NamedTuple):
    """Copies of studies side by side, and why some are not among them."""

    site: Site
    names: tuple[str, ...]
    problems: tuple[str, ...]


def copies_site(places: Sequence[StudyPlace]) -> Copies:
    """Copies of the studies, made now, in one storage; those that cannot be read are left out."""
    storage, names, problems = InMemoryStorage(), [], []
    for place in places:
        name = place.address.name
        if name in names:
            name = f"{name} ({place.folder.root.name})"
        try:
            copy_study(place, storage, name)
        except UsageError as error:
            problems.append(str(error))
        else:
            names.append(name)
    artifacts = SeveralFolders(place.folder.artifacts for place in places)
    application = optuna_dashboard.wsgi(storage, artifact_store=artifacts)
    return Copies(Site(_read_only(application), "/dashboard"), tuple(names), tuple(problems))


def _read_only(application: "WSGIApplication") -> "WSGIApplication":
    """The application without requests that change something: changes of a copy would be lost."""

    def answer(request: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if request["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(request, start_response)
        start_response("403 Forbidden", [("Content-Type", "application/json")])
        return [_REFUSED]

    return answer


def copy_study(place: StudyPlace, into: BaseStorage, name: str) -> None:
    """Copy a study under a name, but for the measurements. UsageError if it cannot be read."""
    load_study(place)
    address, storage = place.address, place.address.storage
    with address.explaining_errors():
        source = optuna.load_study(study_name=address.name, storage=storage)
        trials = source.get_trials(deepcopy=False)
        attributes = storage.get_study_system_attrs(storage.get_study_id_from_name(address.name))
        notes = [get_note(Trial(source, trial._trial_id)) for trial in trials]
        study_note = get_note(source)
    made = optuna.create_study(storage=into, study_name=name, direction=source.direction)
    made_id = into.get_study_id_from_name(name)
    for key, value in attributes.items():
        if not key.startswith(_NOTE_KEYS):
            into.set_study_system_attr(made_id, key, value)
    for key, value in source.user_attrs.items():
        made.set_user_attr(key, value)
    for trial in map(copy.copy, trials):
        attributes = trial.system_attrs
        trial.system_attrs = {
            key: attributes[key] for key in attributes if not key.startswith(RECORD_KEY)
        }
        made.add_trial(trial)
    put_note(made, study_note)
    for trial, note in zip(made.get_trials(deepcopy=False), notes, strict=True):
        put_note(Trial(made, trial._trial_id), note)
