"""Nothing is left of a world on Ray, whatever is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.fakes import order
from tests.world.launcher_contract import TROUBLES, ends
from tuner.world.measurement import Measurement
from tuner.world.ray.hosts import HostLostError
from tuner.world.ray.ray_launcher import RayLauncher

pytestmark = [pytest.mark.world, pytest.mark.thorough]

WAIT_S = 90.0
ROOT = Path(__file__).parents[3]


def family_of(pid: int) -> list[psutil.Process]:
    """A process's descendants."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def named(processes: list[psutil.Process], name: str) -> list[psutil.Process]:
    found = []
    for each in processes:
        try:
            if name in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found


def awaited(find: Callable[[], list[psutil.Process]], count: int) -> list[psutil.Process]:
    """What is found, once it is so much."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if len(found := find()) >= count:
            return found
        time.sleep(0.1)  # polling other processes; nothing here can notify
    raise AssertionError(f"no {count} processes in {WAIT_S:g} s")


def host_process() -> psutil.Process:
    """The process of the host in our cluster that runs ranks."""
    return awaited(lambda: named(family_of(os.getpid()), "ray::Host"), 1)[0]


def test_a_killed_command_leaves_nothing_of_its_own_cluster(short_path: Path) -> None:
    script = short_path / "search.py"
    script.write_text(
        "from tests.fakes import order\n"
        "from tuner.world.ray.ray_launcher import RayLauncher\n"
        "with RayLauncher() as launcher:\n"
        f"    spec = launcher.describe({str(TROUBLES) + ':Dozes'!r}, {{}})\n"
        "    print('described', flush=True)\n"
        "    launcher.run(order(spec))\n"
    )
    search = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(short_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert search.stdout is not None
    try:
        assert search.stdout.readline() == "described\n"

        def of_the_host() -> list[psutil.Process]:
            hosts = named(family_of(search.pid), "ray::Host")
            return family_of(hosts[0].pid) if hosts else []

        awaited(of_the_host, 4)  # tracker, forkserver, two ranks
        everything = [(each, each.name()) for each in family_of(search.pid)]
    finally:
        search.send_signal(signal.SIGKILL)
        search.communicate()
    left = [name for each, name in everything if not ends(each, within_s=60)]
    assert not left


def test_a_host_that_is_killed_is_no_fact_about_the_configuration(launcher: RayLauncher) -> None:
    spec = launcher.describe(f"{TROUBLES}:Dozes", {})
    ranks: list[psutil.Process] = []

    def kill() -> None:
        host = host_process()
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
        before = {each.pid for each in named(family_of(os.getpid()), "ray::Host")}
        assert isinstance(running.run(order(spec)), Measurement)
        ours = [
            each for each in named(family_of(os.getpid()), "ray::Host") if each.pid not in before
        ]
        family = [*ours, *family_of(ours[0].pid)]
    assert all(ends(each, within_s=60) for each in family)
