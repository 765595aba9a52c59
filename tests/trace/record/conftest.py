"""The program of `program.py`, which runs once for all tests of its traces."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trace.record.seen_trace import SeenTrace

ROOT = Path(__file__).parents[3]
DEADLINE_S = 400


class ProgramRun:
    """What the program wrote: its facts, and traces by name."""

    def __init__(self, folder: Path) -> None:
        self.facts: dict[str, Any] = msgspec.json.decode((folder / "facts.json").read_bytes())
        self.trace = cache(lambda name: SeenTrace(folder / f"{name}.json"))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> ProgramRun:
    folder = tmp_path_factory.mktemp("program")
    with (folder / "output").open("w") as output:
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.trace.record.program", str(folder)],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            program.wait(DEADLINE_S)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, 9)
                program.wait()
    assert program.returncode == 0, (folder / "output").read_text()[-4000:]
    return ProgramRun(folder)
