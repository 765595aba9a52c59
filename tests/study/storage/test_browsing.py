"""Studies as the dashboard serves them: one on its own storage, or copies of several."""

import gzip
import io
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.storages import InMemoryStorage, RDBStorage

from testing.cheap_studies import cheaply
from testing.fakes import FakeLauncher
from testing.made import changed, search
from tests.searching.tuning import failing, scaling
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.browsing import Site, copies_site, copy_study, study_site

pytestmark = pytest.mark.publishes


class Answer(NamedTuple):
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(site: Site, path: str, method: str = "GET", body: bytes = b"") -> Answer:
    """One request, as a web server makes it."""
    request: dict[str, Any] = {
        "PATH_INFO": path, "REQUEST_METHOD": method, "HTTP_ACCEPT_ENCODING": "identity",
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }  # fmt: skip
    setup_testing_defaults(request)
    started = Mock()
    content = site.application(request, started)
    body = b"".join(content)
    getattr(content, "close", lambda: None)()
    return Answer(int(started.call_args.args[0].split()[0]), body)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[StudyPlace]:
    """The studies `one` and `two`, each in a folder of its name, to be read."""
    folder, names = tmp_path_factory.mktemp("places"), ("one", "two")
    with cheaply(publishes=True):
        for name in names:
            launcher = FakeLauncher(step_ms=scaling, fails=failing("crashed", 2))
            space = {"num_worker_threads": [2, 4]}
            search(folder / name, launcher, space=space, max_blocks=8, name=name)
    return [StudyPlace.named(name, out=folder / name) for name in names]


@pytest.fixture
def changeable(places: list[StudyPlace], tmp_path: Path) -> StudyPlace:
    """A copy of `one`."""
    return StudyPlace.named("one", out=shutil.copytree(places[0].folder.root, tmp_path / "copy"))


def test_a_study_is_served_from_its_own_storage(changeable: StudyPlace) -> None:
    site = study_site(changeable)
    assert site.page == "/dashboard/studies/1"
    assert ask(site, site.page).status == 200
    detail = ask(site, "/api/studies/1").json()
    assert detail["note"]["body"].startswith("**")
    assert detail["objective_names"] == ["median step time (ms)"]
    # Nobody who reaches it can change what was measured.
    note = json.dumps({"version": detail["note"]["version"] + 1, "body": "seen"}).encode()
    for path, method in (("note", "PUT"), ("", "DELETE"), ("rename", "POST")):
        assert ask(site, f"/api/studies/1/{path}".rstrip("/"), method, note).status == 405
    assert ask(study_site(changeable), "/api/studies/1").json() == detail
    # Nor does it write by itself.
    kept = changeable.folder.database.read_bytes()
    for path in ("", "/api/studies", "/api/studies/1", "/api/studies/1/param_importances"):
        ask(study_site(changeable), path or site.page)
    assert changeable.folder.database.read_bytes() == kept


def test_a_copy_shows_what_the_study_shows(places: list[StudyPlace]) -> None:
    # The trial ids of the copies differ from those in the second study's own storage.
    copies = copies_site(places)
    assert (copies.names, copies.problems) == (("one", "two"), ())
    for number, place in enumerate(places):
        original = ask(study_site(place), "/api/studies/1").json()
        shown = ask(copies.site, f"/api/studies/{number}").json()
        assert comparable(shown) == comparable(original)
        assert len(shown["trials"]) == 3
        assert all(trial["note"]["body"] for trial in shown["trials"])
        # The artifacts of copies are read from every folder.
        trial = shown["trials"][0]
        (artifact,) = trial["artifacts"]
        path = f"/artifacts/{number}/{trial['trial_id']}/{artifact['artifact_id']}"
        found = ask(copies.site, path)
        assert found.status == 200
        trace = place.folder.traces / artifact["filename"].removesuffix(".gz")
        assert gzip.decompress(found.body) == trace.read_bytes()


def comparable(shown: Any) -> Any:
    """What a storage may number and order as it likes, left out and sorted."""
    if isinstance(shown, list):
        return sorted(map(comparable, shown), key=str)
    if isinstance(shown, dict):
        own = ("trial_id", "study_id", "version")
        return {key: comparable(value) for key, value in shown.items() if key not in own}
    return shown


def test_trials_are_copied_by_one_query_not_one_each(
    places: list[StudyPlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("get_trial", "get_trial_id_from_study_id_trial_number"):
        monkeypatch.setattr(RDBStorage, name, Mock(side_effect=AssertionError(name)))
    copies = copies_site(places)
    assert (copies.names, copies.problems) == (("one", "two"), ())


def test_the_measurements_are_not_copied(places: list[StudyPlace]) -> None:
    one, storage = places[0], InMemoryStorage()
    copy_study(one, storage, "copy")
    trials = optuna.load_study(study_name="copy", storage=storage).trials
    kept = {key.partition(":")[0] for trial in trials for key in trial.system_attrs}
    assert kept == {"artifacts"}
    source = optuna.load_study(study_name="one", storage=one.address.url).trials
    assert any(key.startswith("rpc_tuner:") for key in source[0].system_attrs)
    assert [trial.datetime_complete for trial in trials] == [t.datetime_complete for t in source]


def test_nothing_can_be_changed_in_a_copy(places: list[StudyPlace]) -> None:
    site = copies_site(places[:1]).site
    asked = ("PUT", "/api/studies/0/note"), ("DELETE", "/api/studies/0"), ("POST", "/api/studies")
    for method, path in asked:
        refused = ask(site, path, method, b'{"version": 9, "body": ""}')
        assert refused.status == 405
        assert "changes no study" in refused.json()["reason"]
    assert len(ask(site, "/api/studies").json()["study_summaries"]) == 1


def test_studies_of_the_same_name_are_told_apart_and_one_that_cannot_be_read_is_left_out(
    places: list[StudyPlace], changeable: StudyPlace
) -> None:
    one = places[0]
    assert copies_site([one, changeable]).names == ("one", "one (copy)")
    newer = "UPDATE study_user_attributes SET value_json = 99 WHERE key = 'format'"
    changed(changeable.folder.database, newer)
    copies = copies_site([changeable, one])
    assert copies.names == ("one",)
    assert copies.problems == (
        "the study one has format 99; this version reads format 5: upgrade rpc-tuner",
    )
