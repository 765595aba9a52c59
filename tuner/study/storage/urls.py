"""Storage URLs: as they may be shown, and as they are connected to."""

import re
from urllib.parse import quote

import sqlalchemy
import sqlalchemy.exc

HIDDEN = "***"
_SECRETS = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# A URL that cannot be parsed may hold a password all the same.
_CREDENTIALS = re.compile(r"(?<=//)([^/@:]*):.*@")
# A server that is gone is noticed in a minute, not after hours; one that is named here wins.
_LIBPQ = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_LIBPQ_DRIVERS = {"postgresql", "postgresql+psycopg", "postgresql+psycopg2"}


def shown(url: str) -> str:
    """A storage URL without its password, wherever that stands."""
    try:
        parsed = sqlalchemy.engine.make_url(url)
        hidden = {name: HIDDEN for name in parsed.query if _SECRETS.search(name)}
        told = parsed.update_query_dict(hidden).render_as_string(hide_password=True)
        return told.replace(quote(HIDDEN, safe=""), HIDDEN)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return _CREDENTIALS.sub(rf"\1:{HIDDEN}@", url)


def without_secrets(text: str, url: str) -> str:
    """What a database said, without the password of the URL, as it is or as a URL quotes it."""
    told = text.replace(url, shown(url))
    try:
        parsed = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return told
    secrets = [str(parsed.password or "")]
    secrets += [str(value) for name, value in parsed.query.items() if _SECRETS.search(name)]
    for secret in filter(None, secrets):
        told = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, told)
    return told


def connected(url: str) -> str:
    """A storage URL with what notices a PostgreSQL server that is gone."""
    parsed = sqlalchemy.engine.make_url(url)
    if parsed.drivername not in _LIBPQ_DRIVERS:
        return url
    known = {name: value for name, value in _LIBPQ.items() if name not in parsed.query}
    return parsed.update_query_dict(known).render_as_string(hide_password=False)
