"""How the commands of a program are started."""

import time
from collections.abc import Mapping
from typing import ClassVar

import pytest

from tests.world.command.warm.starting_both import A_FEW, PYTHON
from tuner.errors import LauncherError
from tuner.process_knobs import THREAD_VARIABLES
from tuner.world.command.program_commands import Starters
from tuner.world.command.warm.warm_starting import WarmStarter
from tuner.world.own_network import OwnNetwork


def test_why_several_commands_start_cold_is_said_once() -> None:
    said: list[str] = []
    commands = ((PYTHON, "-", "1"), (PYTHON, "-", "2"))
    with Starters(commands, OwnNetwork(), said.append) as starters:
        assert not starters.warm_up(A_FEW, time.monotonic() + 60.0)
    assert said == ["each run starts cold: the program cannot be started warm: it names no script"]


class Server(WarmStarter):
    """Imports nothing; one with `unfit` threads fails."""

    unfit = "9"
    closed: ClassVar[list[str]] = []
    left_out: ClassVar[dict[str, str]] = {}

    def __init__(
        self, command: object, environment: Mapping[str, str], *_: object, **__: object
    ) -> None:
        self.threads = environment.get("OMP_NUM_THREADS", "")

    def wait(self) -> None:
        if self.threads == self.unfit:
            raise LauncherError("its libraries set another")

    def __exit__(self, *ending: object) -> None:
        self.closed.append(self.threads)


def test_few_servers_of_other_threads_are_kept_and_all_runs_start_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tuner.world.command.program_commands.WarmStarter", Server)
    Server.closed = []
    said: list[str] = []
    commands = ((PYTHON, __file__),)

    def used(starters: Starters, threads: str) -> tuple[str, bool]:
        given = {"HOME": "/", **dict.fromkeys(THREAD_VARIABLES, threads)}
        (server,), environment = starters.for_environment(given)
        assert isinstance(server, Server)
        return server.threads, "OMP_NUM_THREADS" in environment

    with Starters(commands, OwnNetwork(), said.append) as starters:
        assert starters.warm_up(A_FEW, time.monotonic() + 60.0)
        assert starters.for_environment({})[0] == starters.each
        assert [used(starters, each) for each in "1213"] == [
            ("1", True), ("2", True), ("1", True), ("3", True),
        ]  # fmt: skip
        assert Server.closed == ["2"]  # the one that was used longest ago
        assert used(starters, "9") == ("", False)
    assert {*Server.closed} == {"", "1", "2", "3", "9"}
    assert said == [
        "OMP_NUM_THREADS and MKL_NUM_THREADS are not set before a run, and torch.set_num_threads "
        "is: its libraries set another"
    ]
