import shutil
from pathlib import Path

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for every test of this folder
from testing.cheap_studies import cheaply
from testing.made import search


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study, to be read."""
    folder = tmp_path_factory.mktemp("made")
    with cheaply():
        search(folder)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "study"))
