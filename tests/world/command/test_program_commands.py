"""How the commands of a program are started."""

import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tests.world.command.warm.starting_both import (
    A_FEW,
    PYTHON,
    hooked,
    learnt_with,
    run_to_end,
)
from tuner.errors import LauncherError
from tuner.process_knobs import THREAD_VARIABLES
from tuner.world.command.program_commands import LocalCommands, Starters
from tuner.world.command.reports import ProgramReport
from tuner.world.command.warm.warm_starting import WarmStarter
from tuner.world.environment import MachineReader
from tuner.world.own_network import OwnNetwork


def test_why_several_commands_start_cold_is_said_once() -> None:
    said: list[str] = []
    commands = ((PYTHON, "-", "1"), (PYTHON, "-", "2"))
    with Starters(commands, OwnNetwork(), said.append) as starters:
        assert not starters.warm_up(A_FEW, time.monotonic() + 60.0)
    assert said == ["each run starts cold: the program cannot be started warm: it names no script"]


def test_commands_of_one_interpreter_have_one_server_that_begins_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports what their files name; with `--cold` there is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tuner.world.command.warm.python_command.RPC_MODULE", "decimal")
    for name, module in (("one", "colorsys"), ("two", "wave")):
        text = f"import sys, {module}\nsorted(sys.modules)\nprint(__file__, '{module}')\n"
        (tmp_path / f"{name}.py").write_text(text)
    commands = ((PYTHON, "one.py"), (PYTHON, "two.py"), (PYTHON, "-B", "two.py"))
    said: list[str] = []
    with Starters(commands, OwnNetwork(), said.append) as starters:
        starters.begin(time.monotonic() + 60.0)
        assert not starters.is_warm
        assert starters.use_begun()
        one, two, other = starters.each
        assert isinstance(one, WarmStarter)
        assert isinstance(two, WarmStarter)
        assert isinstance(other, WarmStarter)
        ended = [run_to_end(each, hooked(tmp_path)) for each in (one, two, other)]
        assert [each.out.split()[-1] for each in ended] == ["colorsys", "wave", "wave"]
        parents = {each._imports.server._process.pid for each in (one, two, other)}
        assert len(parents) == 2
        learnt = learnt_with(hooked(tmp_path))
        assert starters.warm_up(learnt, time.monotonic() + 60.0)
        assert {each._imports.server._process.pid for each in (one, two, other)} == parents
    with Starters(commands, OwnNetwork(), said.append, "--cold asks for it") as starters:
        starters.begin(time.monotonic() + 60.0)
        assert not starters.use_begun()
    assert said == []


class Server(WarmStarter):
    """Imports nothing; one with `unfit` threads fails."""

    unfit = "9"
    did: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []
    left_out: ClassVar[dict[str, str]] = {}

    def __init__(
        self, command: object, environment: Mapping[str, str], *_: object, **__: object
    ) -> None:
        self.threads = environment.get("OMP_NUM_THREADS", "")
        self.did.append(f"began {self.threads}")

    def wait(self) -> None:
        self.did.append(f"waited {self.threads}")
        if self.threads == self.unfit:
            raise LauncherError("its libraries set another")

    def __exit__(self, *ending: object) -> None:
        self.closed.append(self.threads)


@pytest.fixture
def fake_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Server` serves all commands, and the environment has no number of threads."""
    for variable in THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tuner.world.command.program_commands.WarmStarter", Server)
    Server.closed, Server.did = [], []


@pytest.mark.usefixtures("fake_servers")
def test_few_servers_of_other_threads_are_kept_and_all_runs_start_alike() -> None:
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


@pytest.mark.usefixtures("fake_servers")
def test_servers_for_threads_that_are_expected_begin_at_once_and_end_before_a_run() -> None:
    """Also before a run that needs none of them: nothing is imported beside it."""
    with Starters(((PYTHON, __file__),), OwnNetwork(), lambda sentence: None) as starters:
        starters.expect_threads([1])
        assert Server.did == []  # runs are cold, and need none
        starters.warm_up(A_FEW, time.monotonic() + 60.0)
        starters.expect_threads([1, 2, 4])
        starters.expect_threads([1])
        assert Server.did == ["began ", "waited ", "began 1", "began 2"]
        starters.for_environment({})
        assert Server.did[4:] == ["waited 1", "waited 2"]
        starters.for_environment(dict.fromkeys(THREAD_VARIABLES, "2"))
        assert Server.did[6:] == []


@pytest.mark.parametrize("has_run", [True, False])
def test_what_has_run_its_exit_handlers_is_not_waited_for(has_run: bool, tmp_path: Path) -> None:
    """Others have three seconds to end as they like."""

    class Report(ProgramReport):
        def has_run(self, commands: Collection[int]) -> bool:
            assert commands == [own.pid]
            return has_run

    ignores = "import signal, sys, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]"
    own = subprocess.Popen(
        [PYTHON, "-c", f"{ignores}; print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    report = Report(ranks=(), processes=1, problems=())
    commands = LocalCommands([], {}, tmp_path, MachineReader().watch(), lambda: report)
    commands._processes.append(own)
    with own:
        assert own.stdout is not None
        own.stdout.readline()
        began_s = time.monotonic()
        commands.stop_gently()
        assert (time.monotonic() - began_s < 1.5) == has_run
        assert commands.codes() == (None,)
        commands.end()
    assert commands.codes() == (-signal.SIGKILL,)
