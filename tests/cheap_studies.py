"""Studies on the fake launcher are thrown away: whatever takes time and is not looked at is off."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tuner.study.storage.artifacts import Attachments
from tuner.study.storage.store import StudyStore
from tuner.world.measurement import TraceNumbers

NUMBERS = TraceNumbers(
    rpc_cpu_total_ms=8.0,
    rpc_p99_ms=2.0,
    parallelism_mean=3.5,
    parallelism_max=4.0,
    diagnosis="No clear limit.",
)


@contextmanager
def cheaply(*, publishes: bool = False, reads_traces: bool = False) -> Iterator[None]:
    """For fixtures that search for several tests; a test gets the same by its own fixture."""
    with pytest.MonkeyPatch.context() as patch:
        # A third of such a study's time; tests/present draws reports.
        patch.setattr("tuner.api.write_study_report", lambda answer: None)
        if not reads_traces:  # another third
            patch.setattr("tuner.searching.runner.numbers_of", lambda path: NUMBERS)
        if not publishes:  # a tenth
            patch.setattr(StudyStore, "publish", lambda *arguments: None)
            patch.setattr("tuner.study.storage.store.announce", lambda study, trials: None)
            patch.setattr(Attachments, "attach_world", lambda *arguments: None)
        yield


@pytest.fixture(autouse=True)
def cheap_study(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without the report, and without what the test's marks do not ask for."""
    with cheaply(
        publishes="publishes" in request.keywords, reads_traces="reads_traces" in request.keywords
    ):
        yield


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing of these studies has to survive a power cut."""

    def relax(connection: Any, record: object) -> None:
        del record
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", relax)
    yield
    event.remove(Engine, "connect", relax)
