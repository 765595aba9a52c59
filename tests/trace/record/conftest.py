"""The program of `program.py`, which runs once for all tests of its traces, and these."""

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest

from tuner.trace.files.native_reader import trace_of

ROOT = Path(__file__).parents[3]
DEADLINE_S = 400


class SeenCall(SimpleNamespace):
    """A row of `CALL_COLUMNS`, None for what is not known, and the `operators` that it ran."""

    @property
    def latency_ns(self) -> int:
        return int(self.end_ns - self.start_ns)

    @property
    def served_ns(self) -> int:
        return int(self.server_end_ns - self.server_start_ns)


class SeenTrace:
    """A whole file; calls by start."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.document = msgspec.json.decode(content)
        self.facts: dict[str, Any] = self.document["rpc_tuner"]
        self.frames = trace_of(content, path.name)
        self.operators = [SimpleNamespace(**row) for row in _rows(self.frames.operators)]
        self.calls = [
            SeenCall(**row, operators=[o for o in self.operators if o.call_id == row["call_id"]])
            for row in _rows(self.frames.calls)
        ]

    def named(self, name: str) -> list[SeenCall]:
        """The calls of this name, by start."""
        return [call for call in self.calls if call.name == name]

    def only(self, name: str) -> SeenCall:
        """The one call of this name."""
        (call,) = self.named(name)
        return call

    def names(self) -> Counter[str]:
        """How many calls there are of each name."""
        return Counter(call.name for call in self.calls)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    values = frame.astype(object)
    return values.where(values.notna(), None).to_dict("records")  # type: ignore[return-value]


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
