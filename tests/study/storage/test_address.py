"""How storages are named, what is said of one that cannot be opened, and how studies are found."""

import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import optuna
import pytest
import sqlalchemy
from optuna.storages import InMemoryStorage

from testing.results import ENVIRONMENT, study_plan
from tuner.errors import UsageError
from tuner.study.folder import studies_in
from tuner.study.storage.address import StudyAddress, StudyPlace, earlier_studies, without_secrets
from tuner.study.storage.opening import create_study
from tuner.study.stored import find_study


def address(url: str) -> StudyAddress:
    return StudyAddress(url, "udf", in_own_folder=False)


def test_tables_that_another_search_is_making_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exists = Exception("table studies already exists")
    made = sqlalchemy.exc.OperationalError("CREATE TABLE studies", None, exists)
    opening = Mock(side_effect=[made, made, Mock(engine=None)])
    monkeypatch.setattr(optuna.storages, "RDBStorage", opening)
    monkeypatch.setattr(optuna.storages, "get_storage", lambda database: InMemoryStorage())
    assert address("sqlite:///new.db").storage.get_all_studies() == []
    assert opening.call_count == 3


_NEITHER = ("its URL must be one of SQLite, such as sqlite:///study.db, or of PostgreSQL, such as "
            "postgresql://user@host/database")  # fmt: skip


@pytest.mark.parametrize(
    ("url", "shown", "reason"),
    [
        ("postgresql+x://me:secret@h/db", "postgresql+x://me:***@h/db", ""),
        ("postgresql://me:secret@nowhere/db", "postgresql://me:***@nowhere/db",
         "pip install 'rpc-tuner[postgresql]'"),
        ("soup", "soup", "Could not parse SQLAlchemy URL"),
        ("sqlite:///no/such/x.db", "sqlite:///no/such/x.db", "there is no folder no/such"),
        ("mysql://me:secret@host/db", "mysql://me:***@host/db", _NEITHER),
        ("mariadb+nodriver://me:secret@h/db", "mariadb+nodriver://me:***@h/db", _NEITHER),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_told(
    url: str, shown: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError) as caught:
        address(url).names()
    assert str(caught.value).startswith(f"cannot open the storage {shown}: ")
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value) + repr(address(url))


@pytest.mark.parametrize(
    ("url", "as_shown"),
    [
        ("postgresql://me:hush@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:me@host/me", "postgresql://me:***@host/me"),
        ("postgresql://host/db?user=me&password=hush", "postgresql://host/db?password=***&user=me"),
        ("postgresql://host/db?sslpassword=hush", "postgresql://host/db?sslpassword=***"),
        ("postgresql://me:hush@[host/db", "postgresql://me:***@[host/db"),
        ("me:hush@host", "me:hush@host"),
        ("sqlite:////some/where.db", "sqlite:////some/where.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, as_shown: str) -> None:
    assert str(address(url)) == as_shown


def test_what_a_database_says_is_shown_without_the_password() -> None:
    url = "postgresql://me:hu%2Fsh@host/db"
    said = f"no password hu/sh for {url}"
    assert without_secrets(said, url) == "no password *** for postgresql://me:***@host/db"
    assert without_secrets("hushed", "postgresql://me:hush@host/db") == "hushed"


def test_a_server_that_is_gone_is_noticed_unless_the_url_says_otherwise() -> None:
    assert "connect_timeout=10" in address("postgresql://host/db").engine_url
    assert "keepalives_idle=30" in address("postgresql+psycopg://host/db").engine_url
    own = address("postgresql://host/db?connect_timeout=3").engine_url
    assert "connect_timeout=3" in own
    assert "connect_timeout=10" not in own
    assert address("sqlite:///a.db").engine_url == "sqlite:///a.db"
    quoted = address("postgresql://me:h%2Fush@host/db").engine_url
    assert quoted.startswith("postgresql://me:h%2Fush@host")


def made(folder: Path, name: str = "udf", storage: str | None = None) -> None:
    """A study of which nothing was measured yet."""
    plan = study_plan(name=name, space={"num_worker_threads": [1, 2]})
    create_study(StudyPlace.named(name, storage=storage, out=folder), plan, ENVIRONMENT)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(reference: str, *, storage: str | None = None, out: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        find_study(reference, storage=storage, out=out)
    return str(caught.value)


def test_a_study_is_found_by_its_name_its_folder_and_its_name_in_a_folder() -> None:
    made(Path("studies/udf"))
    found = find_study("udf")
    assert (found.files.root, found.interrupted) == (Path("studies/udf"), True)
    made(Path("some/where"), "one")
    for reference in ("some/where", "./some/where/", "some/where/study.db"):
        assert find_study(reference).study == "one"
        assert find_study(str(Path(reference).absolute())).study == "one"
    assert find_study("one", out=Path("some/where")).study == "one"
    assert refusal("onne", out=Path("some/where")) == (
        "there is no study 'onne' in the folder some/where; did you mean one?"
    )
    assert refusal("one", out=Path("no")) == "there is no study in the folder no"
    assert not Path("no").exists()
    # A folder of several studies asks which.
    for name in ("one", "two"):
        made(Path("both"), name)
    assert refusal("both") == (
        "the folder both holds the studies one, two: name one of them, with --out both"
    )
    assert find_study("two", out=Path("both")).study == "two"


def test_a_study_is_found_in_a_storage() -> None:
    url = f"sqlite:///{Path('shared.db').absolute()}"
    made(Path("studies/udf"), "udf", url)
    made(Path("elsewhere"), "other", url)
    assert find_study("udf", storage=url).files.root == Path("studies/udf")
    found = find_study("other", storage=url, out=Path("elsewhere"))
    assert (found.study, found.files.root) == ("other", Path("elsewhere"))
    assert refusal("othr", storage=url).endswith("shared.db; did you mean other?")
    empty = f"sqlite:///{Path('empty.db').absolute()}"
    assert refusal("udf", storage=empty).endswith("empty.db; it holds none")
    assert not Path("empty.db").exists()


def test_a_study_that_is_not_there() -> None:
    here = Path("studies").resolve()
    ending = (
        f". Give the name of a study in {here} or the path of its folder. One that was searched "
        "with --storage URL needs that again"
    )
    assert refusal("udf") == f"there is no study 'udf'; the folder studies holds none{ending}"
    made(Path("studies/udf"))
    made(Path("studies/light"))
    assert refusal("udff") == f"there is no study 'udff'; did you mean udf?{ending}"
    assert refusal("") == f"there is no study ''; known: light, udf{ending}"


def test_a_study_that_another_search_deletes_just_now_is_no_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("one", "two"):
        made(Path("studies") / name, name)
    found = studies_in(Path("studies"))
    shutil.rmtree("studies/one")
    monkeypatch.setattr("tuner.study.storage.address.studies_in", lambda folder: found)
    earlier = earlier_studies(StudyPlace.named("new"))
    assert [place.address.name for place in earlier] == ["two"]
