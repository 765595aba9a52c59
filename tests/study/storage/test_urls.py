"""Storage URLs are shown without a password, and notice a server that is gone."""

import pytest

from tuner.study.storage.urls import connected, shown, without_secrets


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
    assert shown(url) == as_shown


def test_what_a_database_says_is_shown_without_the_password() -> None:
    url = "postgresql://me:hu%2Fsh@host/db"
    said = f"no password hu/sh for {url}"
    assert without_secrets(said, url) == "no password *** for postgresql://me:***@host/db"
    assert without_secrets("hushed", "postgresql://me:hush@host/db") == "hushed"


def test_a_server_that_is_gone_is_noticed_unless_the_url_says_otherwise() -> None:
    assert "connect_timeout=10" in connected("postgresql://host/db")
    assert "keepalives_idle=30" in connected("postgresql+psycopg://host/db")
    assert "connect_timeout=3" in connected("postgresql://host/db?connect_timeout=3")
    assert "connect_timeout=10" not in connected("postgresql://host/db?connect_timeout=3")
    assert connected("sqlite:///a.db") == "sqlite:///a.db"
    assert connected("postgresql://me:h%2Fush@host/db").startswith("postgresql://me:h%2Fush@host")
