"""Searches whose storage goes away in the middle, and what there is of them afterwards."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tuner
from tests.fakes import FakeLauncher
from tuner.present.study_result import StudyResult
from tuner.searching.progress import Silent
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement


@dataclass
class Losing(FakeLauncher):
    """A launcher in whose world number `at` something happens to the storage."""

    at: int = 6
    happens: Callable[[], object] = lambda: None

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if len(self.orders) == self.at:
            self.happens()
        return super().run(order)

    @property
    def worlds(self) -> int:
        """How many it has run."""
        return len(self.orders) + len(self.traced)


@dataclass
class Hearing(Silent):
    """Remembers what a search tells."""

    said: list[str] = field(default_factory=list)

    def on_event(self, message: str) -> None:
        self.said.append(message)

    @property
    def of_the_storage(self) -> list[str]:
        return [each for each in self.said if each.startswith("the storage ")]


def search(
    out: Path, launcher: FakeLauncher, storage: str | None = None, **changes: Any
) -> StudyResult:
    """Search for four blocks; the study has the name of its folder."""
    keys = {"space": {"num_worker_threads": [2]}, "max_blocks": 4, "storage": storage,
            "out": str(out), "name": out.name, **changes}  # fmt: skip
    return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)


def records_of(out: Path, storage: str | None = None) -> list[Record]:
    """Every world that the storage has, each once."""
    records = load_study(StudyPlace.named(out.name, storage=storage, out=out)).records()
    keys = {(each.trial, each.block, each.again) for each in records}
    assert len(keys) == len(records), "a world counts twice"
    return records


def nothing_unsaved(out: Path) -> bool:
    """Whether nothing waits beside the storage."""
    return not list(out.glob("unsaved*"))
