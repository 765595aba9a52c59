"""Hosts on one machine: network namespaces with addresses of their own, a raylet in each.

All but the first have process ids of their own, too, as containers have: what goes through another
process's memory does not work between them. Their traffic stays on the bridge that joins them.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
PORT = 6379
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start"]
STARTS_S = 120.0
LIMITS = ["--object-store-memory", "100000000", "--num-cpus", "2", "--block"]


@dataclass(frozen=True)
class FakeHost:
    """A namespace that stands for a host."""

    name: str
    address: str
    has_own_pids: bool

    def inside(self, command: list[str]) -> list[str]:
        """The command, run in there."""
        return ["ip", "netns", "exec", self.name, *command]

    @property
    def namespace(self) -> str:
        """What `readlink /proc/PID/ns/net` says of its processes."""
        return f"net:[{os.stat(f'/run/netns/{self.name}').st_ino}]"  # noqa: PTH116

    def received_mb(self) -> float:
        """What has come over its veth so far."""
        count = _run(*self.inside(["cat", "/sys/class/net/eth0/statistics/rx_bytes"]))
        return int(count) / 1e6


@dataclass(frozen=True)
class FakeCluster:
    """Hosts with a Ray cluster on them."""

    hosts: list[FakeHost]
    environment: Mapping[str, str]
    raylets: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        """Where Ray listens."""
        return f"{self.hosts[0].address}:{PORT}"

    def run(self, *command: str, folder: Path, timeout_s: float = 240.0) -> str:
        """What a command prints that runs on the first host; it must go well."""
        done = subprocess.run(
            self.hosts[0].inside(list(command)),
            env=dict(self.environment),
            cwd=folder,
            timeout=timeout_s,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def fake_hosts(count: int) -> Iterator[list[FakeHost]]:
    """So many namespaces on one bridge; the test is skipped where they are not allowed."""
    mark = f"rpct{os.getpid()}"
    switch = f"{mark}s"
    # Ray looks at the addresses of all clusters of a machine, whatever their network.
    subnet = f"10.{secrets.randbelow(255)}.{secrets.randbelow(255)}"
    with ExitStack() as stack:
        if shutil.which("ip") is None:
            pytest.skip("there is no command ip to make network namespaces with")
        made = subprocess.run(["ip", "netns", "add", switch], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"network namespaces are not allowed here: {made.stderr.strip()}")
        stack.callback(_run, "ip", "netns", "del", switch)
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        hosts = []
        for number in range(count):
            host = FakeHost(f"{mark}h{number}", f"{subnet}.{number + 1}", number > 0)
            _run("ip", "netns", "add", host.name)
            stack.callback(_run, "ip", "netns", "del", host.name)
            outer = f"to{number}"
            _run("ip", "-n", switch, "link", "add", outer, "type", "veth",
                 "peer", "name", "eth0", "netns", host.name)  # fmt: skip
            _run("ip", "-n", switch, "link", "set", outer, "master", "bridge", "up")
            _run("ip", "-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                _run("ip", "-n", host.name, "link", "set", link, "up")
            hosts.append(host)
        yield hosts


@contextmanager
def fake_cluster(
    count: int, clocks: Mapping[int, Mapping[str, str]] | None = None
) -> Iterator[FakeCluster]:
    """Hosts with a Ray cluster; `clocks` are variables for the processes of some of them."""
    with fake_hosts(count) as hosts, ExitStack() as stack:
        # Short, because of the sockets in it.
        folder = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Nobody else on this machine may join.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        environment.pop("RAY_ADDRESS", None)
        cluster = FakeCluster(hosts, environment, [])
        for number, host in enumerate(hosts):
            # Commands sweep the folders of processes that they do not see, as those of others.
            own = {**environment, "TMPDIR": str(folder), **(clocks or {}).get(number, {})}
            raylet = _start(cluster, host, number, folder, own)
            stack.callback(_end, raylet)
            cluster.raylets.append(raylet)
            _wait_until_listed(cluster, number + 1, folder / f"host{number}.log")
        yield cluster


def _start(
    cluster: FakeCluster, host: FakeHost, number: int, folder: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    command = [*RAY, "--node-ip-address", host.address, *LIMITS]
    if number == 0:
        command += ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        command += ["--temp-dir", str(folder)]
    else:
        command += ["--address", cluster.address]
    if host.has_own_pids:
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
    with (folder / f"host{number}.log").open("wb") as log:
        return subprocess.Popen(
            host.inside(command),
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


_NODES = """
import ray, sys
ray.init(sys.argv[1], logging_level="ERROR")
print(len([node for node in ray.nodes() if node["Alive"]]))
"""


def _wait_until_listed(cluster: FakeCluster, count: int, log: Path) -> None:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and cluster.raylets[-1].poll() is None:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            code = [sys.executable, "-c", _NODES, cluster.address]
            if int(cluster.run(*code, folder=Path("/"), timeout_s=30.0).split()[-1]) >= count:
                return
        time.sleep(0.5)  # a cluster that starts tells nobody
    raise AssertionError(f"host {count} of the cluster did not start: {log.read_text()[-2000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a raylet and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.kill()
    process.wait()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
