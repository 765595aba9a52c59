import pytest

from tests.trace.record.ran import Ran, run_program


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of the program for all tests: to start three ranks takes a while."""
    return run_program(tmp_path_factory.mktemp("program"))
