"""Worlds run in a network that nobody else of the machine reaches."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testing.outcomes import measured
from tests.world.command.warm.starting_both import hooked, learnt_with, run_to_end
from tests.world.launcher_contract import fails, run
from tuner.world import own_network as own_network_module
from tuner.world.command.program_commands import Starters
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.own_network import OwnNetwork

HERE = os.readlink("/proc/self/ns/net")  # noqa: PTH115


def holders() -> list[psutil.Process]:
    """The processes that the module has left behind."""
    path = own_network_module.__file__
    return [child for child in psutil.Process().children() if path in child.cmdline()]


@pytest.fixture
def own_network() -> Iterator[OwnNetwork]:
    with OwnNetwork() as network:
        if not network.places:
            pytest.skip("no network namespaces here")
        yield network


def network_in(own_network: OwnNetwork) -> str:
    look = [*own_network.prefix, "readlink", "/proc/self/ns/net"]
    return subprocess.check_output(look, text=True).strip()


def test_it_is_the_same_whoever_was_killed(own_network: OwnNetwork) -> None:
    """What is started later meets what is there."""
    first = network_in(own_network)
    for _ in range(2):
        (holder,) = holders()
        holder.kill()
        holder.wait()
        assert network_in(own_network) == first != HERE
    own_network.leave()
    assert own_network.prefix == [] == holders()


def test_commands_meet_in_it_that_were_started_at_different_times(tmp_path: Path) -> None:
    """Cold ones beside a server of warm starts, whatever was killed in between."""
    seen = tmp_path / "seen"
    (tmp_path / "look.py").write_text(
        f"import os; open({str(seen)!r}, 'a').write(os.readlink('/proc/self/ns/net') + '\\n')"
    )
    commands = ((sys.executable, str(tmp_path / "look.py")),)
    with (
        OwnNetwork() as network,
        Starters(commands, network, lambda sentence: None) as starters,
    ):
        if not starters.in_own_network:
            pytest.skip("no network namespaces here")
        cold = starters.each[0]
        environment = hooked(tmp_path)
        assert starters.warm_up(learnt_with(environment), math.inf)
        for starter in (cold, *starters.each, cold):
            assert run_to_end(starter, environment).code == 0
            for holder in holders():
                holder.kill()
                holder.wait()
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
