"""Hosts on one machine: network namespaces with addresses of their own, a raylet in each.

The second has process ids of its own, too, as containers have: what goes through another process's
memory does not work between them. Each has two interfaces, joined to those of the other one.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
PORT = 6379
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start"]
STARTS_S = 120.0
# Ray gives a raylet 30 s to start, which a busy machine may not be enough for.
ATTEMPTS = 3
LIMITS = ["--object-store-memory", "100000000", "--num-cpus", "2", "--block"]
ROUTED, BESIDE = "eth0", "eth1"
"""The interface of the route to where Ray listens, and the other one."""


@dataclass(frozen=True)
class FakeHost:
    """A namespace that stands for a host."""

    name: str
    address: str
    """Of the interface ROUTED."""
    has_own_pids: bool

    def inside(self, command: list[str]) -> list[str]:
        """The command, run in there."""
        return ["ip", "netns", "exec", self.name, *command]

    @property
    def namespace(self) -> str:
        """What `readlink /proc/PID/ns/net` says of its processes."""
        return f"net:[{os.stat(f'/run/netns/{self.name}').st_ino}]"  # noqa: PTH116

    def received_mb(self) -> float:
        """What has come over ROUTED so far."""
        count = _run(*self.inside(["cat", f"/sys/class/net/{ROUTED}/statistics/rx_bytes"]))
        return int(count) / 1e6

    def processes(self) -> list[psutil.Process]:
        """All that run in there, whoever their parents are."""
        pids = _run("ip", "netns", "pids", self.name).split()
        return [each for each in psutil.process_iter() if str(each.pid) in pids]


@dataclass(frozen=True)
class FakeCluster:
    """Hosts with a Ray cluster on them."""

    hosts: list[FakeHost]
    environment: Mapping[str, str]
    folder: Path
    rays: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    """What runs the raylet of each host, by number."""

    @property
    def address(self) -> str:
        """Where Ray listens."""
        return f"{self.hosts[0].address}:{PORT}"

    def run(self, *command: str, folder: Path, timeout_s: float = 240.0) -> str:
        """What a command prints that runs on the first host; it must go well."""
        done = subprocess.run(
            self.hosts[0].inside(list(command)), env=dict(self.environment), cwd=folder,
            timeout=timeout_s, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_module(self, function: str, *more: str, folder: Path) -> None:
        """Run one of `testing.on_first_host`, which writes to the folder."""
        given = (function, self.address, str(folder), *more)
        self.run(sys.executable, "-m", "testing.on_first_host", *given, folder=folder)

    def start(self, number: int) -> None:
        """Start the raylet of a host, and wait until the cluster has it."""
        for attempt in range(ATTEMPTS):
            self._launch(number)
            try:
                self._wait_for(number)
                return
            except AssertionError:
                if attempt == ATTEMPTS - 1:
                    raise
            self._end(number)
            for process in self.hosts[number].processes():
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _log(self, number: int) -> Path:
        return self.folder / f"host{number}.log"

    def _launch(self, number: int) -> None:
        host = self.hosts[number]
        command = [*RAY, "--node-ip-address", host.address, *LIMITS]
        if number == 0:
            command += ["--head", "--port", str(PORT), "--include-dashboard", "false"]
            command += ["--temp-dir", str(self.folder)]
        else:
            command += ["--address", self.address]
        if host.has_own_pids:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        # A host has temporary files of its own, and none after it has started.
        temporary = self.folder / f"h{number}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        environment = {**self.environment, "TMPDIR": str(temporary)}
        with self._log(number).open("wb") as output:
            self.rays[number] = subprocess.Popen(
                host.inside(command), env=environment, stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def kill_raylet(self, number: int) -> None:
        """SIGKILL for the raylet of a host."""
        for child in psutil.Process(self.rays[number].pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.name() == "raylet":
                    child.kill()

    def restart(self, number: int) -> None:
        """Start a host anew whose raylet was killed, once the cluster knows that it is gone."""
        self._end(number)
        self._wait_for(number)
        self.start(number)

    def end(self) -> None:
        """End all raylets, the first host's last."""
        for number in reversed(list(self.rays)):
            self._end(number)

    def _end(self, number: int) -> None:
        """End a raylet and all that it has started."""
        ray = self.rays.pop(number)
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(ray.pid).children(recursive=True)
            if not self.hosts[number].has_own_pids:
                ray.terminate()
                with suppress(subprocess.TimeoutExpired):
                    ray.wait(10)
            # The others end with the first process of their host, which unshare tells nothing else.
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        ray.kill()
        ray.wait()

    def _wait_for(self, number: int) -> None:
        """Wait until the cluster has the hosts that run, after this one was started or ended."""
        until, count = time.monotonic() + STARTS_S, len(self.rays)
        while time.monotonic() < until and all(ray.poll() is None for ray in self.rays.values()):
            with suppress(AssertionError, subprocess.TimeoutExpired):
                code = [sys.executable, "-c", _HOSTS, self.address]
                printed = self.run(*code, folder=Path("/"), timeout_s=30.0)
                # Ray may print lines of its own behind ours.
                if f"alive: {count}" in printed.splitlines():
                    return
            time.sleep(0.5)  # a cluster that starts tells nobody
        log = self._log(number).read_text()[-2000:]
        raise AssertionError(f"the cluster has not {count} hosts: {log}")


@contextmanager
def fake_hosts() -> Iterator[list[FakeHost]]:
    """Two namespaces, joined at both interfaces; the test is skipped where they are not allowed."""
    # Ray looks at the addresses of all clusters of a machine, whatever their network.
    middle = secrets.randbelow(255)
    subnets = {ROUTED: f"10.{middle}.{secrets.randbelow(127)}",
               BESIDE: f"10.{middle}.{128 + secrets.randbelow(127)}"}  # fmt: skip
    names = [f"rpct{os.getpid()}h{number}" for number in range(2)]
    with ExitStack() as stack:
        if shutil.which("ip") is None:
            pytest.skip("there is no command ip to make network namespaces with")
        for name in names:
            try:
                _ip(f"netns add {name}")
            except subprocess.CalledProcessError as error:
                pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
            stack.callback(_ip, f"netns del {name}")
            _ip(f"-n {name} link set lo up")
        for link, subnet in subnets.items():
            _ip(f"-n {names[0]} link add {link} type veth peer name {link} netns {names[1]}")
            for last, name in enumerate(names, 1):
                _ip(f"-n {name} addr add {subnet}.{last}/24 dev {link}")
                _ip(f"-n {name} link set {link} up")
        yield [
            FakeHost(name, f"{subnets[ROUTED]}.{last}", has_own_pids=last > 1)
            for last, name in enumerate(names, 1)
        ]


@contextmanager
def fake_cluster() -> Iterator[FakeCluster]:
    """Two hosts with a Ray cluster on them."""
    with fake_hosts() as hosts, ExitStack() as stack:
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
        cluster = FakeCluster(hosts, environment, folder)
        stack.callback(cluster.end)
        for number in range(len(hosts)):
            cluster.start(number)
        yield cluster


_HOSTS = """
import ray, sys
ray.init(sys.argv[1], logging_level="ERROR")
print("alive:", len([node for node in ray.nodes() if node["Alive"]]))
"""


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _ip(command: str) -> None:
    _run("ip", *command.split())
