"""Studies as the dashboard serves them: one on its own storage, or copies of several."""

import gzip
import io
import json
import shutil
import sqlite3
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.storages import InMemoryStorage

import tuner
from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher, threads_of
from tuner.api import SearchInterrupted
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.browsing import Site, copies_site, copy_study, study_site

pytestmark = pytest.mark.publishes


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(site: Site, path: str, method: str = "GET", body: bytes = b"") -> Answer:
    """One request, as a web server makes it."""
    request: dict[str, Any] = {"PATH_INFO": path.partition("?")[0], "REQUEST_METHOD": method}
    request |= {"QUERY_STRING": path.partition("?")[2], "HTTP_ACCEPT_ENCODING": "identity"}
    request |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
    request["wsgi.input"] = io.BytesIO(body)
    setup_testing_defaults(request)
    told: list[str] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        told.append(status)

    content = site.application(request, start_response)
    try:
        return Answer(HTTPStatus(int(told[0].split()[0])), b"".join(content))
    finally:
        getattr(content, "close", lambda: None)()


def search(out: Path, name: str = "udf", **changes: Any) -> StudyPlace:
    interrupt_after = changes.pop("interrupt_after", None)
    launcher = FakeLauncher(
        step_ms=lambda s: 8.0 / threads_of(s),
        fails=lambda s, world: "crashed" if threads_of(s) == 2 else None,
        interrupt_after=interrupt_after,
    )
    keys = {"space": {"num_worker_threads": [2, 4]}, "max_blocks": 8, "name": name,
            "out": str(out), **changes}  # fmt: skip
    if interrupt_after is None:
        tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)
    else:
        with pytest.raises(SearchInterrupted):
            tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)
    return place_of(out, name)


def place_of(folder: Path, name: str) -> StudyPlace:
    return StudyPlace.named(name, out=folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the studies `one` and `two`, each in a folder of its name, to be read."""
    folder = tmp_path_factory.mktemp("made")
    with cheaply(publishes=True):
        search(folder / "one", "one")
        search(folder / "two", "two")
    return folder


@pytest.fixture
def one(made: Path) -> StudyPlace:
    return place_of(made / "one", "one")


@pytest.fixture
def two(made: Path) -> StudyPlace:
    return place_of(made / "two", "two")


@pytest.fixture
def changeable(made: Path, tmp_path: Path) -> StudyPlace:
    """A copy of `one`."""
    return place_of(Path(shutil.copytree(made / "one", tmp_path / "copy")), "one")


def test_a_study_is_served_from_its_own_storage(changeable: StudyPlace) -> None:
    site = study_site(changeable)
    assert site.page == "/dashboard/studies/1"
    page = ask(site, site.page)
    assert page.status == HTTPStatus.OK
    detail = ask(site, "/api/studies/1").json()
    assert detail["note"]["body"].startswith("**")
    assert detail["objective_names"] == ["median step time (ms)"]
    # What is noted in the dashboard is noted in the study.
    note = json.dumps({"version": detail["note"]["version"] + 1, "body": "seen"}).encode()
    assert ask(site, "/api/studies/1/note", "PUT", note).status == HTTPStatus.NO_CONTENT
    assert ask(study_site(changeable), "/api/studies/1").json()["note"]["body"] == "seen"


def test_a_copy_shows_what_the_study_shows(one: StudyPlace, two: StudyPlace) -> None:
    # The trial ids of the copies differ from those in the second study's own storage.
    copies = copies_site([one, two])
    assert (copies.names, copies.problems) == (("one", "two"), ())
    for number, place in enumerate((one, two)):
        original = ask(study_site(place), "/api/studies/1").json()
        shown = ask(copies.site, f"/api/studies/{number}").json()
        assert comparable(shown) == comparable(original)
        assert len(shown["trials"]) == 3
        assert all(trial["note"]["body"] for trial in shown["trials"])


def comparable(shown: Any) -> Any:
    """What a storage may number and order as it likes, left out and sorted."""
    if isinstance(shown, list):
        return sorted(map(comparable, shown), key=str)
    if isinstance(shown, dict):
        own = ("trial_id", "study_id", "version")
        return {key: comparable(value) for key, value in shown.items() if key not in own}
    return shown


def test_the_measurements_are_not_copied(one: StudyPlace) -> None:
    storage = InMemoryStorage()
    copy_study(one, storage, "copy")
    trials = optuna.load_study(study_name="copy", storage=storage).trials
    kept = {key.partition(":")[0] for trial in trials for key in trial.system_attrs}
    assert kept == {"artifacts"}
    source = optuna.load_study(study_name="one", storage=one.address.url).trials
    assert any(key.startswith("rpc_tuner:") for key in source[0].system_attrs)
    assert [trial.datetime_complete for trial in trials] == [t.datetime_complete for t in source]


def test_the_artifacts_of_copies_are_read_from_every_folder(
    one: StudyPlace, two: StudyPlace
) -> None:
    copies = copies_site([one, two])
    for study, place in enumerate((one, two)):
        trial = ask(copies.site, f"/api/studies/{study}").json()["trials"][0]
        (artifact,) = trial["artifacts"]
        found = ask(
            copies.site, f"/artifacts/{study}/{trial['trial_id']}/{artifact['artifact_id']}"
        )
        assert found.status == HTTPStatus.OK
        trace = place.folder.traces / artifact["filename"].removesuffix(".gz")
        assert gzip.decompress(found.body) == trace.read_bytes()


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/api/studies/0/note"), ("DELETE", "/api/studies/0"), ("POST", "/api/studies")],
)
def test_nothing_can_be_changed_in_a_copy(one: StudyPlace, method: str, path: str) -> None:
    copies = copies_site([one])
    refused = ask(copies.site, path, method, b'{"version": 9, "body": ""}')
    assert refused.status == HTTPStatus.FORBIDDEN
    assert "this is a copy" in refused.json()["reason"]
    assert len(ask(copies.site, "/api/studies").json()["study_summaries"]) == 1


def test_studies_of_the_same_name_are_told_apart(one: StudyPlace, changeable: StudyPlace) -> None:
    assert copies_site([one, changeable]).names == ("one", "one (copy)")


def test_a_study_that_cannot_be_read_is_left_out_and_told(
    two: StudyPlace, changeable: StudyPlace
) -> None:
    with closing(sqlite3.connect(changeable.folder.database)) as database, database:
        database.execute("UPDATE study_user_attributes SET value_json = 99 WHERE key = 'format'")
    copies = copies_site([changeable, two])
    assert copies.names == ("two",)
    assert copies.problems == (
        "the study one has format 99; this version reads format 5: upgrade rpc-tuner",
    )
