"""One local Ray cluster for a whole session of tests, since it takes seconds to start."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.world.launcher_contract import impatient
from tuner.world.ray.cluster import connected
from tuner.world.ray.ray_launcher import RayLauncher

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[None]:
    """A cluster of this machine alone, to which this process is connected."""
    # Its workers find this checkout's modules as this process does.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with connected(None, lambda sentence: None):
            yield
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def launcher(local_cluster: None) -> Iterator[RayLauncher]:
    with impatient(RayLauncher()) as running:
        yield running


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name is short enough for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
