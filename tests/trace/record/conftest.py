import pytest

from tests.trace.record.program_run import ProgramRun, run_program


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> ProgramRun:
    """One run of the program for all tests, since starting three ranks takes long."""
    return run_program(tmp_path_factory.mktemp("program"))
