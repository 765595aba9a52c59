from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.running import Done, in_new_process

SEARCH = (
    "--workload", "udf", "--space", "num_worker_threads=1,2", "--baseline", "num_worker_threads=5",
    "--min-time", "0.05s", "--max-blocks", "3", "--budget", "20m", "--out", "here",
)  # fmt: skip


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


@pytest.fixture(scope="session")
def real_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A search in a new process, and the study's folder; one for all tests that only read them.

    Its baseline has 5 threads, the trials 1 and 2 have 1 and 2 threads.
    """
    here = tmp_path_factory.mktemp("searched")
    done = in_new_process(*SEARCH, cwd=here)
    assert done.returncode == 0, done.stderr
    return done, here / "here"
