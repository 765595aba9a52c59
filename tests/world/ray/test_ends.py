"""Nothing is left of a world on Ray, whatever is killed."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.fakes import order
from tests.world.launcher_contract import TROUBLES, awaited, dozing_search, ends, family_of
from tuner.world.measurement import Measurement
from tuner.world.ray.hosts import HostLostError
from tuner.world.ray.ray_launcher import RayLauncher

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def hosts_of(pid: int) -> list[psutil.Process]:
    """The processes of the hosts in the cluster of a process, that run ranks."""
    found = []
    for each in family_of(pid):
        with suppress(psutil.Error):
            if "ray::Host" in " ".join(each.cmdline()):
                found.append(each)
    return found


def test_a_killed_command_leaves_nothing_of_its_own_cluster(short_path: Path) -> None:
    with dozing_search(RayLauncher.__module__, "RayLauncher", short_path) as search:
        (host,) = awaited(lambda: hosts_of(search.pid), 1)
        awaited(lambda: family_of(host.pid), 4)  # tracker, forkserver, two ranks
        everything = [(each, each.name()) for each in family_of(search.pid)]
    left = [name for each, name in everything if not ends(each, within_s=60)]
    assert not left


def test_a_host_that_is_killed_is_no_fact_about_the_configuration(launcher: RayLauncher) -> None:
    spec = launcher.describe(f"{TROUBLES}:Dozes", {})
    ranks: list[psutil.Process] = []

    def kill() -> None:
        (host,) = awaited(lambda: hosts_of(os.getpid()), 1)
        ranks.extend(awaited(lambda: family_of(host.pid), 4))
        host.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostLostError, match="says nothing of its configuration"):
        launcher.run(order(spec))
    killer.join()
    assert all(ends(each, within_s=60) for each in ranks)
    udf = launcher.describe("udf", {"calls": "2"})
    assert isinstance(launcher.run(order(udf)), Measurement)


def test_a_launcher_that_is_left_leaves_no_process(local_cluster: None) -> None:
    with RayLauncher() as running:
        spec = running.describe("udf", {"calls": "2"})
        before = {each.pid for each in hosts_of(os.getpid())}
        assert isinstance(running.run(order(spec)), Measurement)
        ours = [each for each in hosts_of(os.getpid()) if each.pid not in before]
        family = [*ours, *family_of(ours[0].pid)]
    assert all(ends(each, within_s=60) for each in family)
