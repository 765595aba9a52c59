"""Studies of the fake launcher are thrown away: nothing of them has to survive a power cut."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    # A third of such a study's time; tests/present draws them.
    monkeypatch.setattr("tuner.api.write_step_time_figure", lambda result, paths: None)


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    def relax(connection: Any, record: object) -> None:
        del record
        connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", relax)
    yield
    event.remove(Engine, "connect", relax)
