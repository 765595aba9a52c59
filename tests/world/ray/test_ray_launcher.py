"""What the Ray launcher does with worlds on one host, and with groups of hosts."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from testing.fakes import order
from testing.outcomes import measured
from tests.world.launcher_contract import (
    TROUBLES,
    LauncherContract,
    dozing_search,
    ends,
    family_of,
    several,
)
from tuner.errors import UsageError
from tuner.world.ray.hosts import HostLostError
from tuner.world.ray.placing import HostInfo
from tuner.world.ray.ray_launcher import RayLauncher, host_sets


@pytest.mark.world
class TestRayLauncher(LauncherContract):
    """By the fixture of all tests here."""


def host(name: str, cpus: int = 8) -> HostInfo:
    return HostInfo(node=name, name=name, address="10.0.0.1", cpus=cpus, gpus=0)


@pytest.mark.parametrize(
    ("hosts", "groups", "sets"),
    [
        # Equally; what is left over is not used.
        ([host(name) for name in "abcde"], 2, [["a", "c"], ["b", "d"]]),
        # As alike as can be.
        ([host("small", 4), host("large", 64), host("tiny", 4), host("huge", 64)], 2,
         [["large", "small"], ["huge", "tiny"]]),
    ],
)  # fmt: skip
def test_hosts_are_divided(hosts: list[HostInfo], groups: int, sets: list[list[str]]) -> None:
    assert host_sets(hosts, groups) == sets
    told = f"{len(hosts) + 1} groups need at least a host each, .* has {len(hosts)} hosts"
    with pytest.raises(UsageError, match=told):
        host_sets(hosts, len(hosts) + 1)


def hosts_of(pid: int) -> list[psutil.Process]:
    """The processes of the hosts in the cluster of a process, that run ranks."""
    found = []
    for each in family_of(pid):
        with suppress(psutil.Error):
            found += [each] if "ray::Host" in " ".join(each.cmdline()) else []
    return found


@pytest.mark.world
@pytest.mark.thorough
def test_a_killed_command_leaves_nothing_of_its_own_cluster(short_path: Path) -> None:
    with dozing_search(RayLauncher.__module__, "RayLauncher", short_path) as search:
        (host,) = several(lambda: hosts_of(search.pid), 1)
        several(lambda: family_of(host.pid), 4)  # tracker, forkserver, two ranks
        everything = [(each, each.name()) for each in family_of(search.pid)]
    assert [name for each, name in everything if not ends(each, within_s=60)] == []


@pytest.mark.world
@pytest.mark.thorough
def test_a_host_that_is_killed_is_no_fact_about_the_configuration(launcher: RayLauncher) -> None:
    spec = launcher.describe(f"{TROUBLES}:Dozes", {})
    ranks: list[psutil.Process] = []

    def kill() -> None:
        (host,) = several(lambda: hosts_of(os.getpid()), 1)
        ranks.extend(several(lambda: family_of(host.pid), 4))
        host.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostLostError, match="says nothing of its configuration"):
        launcher.run(order(spec))
    killer.join()
    assert all(ends(rank, within_s=60) for rank in ranks)
    udf = launcher.describe("udf", {"calls": "2"})
    measured(launcher.run(order(udf)))


@pytest.mark.world
@pytest.mark.thorough
def test_a_launcher_that_is_left_leaves_no_process(local_cluster: None) -> None:
    with RayLauncher() as running:
        spec = running.describe("udf", {"calls": "2"})
        before = {each.pid for each in hosts_of(os.getpid())}
        measured(running.run(order(spec)))
        ours = [each for each in hosts_of(os.getpid()) if each.pid not in before]
        family = [*ours, *family_of(ours[0].pid)]
    assert all(ends(each, within_s=60) for each in family)
