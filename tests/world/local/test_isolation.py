"""Worlds run in a network that nobody else of the machine reaches."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.known import known
from tests.world.launcher_contract import fails, measured, run
from tuner.world import own_network as own_network_module
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.own_network import OwnNetwork

HERE = os.readlink("/proc/self/ns/net")  # noqa: PTH115


@pytest.fixture
def own_network() -> Iterator[OwnNetwork]:
    with OwnNetwork() as network:
        if network.holder is None:
            pytest.skip("no network namespaces here")
        yield network


def test_a_holder_that_was_killed_is_replaced(own_network: OwnNetwork) -> None:
    first = known(own_network.holder)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert own_network.holder not in (None, first)


@pytest.mark.world
@pytest.mark.thorough
def test_worlds_have_a_network_of_their_own(own_network: OwnNetwork) -> None:
    with LocalLauncher() as launcher:
        assert launcher.own_network
        measured(run(launcher, "Where", options={"network": HERE, "own": True}))
        holder = known(launcher._network_holder())
        lacks = fails(launcher, "Where", options={"network": HERE, "reaches_others": True})
    assert not Path(f"/proc/{holder}").exists()
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
        assert network.holder is None
        assert network.prefix == []
