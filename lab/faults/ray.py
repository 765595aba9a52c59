"""What is killed in searches on two hosts of a Ray cluster: hosts, commands, workers, ranks."""

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from lab.faults.kit.commands import Ended, Running, still_there
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import LONG, PATIENCE_S, SEARCH, Sessions
from testing.namespaces import FakeCluster, FakeHost, fake_cluster

_RAY = ("--epsilon", "0.1%", "--budget", "60m", "--launcher", "ray")
_SPREAD = ("--place", "caller=1", "--place", "server=1")
_GROUPS = ("--groups", "2")
_GONE_S = 10.0


class _Searches(Sessions):
    """Searches of one study from the first of two hosts, which `flags` says how to use."""

    def __init__(self, cluster: FakeCluster, folder: Path, flags: Sequence[str]) -> None:
        arguments = (*SEARCH, *_RAY, *flags, "--ray-address", cluster.address)
        environment = {k: v for k, v in cluster.environment.items() if k[:4] == "RAY_"}
        inside = cluster.hosts[0].inside([])
        super().__init__(folder, arguments, inside=inside, environment=environment)
        self.cluster, self.host = cluster, cluster.hosts[1]

    def ended(self, running: Running, **how: Any) -> Ended:
        """Also what is left on the hosts."""
        ended = super().ended(running, **how)
        hosts = self.cluster.hosts
        self.left += still_there(
            lambda: [line for h in hosts for _, line in _processes(h)], _GONE_S
        )
        return ended


def _processes(host: FakeHost) -> list[tuple[psutil.Process, str]]:
    """Those of a host that are not Ray's own, with their command lines."""
    found = []
    for process in host.processes():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            is_ours = line.startswith("ray::Host") or "multiprocessing." in line or "tuner" in line
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process, line))
    return found


def _actors(host: FakeHost) -> list[psutil.Process]:
    return [each for each, line in _processes(host) if line.startswith("ray::Host")]


def _is_killed(host: FakeHost) -> bool:
    """SIGKILL for our process on a host; whether it was there."""
    for actor in _actors(host):
        with suppress(psutil.Error):
            actor.kill()
            return True
    return False


def _ranks(host: FakeHost) -> list[psutil.Process]:
    """The ranks that are there now: what the forkserver of our process has forked."""
    found = []
    for actor in _actors(host):
        with suppress(psutil.Error):
            found += [rank for server in actor.children() for rank in server.children()]
    return found


def _on_two_hosts(
    act: Callable[[_Searches], None], flags: Sequence[str], blocks: int, folder: Path
) -> Outcome:
    """Do it in searches on a new cluster, then go on to the end, with so many blocks."""
    with fake_cluster() as cluster:
        searches = _Searches(cluster, folder, flags)
        act(searches)
        last = searches.ended(searches.begun("--max-blocks", str(blocks), more=10_000))
        searches.left += [path.name for path in cluster.folder.glob("h*/rpc-tuner-*")]
        return searches.outcome(last)


def _judge_lost(searches: _Searches, ended: Ended, host: FakeHost, after: str = "") -> None:
    last = (ended.stderr.strip().splitlines() or [""])[-1]
    is_told = host.address in last and last.endswith("--resume continues it")
    searches.judge(f"exit code {ended.code}{after}, {last}", ended.code == 1 and is_told)


def _lose_host(searches: _Searches) -> None:
    running = searches.begun(*LONG, more=3)
    searches.cluster.kill_raylet(1)
    _judge_lost(searches, searches.ended(running), searches.host)
    searches.cluster.restart(1)


def _lose_cluster(searches: _Searches) -> None:
    """Ray ends every process that has joined a cluster whose first host is gone for a minute."""
    running, cluster = searches.begun(*LONG, more=3), searches.cluster
    cluster.kill_raylet(0)
    killed_s = time.monotonic()
    running.awaits(lambda: False, PATIENCE_S)
    seconds = time.monotonic() - killed_s
    cluster.end()
    ended = searches.ended(running)
    _judge_lost(searches, ended, cluster.hosts[0], f" after {seconds:.0f} s")
    for number in range(2):
        cluster.start(number)


def _lose_group(searches: _Searches) -> None:
    running = searches.begun("--max-blocks", "20", more=3)
    searches.cluster.kill_raylet(1)
    ended = searches.ended(running)
    lines = [line for line in ended.stderr.splitlines() if "is lost: " in line]
    is_told = len(lines) == 1 and searches.host.address in lines[0]
    searches.judge(f"exit code {ended.code}, {lines}", ended.code == 0 and is_told)
    searches.cluster.restart(1)


def _kill_ranks(searches: _Searches, times: int = 10) -> None:
    """Each in another world: one that is killed is run once more."""
    running = searches.begun(*LONG, more=3)
    killed = searches.kills(running, lambda: _ranks(searches.host), times)
    running.process.send_signal(signal.SIGINT)
    ended = searches.ended(running)
    failed = [line for line in ended.stderr.splitlines() if "failed" in line]
    told = "; ".join([f"{killed} kills, exit code {ended.code}", *failed[:1]])
    searches.judge(told, ended.code == 130 and killed == times and not failed)


def _kill_again_and_again(searches: _Searches, times: int = 20) -> None:
    """SIGKILL of the command, of a raylet or of our process on a host, then `--resume`."""
    chosen, cluster = random.Random(times), searches.cluster
    for _ in range(times):
        running = searches.begun(*LONG, more=1)
        running.awaits(lambda: False, 3.0 * chosen.random())
        victim = chosen.choice(["command", "raylet", "worker"])
        if victim == "command":
            running.process.kill()
        elif victim == "raylet":
            cluster.kill_raylet(1)
        else:
            running.awaits(partial(_is_killed, chosen.choice(cluster.hosts)), PATIENCE_S)
        ended = searches.ended(running, is_killed=victim == "command")
        if ended.code != (-9 if victim == "command" else 1):
            searches.judge(f"{victim}: exit code {ended.code}, {ended.stderr[-500:]}", False)
        if victim == "raylet":
            cluster.restart(1)
    searches.judge(f"{times} kills", True)


_ON_TWO = "in a search on two hosts of a Ray cluster"
_IN_GROUPS = "in a search with a group on each of two hosts"
_TOLD = "exit code 1, the host and --resume are told"

ROWS = tuple(
    Row(f"SIGKILL of {victim}", expected, partial(_on_two_hosts, act, flags, blocks))
    for victim, expected, act, flags, blocks in (
        (f"the raylet of another host {_ON_TWO}", f"{_TOLD}; with the host back --resume answers",
         _lose_host, _SPREAD, 4),
        (f"the raylet of the first host {_ON_TWO}", f"{_TOLD}; with the cluster back it answers",
         _lose_cluster, _SPREAD, 4),
        (f"the raylet of the first host {_IN_GROUPS}", f"{_TOLD}; with the cluster back it answers",
         _lose_cluster, _GROUPS, 4),
        (f"the raylet of another host {_IN_GROUPS}",
         "the other group goes on and answers; with the host back --resume goes on",
         _lose_group, _GROUPS, 24),
        ("a rank on another host of a Ray cluster, 10 times",
         "the search goes on, nothing is lost, no configuration is barred",
         _kill_ranks, _SPREAD, 4),
        ("the command, of a raylet or of a worker of Ray, 20 times at random",
         "each --resume goes on, nothing is lost, there twice or left, the last answers",
         _kill_again_and_again, _SPREAD, 4),
    )
)  # fmt: skip
