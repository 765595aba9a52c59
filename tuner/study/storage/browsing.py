"""Studies as optuna-dashboard shows them: one on its own storage, or copies of several."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import optuna_dashboard
from optuna.storages import InMemoryStorage

from tuner.errors import UsageError
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.artifacts import SeveralFolders, WholeFiles
from tuner.study.storage.copying import copy_study
from tuner.study.storage.opening import load_study

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

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
