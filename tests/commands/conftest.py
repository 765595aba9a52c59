from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def wide() -> Iterator[None]:
    """Tables are as wide on any terminal, and on none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "200")
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the commands are given."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
