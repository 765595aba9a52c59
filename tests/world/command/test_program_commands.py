"""How the commands of a program are started."""

import time

from tests.world.command.warm.starting_both import A_FEW, PYTHON
from tuner.plan.program_spec import ProgramRequest
from tuner.world.command.program_commands import Starters


def test_why_several_commands_start_cold_is_said_once() -> None:
    said: list[str] = []
    request = ProgramRequest(commands=((PYTHON, "-", "1"), (PYTHON, "-", "2")))
    with Starters(said.append, isolation=False) as starters:
        starters.start_cold(request)
        assert not starters.warm_up(request, A_FEW, time.monotonic() + 60.0)
    assert said == ["each run starts cold: the program cannot be started warm: it names no script"]
