"""How storages are named, and what is said of one that cannot be opened."""

import sys
from unittest.mock import Mock

import optuna
import pytest
import sqlalchemy
from optuna.storages import InMemoryStorage

from tuner.errors import UsageError
from tuner.study.storage.address import StudyAddress, without_secrets


def address(url: str) -> StudyAddress:
    return StudyAddress(url, "udf", in_own_folder=False)


def test_tables_that_another_search_is_making_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exists = Exception("table studies already exists")
    made = sqlalchemy.exc.OperationalError("CREATE TABLE studies", None, exists)
    opening = Mock(side_effect=[made, made, InMemoryStorage()])
    monkeypatch.setattr(optuna.storages, "get_storage", opening)
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
