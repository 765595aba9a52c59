"""What is killed in searches on two hosts of a Ray cluster: hosts, commands, workers, ranks."""

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.commands import Ended, Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import Key, kept, lost
from tests.world.ray.namespaces import FakeCluster, FakeHost, fake_cluster
from tuner.study.records import Record

_SEARCH = (
    "tuner.search", "--workload", "udf", "--set", "size=50", "--space", "num_worker_threads=2,4",
    "--min-time", "0.05s", "--epsilon", "0.1%", "--budget", "60m", "--launcher", "ray",
    "--out", "study",
)  # fmt: skip
_SPREAD = ("--place", "caller=1", "--place", "server=1")
_GROUPS = ("--groups", "2")
_LONG = 300
"""Blocks of a search that does not end by itself."""
# Of a machine that does something else meanwhile.
_PATIENCE_S = 240.0
_GONE_S = 10.0
_POLL_S = 0.05


class _Searches:
    """Searches of one study, one after the other, from the first of two hosts.

    Args:
        cluster: The hosts.
        folder: Where the study and what belongs to it goes.
        flags: How the hosts are used.
    """

    def __init__(self, cluster: FakeCluster, folder: Path, flags: Sequence[str]) -> None:
        self._cluster = cluster
        self._folder = folder / "here"
        self._flags = flags
        self._known: Mapping[Key, Record] = {}
        self._missing = 0
        self._left: list[str] = []
        self._told: list[str] = []
        self._survived = True

    @property
    def host(self) -> FakeHost:
        """The one that the command is not on."""
        return self._cluster.hosts[1]

    def begin(self, blocks: int = _LONG, more: int = 3) -> Running:
        """Search, or go on, until so many more worlds are in the study."""
        running = Running(
            *_SEARCH, *self._flags, "--ray-address", self._cluster.address,
            "--max-blocks", str(blocks), *(["--resume"] if self._known else []),
            cwd=self._folder, inside=self._cluster.hosts[0].inside([]),
            environment={k: v for k, v in self._cluster.environment.items() if k[:4] == "RAY_"},
        )  # fmt: skip

        def are_there() -> bool:
            try:
                return len(self._kept()) >= len(self._known) + more
            except Exception:
                return False  # it is being created just now

        running.awaits(are_there, _PATIENCE_S)
        return running

    @property
    def measured(self) -> int:
        return len(self._kept())

    def ended(self, running: Running, *, is_killed: bool = False) -> Ended:
        """Wait for the end of a search, and count what it has lost and left."""
        ended = running.ended(_PATIENCE_S)
        found = self._kept()
        self._missing += lost(self._known, found)
        self._known = found
        self._left += ended.left_processes
        self._left += _left_on(self._cluster.hosts)
        # What a command leaves that is killed goes with the next one.
        if not is_killed:
            self._left += ended.left_files
        if ended.has_traceback:
            self.judge(f"a traceback: {ended.stderr[-1500:]}", False)
        return ended

    def judge(self, told: str, survived: bool) -> None:
        self._told.append(told)
        self._survived &= survived

    def outcome(self, blocks: int) -> Outcome:
        """Go on to the end, with so many blocks, and tell everything."""
        ended = self.ended(self.begin(blocks, more=10_000))
        told = f"the last --resume ended with {ended.code}, with {len(self._known)} observations"
        self.judge(told, ended.code == 0)
        self._left += [path.name for path in self._cluster.folder.glob("h*/rpc-tuner-*")]
        if self._left:
            self.judge(f"left {self._left[:3]}", False)
        return Outcome(
            told="; ".join(self._told),
            survived=self._survived,
            lost=self._missing,
            left=len(self._left),
        )

    def _kept(self) -> Mapping[Key, Record]:
        study = self._folder / "study"
        # Who opens a storage that is not there makes one, which the search would refuse.
        return kept(study, "udf") if (study / "study.db").exists() else {}


def _processes(host: FakeHost) -> list[tuple[psutil.Process, str]]:
    """Those of a host that are not Ray's own, with their command lines."""
    found = []
    for each in host.processes():
        with suppress(psutil.Error):
            line = " ".join(each.cmdline())
            if each.status() != psutil.STATUS_ZOMBIE and (
                line.startswith("ray::Host") or "multiprocessing." in line or "tuner" in line
            ):
                found.append((each, line))
    return found


def _left_on(hosts: Sequence[FakeHost]) -> list[str]:
    """What still runs on hosts after the time that it has to end."""
    until = time.monotonic() + _GONE_S
    while (left := [line for host in hosts for _, line in _processes(host)]) and (
        time.monotonic() < until
    ):
        time.sleep(_POLL_S)
    return left


def _actors(host: FakeHost) -> list[psutil.Process]:
    return [each for each, line in _processes(host) if line.startswith("ray::Host")]


def _ranks(host: FakeHost) -> list[psutil.Process]:
    """The ranks that are there now: what the forkserver of our process has forked."""
    found = []
    for actor in _actors(host):
        with suppress(psutil.Error):
            found += [rank for server in actor.children() for rank in server.children()]
    return found


def _kill_one(running: Running, find: Callable[[], Sequence[psutil.Process]]) -> None:
    """SIGKILL for the first process that is found, as soon as there is one."""

    def is_killed() -> bool:
        for each in find():
            with suppress(psutil.Error):
                each.kill()
                return True
        return False

    running.awaits(is_killed, _PATIENCE_S)


def _host_lost(folder: Path) -> Outcome:
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, _SPREAD)
        running = searches.begin()
        cluster.kill_raylet(1)
        ended = searches.ended(running)
        last = ended.stderr.strip().splitlines()[-1]
        is_told = searches.host.address in last and last.endswith("--resume continues it")
        searches.judge(f"exit code {ended.code}, {last}", ended.code == 1 and is_told)
        cluster.restart(1)
        return searches.outcome(4)


def _cluster_lost(flags: Sequence[str], folder: Path) -> Outcome:
    """Ray ends every process that has joined a cluster whose first host is gone for a minute."""
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, flags)
        running = searches.begin()
        cluster.kill_raylet(0)
        killed_s = time.monotonic()
        running.awaits(lambda: False, _PATIENCE_S)
        seconds = time.monotonic() - killed_s
        cluster.end()
        ended = searches.ended(running)
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        is_told = cluster.hosts[0].address in last and last.endswith("--resume continues it")
        told = f"exit code {ended.code} after {seconds:.0f} s, {last}"
        searches.judge(told, ended.code == 1 and is_told)
        for number in range(2):
            cluster.start(number)
        return searches.outcome(4)


def _group_lost(folder: Path) -> Outcome:
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, _GROUPS)
        running = searches.begin(20)
        cluster.kill_raylet(1)
        ended = searches.ended(running)
        lines = [line for line in ended.stderr.splitlines() if "is lost: " in line]
        is_told = len(lines) == 1 and searches.host.address in lines[0]
        searches.judge(f"exit code {ended.code}, {lines}", ended.code == 0 and is_told)
        cluster.restart(1)
        return searches.outcome(24)


def _command_killed(flags: Sequence[str], folder: Path) -> Outcome:
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, flags)
        running = searches.begin()
        running.process.kill()
        searches.ended(running, is_killed=True)
        return searches.outcome(4)


def _ranks_killed(times: int, folder: Path) -> Outcome:
    """Each in another world: one that is killed is run once more."""
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, _SPREAD)
        running, killed = searches.begin(), 0
        measured = searches.measured

        def has_gone_on() -> bool:
            # The first may have been done before.
            return searches.measured >= measured + 2

        while killed < times and running.process.poll() is None:
            _kill_one(running, lambda: _ranks(searches.host))
            killed += running.awaits(has_gone_on, _PATIENCE_S)
            measured = searches.measured
        running.process.send_signal(signal.SIGINT)
        ended = searches.ended(running)
        failed = [line for line in ended.stderr.splitlines() if "failed" in line]
        survived = ended.code == 130 and killed == times and not failed
        searches.judge(
            "; ".join([f"{killed} kills, exit code {ended.code}", *failed[:1]]), survived
        )
        return searches.outcome(4)


def _again_and_again(times: int, folder: Path) -> Outcome:
    """SIGKILL of the command, of a raylet or of our process on a host, then `--resume`."""
    chosen = random.Random(times)
    with fake_cluster(2) as cluster:
        searches = _Searches(cluster, folder, _SPREAD)
        for _ in range(times):
            running = searches.begin(more=1)
            running.awaits(lambda: False, 3.0 * chosen.random())
            victim = chosen.choice(["command", "raylet", "worker"])
            if victim == "command":
                running.process.kill()
            elif victim == "raylet":
                cluster.kill_raylet(1)
            else:
                _kill_one(running, lambda: _actors(chosen.choice(cluster.hosts)))
            ended = searches.ended(running, is_killed=victim == "command")
            if ended.code != (-9 if victim == "command" else 1):
                searches.judge(f"{victim}: exit code {ended.code}, {ended.stderr[-500:]}", False)
            if victim == "raylet":
                cluster.restart(1)
        searches.judge(f"{times} kills", True)
        return searches.outcome(4)


_ON_TWO = "in a search on two hosts of a Ray cluster"
_IN_GROUPS = "in a search with a group on each of two hosts"
_TOLD = "exit code 1, the host and --resume are told"

ROWS = tuple(
    Row(f"SIGKILL of {victim}", expected, inject)
    for victim, expected, inject in (
        (f"the raylet of another host {_ON_TWO}", f"{_TOLD}; with the host back --resume answers",
         _host_lost),
        (f"the raylet of the first host {_ON_TWO}", f"{_TOLD}; with the cluster back it answers",
         partial(_cluster_lost, _SPREAD)),
        (f"the raylet of the first host {_IN_GROUPS}", f"{_TOLD}; with the cluster back it answers",
         partial(_cluster_lost, _GROUPS)),
        (f"the raylet of another host {_IN_GROUPS}",
         "the other group goes on and answers; with the host back --resume goes on", _group_lost),
        (f"the command {_ON_TWO}", "nothing is left on any host, --resume answers",
         partial(_command_killed, _SPREAD)),
        (f"the command {_IN_GROUPS}", "nothing is left on any host, --resume answers",
         partial(_command_killed, _GROUPS)),
        ("a rank on another host of a Ray cluster, 10 times",
         "the search goes on, nothing is lost, no configuration is barred",
         partial(_ranks_killed, 10)),
        ("the command, of a raylet or of a worker of Ray, 20 times at random",
         "each --resume goes on, nothing is lost, nothing is there twice, the last answers",
         partial(_again_and_again, 20)),
    )
)  # fmt: skip
