from dataclasses import replace

import pytest

from tuner.plan.program_spec import ProgramRequest
from tuner.world.command.judging import outcome_of
from tuner.world.command.program_world import ProgramEnd
from tuner.world.command.reports import ProgramReport
from tuner.world.measurement import Failure

REQUEST = ProgramRequest(commands=(("python", "main.py"),))
END = ProgramEnd(
    exit_codes=(1,), run_s=2.0, output="", report=ProgramReport(ranks=(), processes=0, problems=()),
    is_late=False, starved=None, states=(), counted=None,
)  # fmt: skip
WARNING = "[W1123 17:00:00.123456789 ProcessGroupGloo.cpp:516] Warning: Unable to resolve hostname"


@pytest.mark.parametrize("warning", [WARNING, f"[rank0]:{WARNING}"])
def test_warnings_of_torch_do_not_hide_what_a_program_says(warning: str) -> None:
    output = f"loading\n{warning}\n\nValueError: no such file\n{warning}\n"
    failure = outcome_of(replace(END, output=output), REQUEST)
    assert isinstance(failure, Failure)
    assert failure.message == "exit code 1 after 2.0 s: ValueError: no such file"
    assert failure.detail == "loading\nValueError: no such file"


def test_warnings_of_torch_are_told_where_there_is_nothing_else() -> None:
    failure = outcome_of(replace(END, output=f"{WARNING}\n"), REQUEST)
    assert isinstance(failure, Failure)
    assert failure.message.endswith(WARNING)
