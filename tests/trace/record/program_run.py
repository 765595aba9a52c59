"""Runs `program.py`, and reads what it wrote."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.trace.record.seen_trace import SeenTrace, seen
from tuner.trace.files.native_reader import trace_of
from tuner.trace.model.trace import Trace

ROOT = Path(__file__).parents[3]
DEADLINE_S = 400
TRACES = (
    "kinds", "failures", "others", "places", "edges", "unfinished", "after", "again", "outer",
    "beside", "kineto inside", "legacy inside", "gradients", "hammered", "clocks", "naps", "work",
)  # fmt: skip
"""The traces that the program writes."""


class ProgramRun:
    """What the program wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = msgspec.json.decode((folder / "facts.json").read_bytes())
        self._seen: dict[str, SeenTrace] = {}

    def trace(self, name: str) -> SeenTrace:
        """A trace by its name."""
        if name not in self._seen:
            path = self.folder / f"{name}.json"
            assert path.exists(), f"the program did not write the trace {name}"
            self._seen[name] = seen(path)
        return self._seen[name]

    def frames(self, name: str) -> Trace:
        """A trace as the product reads it."""
        return trace_of((self.folder / f"{name}.json").read_bytes(), name)


def run_program(folder: Path) -> ProgramRun:
    """Run it to its end; its output goes to the file `output`."""
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
