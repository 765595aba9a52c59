"""Studies as optuna-dashboard shows them: one on its own storage, or copies of several;
and the web server for them, which only this machine can reach."""

import copy
import re
import socketserver
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import optuna
import optuna_dashboard
from optuna.storages import BaseStorage, InMemoryStorage

from tuner.errors import UsageError
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.artifacts import SeveralFolders, WholeFiles
from tuner.study.storage.opening import load_study
from tuner.study.storage.trials import RECORD_KEY, trials_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_NOTE_OF_TRIAL = re.compile(r"dashboard:(\d+):(.*)", re.DOTALL)
"""Where the study has the note of a trial, by the trial's id, which differs in a copy."""
_REFUSED = b'{"reason": "the dashboard only shows: it changes no study"}'
HOST = "127.0.0.1"
USUAL_PORT = 8080


class Site(NamedTuple):
    """What a web server needs: the application, and the path of the page to begin with."""

    application: "WSGIApplication"
    page: str


def study_site(place: StudyPlace) -> Site:
    """A study on its own storage, as a search goes on with it. UsageError if it cannot be read."""
    load_study(place)
    storage, name = place.address.storage, place.address.name
    application = optuna_dashboard.wsgi(storage, artifact_store=WholeFiles(place.folder))
    page = f"/dashboard/studies/{storage.get_study_id_from_name(name)}"
    return Site(_read_only(application), page)


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
    """The application without requests that change something: every user of this machine can send
    them, and what they change is the only record of what was measured."""

    def answer(request: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if request["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(request, start_response)
        kinds = [("Content-Type", "application/json"), ("Allow", "GET, HEAD")]
        start_response("405 Method Not Allowed", kinds)
        return [_REFUSED]

    return answer


def copy_study(place: StudyPlace, into: BaseStorage, name: str) -> None:
    """Copy a study under a name, but for the measurements. UsageError if it cannot be read."""
    load_study(place)
    address, storage = place.address, place.address.storage
    with address.explaining_errors():
        source = optuna.load_study(study_name=address.name, storage=storage)
        trials = source.get_trials(deepcopy=False)
        source_id = storage.get_study_id_from_name(address.name)
        attributes = storage.get_study_system_attrs(source_id)
        ids = {str(each.trial_id): each.number for each in trials_of(storage, source_id)}
    made = optuna.create_study(storage=into, study_name=name, direction=source.direction)
    made_id = into.get_study_id_from_name(name)
    for key, value in source.user_attrs.items():
        made.set_user_attr(key, value)
    for trial in map(copy.copy, trials):
        trial.system_attrs = {
            key: value for key, value in trial.system_attrs.items()
            if not key.startswith(RECORD_KEY)
        }  # fmt: skip
        made.add_trial(trial)
    for key, value in attributes.items():
        if note := _NOTE_OF_TRIAL.match(key):
            trial_id = into.get_trial_id_from_study_id_trial_number(made_id, ids[note[1]])
            key = f"dashboard:{trial_id}:{note[2]}"
        into.set_study_system_attr(made_id, key, value)


class _Handler(WSGIRequestHandler):
    """Answers requests without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """A thread per connection: browsers open connections on which they send nothing."""

    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service for this host, which can be slow.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        # A browser that has closed its page takes no answer.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(application: "WSGIApplication", port: int | None) -> Iterator[str]:
    """Serve an application on this machine's loopback inside a `with` block.

    Yields its address, without a slash at the end. Without a `port` it is 8080, or a free port
    where 8080 is taken. UsageError if the port cannot be used.
    """
    try:
        server = _Server((HOST, USUAL_PORT if port is None else port), _Handler)
    except OSError as error:
        if port is not None:
            raise UsageError(f"cannot listen on port {port}: {error.strerror}") from None
        server = _Server((HOST, 0), _Handler)
    server.set_app(_for_this_machine(application))
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _for_this_machine(application: "WSGIApplication") -> "WSGIApplication":
    """The application, for requests that name the loopback as their host, from its own pages.

    So a page of another site cannot reach it by a name of its own that leads here (DNS rebinding),
    and cannot send it forms, nor can a page of another server of this machine.
    """

    def answer(request: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        host = request.get("HTTP_HOST", HOST)
        is_own = request.get("HTTP_ORIGIN") in (None, f"http://{host}")
        if is_own and host.partition(":")[0] in (HOST, "localhost"):
            return application(request, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"Only for this machine."]

    return answer
