"""Worlds run in a network that nobody else of the machine reaches."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.world.command.warm.starting_both import hooked, learnt_with, run_to_end
from tests.world.launcher_contract import fails, measured, run
from tuner.plan.program_spec import ProgramRequest
from tuner.world import own_network as own_network_module
from tuner.world.command.program_commands import Starters
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.own_network import OwnNetwork

HERE = os.readlink("/proc/self/ns/net")  # noqa: PTH115


def holders() -> list[psutil.Process]:
    """The processes that the module has left behind."""
    path = own_network_module.__file__
    return [each for each in psutil.Process().children() if path in each.cmdline()]


@pytest.fixture
def own_network() -> Iterator[OwnNetwork]:
    with OwnNetwork() as network:
        if not network.places:
            pytest.skip("no network namespaces here")
        yield network


def test_no_process_has_to_live_for_it(own_network: OwnNetwork) -> None:
    """None is left that somebody could kill, and what is started later meets what is there."""
    assert holders() == []
    look = [*own_network.prefix, "readlink", "/proc/self/ns/net"]
    first, second = (subprocess.check_output(look, text=True).strip() for _ in range(2))
    assert first == second != HERE
    places = own_network.places
    own_network.leave()
    assert own_network.prefix == []
    gone = subprocess.run(look, capture_output=True, text=True, check=False)
    assert gone.returncode == 1
    assert gone.stderr == f"join {' '.join([*places, *look[-2:]])}: No such file or directory\n"


def test_commands_meet_in_it_that_were_started_at_different_times(tmp_path: Path) -> None:
    """Cold ones beside a server of warm starts, whatever was killed in between."""
    seen = tmp_path / "seen"
    (tmp_path / "look.py").write_text(
        f"import os; open({str(seen)!r}, 'a').write(os.readlink('/proc/self/ns/net') + '\\n')"
    )
    request = ProgramRequest(commands=((sys.executable, str(tmp_path / "look.py")),))
    with Starters(lambda sentence: None) as starters:
        if not starters.in_own_network:
            pytest.skip("no network namespaces here")
        starters.start_cold(request)
        cold = starters.each[0]
        environment = hooked(tmp_path)
        assert starters.warm_up(request, learnt_with(environment), math.inf)
        for starter in (cold, *starters.each, cold):
            assert run_to_end(starter, environment).code == 0
            for each in holders():
                each.kill()
    first, *others = seen.read_text().split()
    assert first != HERE
    assert others == [first, first]


@pytest.mark.world
@pytest.mark.thorough
def test_worlds_have_a_network_of_their_own(own_network: OwnNetwork) -> None:
    with LocalLauncher() as launcher:
        assert launcher.own_network
        measured(run(launcher, "Where", options={"network": HERE, "own": True}))
        lacks = fails(launcher, "Where", options={"network": HERE, "reaches_others": True})
    assert "Network is unreachable" in lacks.message
    assert lacks.message.endswith("--no-isolation gives them the machine's")


@pytest.mark.world
@pytest.mark.thorough
def test_without_isolation_they_have_the_machines() -> None:
    with LocalLauncher(isolation=False) as launcher:
        assert not launcher.own_network
        measured(run(launcher, "Where", options={"network": HERE, "own": False}))


def test_where_no_namespace_is_allowed_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_network_module, "_OURSELVES", ("false",))
    with OwnNetwork() as network:
        assert network.places == ()
        assert network.prefix == []
