"""Records a program of `tests/programs`, as the tests need it."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from testing.programs import PROGRAMS, PYTHON
from tuner.trace.files.native_reader import trace_of
from tuner.trace.model.trace import Trace
from tuner.world.command.order import RecordingOrder
from tuner.world.command.recording import RecordedEnd, record_program


@dataclass(frozen=True)
class Recorded:
    """A program that was recorded: its trace, its end, and what was printed and told."""

    trace: Trace
    end: RecordedEnd
    printed: str
    told: Sequence[str]

    @property
    def counted(self) -> int:
        """The calls that the program says it made."""
        found = re.findall(r"calls: (\d+)", self.printed)
        assert found, f"exit code {self.end.exit_code}: {self.printed}"
        return int(found[-1])


def recorded(*command: str, order: RecordingOrder | None = None) -> Recorded:
    documents, told = list[bytes](), list[str]()
    with tempfile.TemporaryFile("w+") as output:
        end = record_program(
            command,
            order or RecordingOrder(),
            lambda document, code: documents.append(document),
            stdout=output,
            notify=told.append,
        )
        output.seek(0)
        printed = output.read()
    assert end.why_not == ""
    return Recorded(trace_of(documents[0], "the trace"), end, printed, told)


def python(program: str, *arguments: str) -> list[str]:
    return [*PYTHON, str(PROGRAMS / program), *arguments]
