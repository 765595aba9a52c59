"""Worlds run in a network that nobody else of the machine reaches."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import order
from tuner.world import own_network as own_network_module
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from tuner.world.own_network import OwnNetwork

HERE = os.readlink("/proc/self/ns/net")  # noqa: PTH115
WORKLOAD = """
import os
import socket

import torch
import torch.distributed.rpc as rpc

from workloads import Rank, Workload


class Where(Workload):
    network: str = ""
    own: bool = True
    reaches_others: bool = False

    def ranks(self):
        return [Rank(name="a", role="a"), Rank(name="b", role="b")]

    def step(self, world):
        self.there = {here(), rpc.rpc_sync("b", here)}
        rpc.rpc_sync("b", torch.add, args=(torch.ones(400_000), 1))
        if self.reaches_others:
            socket.create_connection(("192.0.2.1", 80), timeout=5)

    def check(self, world):
        assert len(self.there) == 1, self.there
        assert (self.network not in self.there) == self.own, self.there
        with socket.create_server(("127.0.0.1", 0)):
            pass


def here():
    return os.readlink("/proc/self/ns/net")
"""


def run_world(launcher: LocalLauncher, folder: Path, **options: bool) -> Measurement | Failure:
    file = folder / "where.py"
    file.write_text(WORKLOAD)
    spec = launcher.describe(f"{file}:Where", {"network": HERE, **options})
    return launcher.run(order(spec, steps=3))


@pytest.fixture
def own_network() -> Iterator[OwnNetwork]:
    with OwnNetwork() as network:
        if network.holder is None:
            pytest.skip("no network namespaces here")
        yield network


def kill(holder: int | None) -> None:
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    os.waitid(os.P_PID, holder, os.WEXITED | os.WNOWAIT)


def test_a_holder_that_was_killed_is_replaced(own_network: OwnNetwork) -> None:
    first = own_network.holder
    kill(first)
    assert own_network.holder not in (None, first)


@pytest.mark.world
@pytest.mark.thorough
def test_worlds_have_a_network_of_their_own(own_network: OwnNetwork, tmp_path: Path) -> None:
    with LocalLauncher() as launcher:
        assert launcher.own_network
        kill(launcher._network_holder())
        outcome = run_world(launcher, tmp_path, own=True)
        assert isinstance(outcome, Measurement), outcome
        holder = launcher._network_holder()
        assert holder is not None
        lacks = run_world(launcher, tmp_path, reaches_others=True)
    assert not Path(f"/proc/{holder}").exists()
    assert isinstance(lacks, Failure)
    assert "Network is unreachable" in lacks.message
    assert lacks.message.endswith("--no-isolation gives them the machine's")


@pytest.mark.world
@pytest.mark.thorough
def test_without_isolation_they_have_the_machines(tmp_path: Path) -> None:
    with LocalLauncher(isolation=False) as launcher:
        assert not launcher.own_network
        assert isinstance(run_world(launcher, tmp_path, own=False), Measurement)


def test_where_no_namespace_is_allowed_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_network_module, "_OURSELVES", ("false",))
    with OwnNetwork() as network:
        assert network.holder is None
        assert network.prefix == []
