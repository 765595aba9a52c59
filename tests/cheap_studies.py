"""Studies of the fake launcher are thrown away: nothing of them has to survive a power cut."""

from collections.abc import Iterator
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


@pytest.fixture(autouse=True)
def without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    # A third of such a study's time; tests/present draws them.
    monkeypatch.setattr("tuner.api.write_study_report", lambda answer: None)


@pytest.fixture(autouse=True)
def without_reading_traces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another third; tests marked so read them.
    if "reads_traces" not in request.keywords:
        monkeypatch.setattr("tuner.searching.runner.numbers_of", lambda path: NUMBERS)


@pytest.fixture(autouse=True)
def without_notes_and_artifacts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tenth; tests marked so look at them.
    if "publishes" not in request.keywords:
        monkeypatch.setattr(StudyStore, "publish", lambda *arguments: None)
        monkeypatch.setattr("tuner.study.storage.store.announce", lambda study, trials: None)
        monkeypatch.setattr(Attachments, "attach_world", lambda *arguments: None)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    def relax(connection: Any, record: object) -> None:
        del record
        connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", relax)
    yield
    event.remove(Engine, "connect", relax)
