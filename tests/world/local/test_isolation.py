"""Worlds run in a network that nobody else of the machine reaches."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import order
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
        outcome = run_world(launcher, tmp_path, own=False)
        assert isinstance(outcome, Measurement), outcome


AS_ANYBODY = """
import sys
from pathlib import Path
from tests.world.local.test_isolation import run_world
from tuner.world.local.local_launcher import LocalLauncher
with LocalLauncher() as launcher:
    own = launcher.own_network
    print(own, type(run_world(launcher, Path(sys.argv[1]), own=own)).__name__)
"""


@pytest.mark.world
@pytest.mark.thorough
def test_without_privileges_worlds_run_all_the_same(tmp_path: Path) -> None:
    """Root without its rights may make no namespace in most systems: worlds have the machine's."""
    if os.getuid() != 0:
        pytest.skip("whoever is not root has no privileges: the tests above show it")
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", AS_ANYBODY,
         str(tmp_path)],
        capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert done.stdout.split()[-1:] == ["Measurement"], done
