from collections.abc import Iterator

import pytest

from testing.postgresql import Server, postgresql_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgresql_server() as started:
        yield started
