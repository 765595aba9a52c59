"""Studies of this folder are kept in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for every test of this folder
from testing.cheap_studies import MemoryStorages
from tests.searching.tuning import Tune


@pytest.fixture(autouse=True, scope="package")
def in_memory() -> Iterator[None]:
    # SQLite takes most of such a study's time; tests/study looks at what it holds.
    with pytest.MonkeyPatch.context() as patch:
        MemoryStorages(patch)
        yield


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """Run searches in the folder `study` of the test's folder."""
    return Tune(tmp_path / "study")
