"""A storage is opened, or refused in a sentence that says why; no password is shown."""

import sys
import threading
from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.study.storage.address import StudyAddress, without_secrets


def opened_by_several(url: str) -> list[str]:
    """What went wrong when several searches opened a storage at the same moment."""
    together, errors = threading.Barrier(4), []

    def open_it() -> None:
        together.wait()
        try:
            StudyAddress(url, "udf", in_own_folder=False).names()
            _ = StudyAddress(url, "udf", in_own_folder=False).storage
        except UsageError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_several_searches_may_open_a_new_storage_at_once(tmp_path: Path) -> None:
    for number in range(3):
        assert opened_by_several(f"sqlite:///{tmp_path}/{number}.db") == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+x://me:secret@h/db", "cannot open the storage postgresql+x://me:***@h/db: "),
        ("soup", "cannot open the storage soup: Could not parse SQLAlchemy URL"),
        ("sqlite:///no/such/x.db", "cannot open the storage sqlite:///no/such/x.db: there is no "
                                   "folder no/such"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_told(url: str, message: str) -> None:
    address = StudyAddress(url, "udf", in_own_folder=False)
    with pytest.raises(UsageError) as caught:
        address.names()
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value) + repr(address)


@pytest.mark.parametrize("kind", ["mysql", "mariadb+nodriver", "oracle9"])
def test_another_database_than_sqlite_and_postgresql_is_refused(kind: str) -> None:
    address = StudyAddress(f"{kind}://me:secret@host/db", "udf", in_own_folder=False)
    for ask in (address.names, lambda: address.storage):
        with pytest.raises(UsageError) as caught:
            ask()
        assert str(caught.value) == (
            f"cannot open the storage {kind}://me:***@host/db: its URL must be one of SQLite, such "
            "as sqlite:///study.db, or of PostgreSQL, such as postgresql://user@host/database"
        )


def test_a_missing_driver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError) as caught:
        StudyAddress("postgresql://me:secret@nowhere/db", "udf", in_own_folder=False).names()
    assert str(caught.value).startswith("cannot open the storage postgresql://me:***@nowhere/db: ")
    assert str(caught.value).endswith("pip install 'rpc-tuner[postgresql]'")


@pytest.mark.parametrize(
    ("url", "as_shown"),
    [
        ("postgresql://me:hush@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?user=me&password=hush", "postgresql://host/db?password=***&user=me"),
        ("postgresql://host/db?sslpassword=hush", "postgresql://host/db?sslpassword=***"),
        ("postgresql://me:hush@[host/db", "postgresql://me:***@[host/db"),
        ("me:hush@host", "me:hush@host"),
        ("sqlite:////some/where.db", "sqlite:////some/where.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, as_shown: str) -> None:
    assert str(StudyAddress(url, "udf", in_own_folder=False)) == as_shown


def test_what_a_database_says_is_shown_without_the_password() -> None:
    url = "postgresql://me:hu%2Fsh@host/db"
    said = f"no password hu/sh for {url}"
    assert without_secrets(said, url) == "no password *** for postgresql://me:***@host/db"
    assert without_secrets("hushed", "postgresql://me:hush@host/db") == "hushed"


def engine_url(url: str) -> str:
    return StudyAddress(url, "udf", in_own_folder=False).engine_url


def test_a_server_that_is_gone_is_noticed_unless_the_url_says_otherwise() -> None:
    assert "connect_timeout=10" in engine_url("postgresql://host/db")
    assert "keepalives_idle=30" in engine_url("postgresql+psycopg://host/db")
    assert "connect_timeout=3" in engine_url("postgresql://host/db?connect_timeout=3")
    assert "connect_timeout=10" not in engine_url("postgresql://host/db?connect_timeout=3")
    assert engine_url("sqlite:///a.db") == "sqlite:///a.db"
    assert engine_url("postgresql://me:h%2Fush@host/db").startswith("postgresql://me:h%2Fush@host")
