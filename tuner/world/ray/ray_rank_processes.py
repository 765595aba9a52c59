"""The ranks of one world on the hosts of a cluster."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from tuner.errors import LauncherError
from tuner.files import written_atomically
from tuner.world.environment import MachineState
from tuner.world.live_world import Message
from tuner.world.rank.task import RankTask
from tuner.world.ray.cluster import FIRST_HOST
from tuner.world.ray.hosts import LOST_S, HostProxy, Hosts

POLL_S = 5.0
"""A host without a message says so after this time, and by that lives."""


@dataclass
class _Asked:
    """A host that was asked for messages."""

    host: HostProxy
    at_s: float


class RayRankProcesses:
    """See `tuner.world.live_world.RankProcesses`.

    Args:
        hosts: Where the ranks run.
        number: The world's number, which no other world of this command has.
        scratch: A folder here, for what is fetched of a world that failed.
    """

    def __init__(self, hosts: Hosts, number: int, scratch: Path) -> None:
        self._hosts = hosts
        self._number = number
        self._scratch = scratch
        self._names: list[str] = []
        self._by_rank = hosts.in_order
        self._pids: list[int | None] = []
        self._asked: dict[ray.ObjectRef[Any], _Asked] = {}

    def start(self, tasks: Sequence[RankTask], folder: Path) -> None:
        """Start the ranks on their hosts, all hosts at the same time.

        Raises:
            LauncherError: They cannot be started; or a HostLostError.
        """
        self._names = [task.name for task in tasks]
        gpus = self._hosts.placing.gpus
        begun = {}
        for host in self._each_host:
            here = [task for task in tasks if self._by_rank[task.rank] is host]
            mine = [replace(task, place=(at, len(here))) for at, task in enumerate(here)]
            shares = [gpus[task.rank] for task in mine]
            begun[host] = host.start(self._number, folder, mine, shares)
        pids: dict[int, int] = {}
        beside_driver = self._by_rank[0]
        for host, pending in begun.items():
            found = host.started(pending)
            pids |= found if host is beside_driver else {}
        self._pids = [pids.get(task.rank) for task in tasks]
        for host in self._each_host:
            self._ask(host)

    @property
    def names(self) -> Sequence[str]:
        """See `RankProcesses.names`."""
        return self._names

    @property
    def pids(self) -> Sequence[int | None]:
        """See `RankProcesses.pids`."""
        return self._pids

    def poll(self, timeout_s: float) -> list[Message]:
        """See `RankProcesses.poll`. HostLostError if a host is gone; or a ClusterLostError."""
        FIRST_HOST.check()
        waiting = list(self._asked)
        ready, _ = ray.wait(waiting, num_returns=1, timeout=min(timeout_s, POLL_S))
        if ready and len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        found: list[Message] = []
        for reference in ready:
            host = self._asked.pop(reference).host
            for each in host.answer(reference):
                there_ns = each.content.get("time_ns")
                times = {} if there_ns is None else {"time_ns": host.here_ns(there_ns)}
                found.append(Message(each.rank, {**each.content, **times}))
            self._ask(host)
        for asked in self._asked.values():
            if time.monotonic() - asked.at_s > POLL_S + LOST_S:
                raise asked.host.lost(f"gave no answer for {LOST_S:g} s")
        return found

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """See `RankProcesses.send`."""
        self._by_rank[rank].begin("send", self._number, rank, dict(message))

    def join(self, timeout_s: float) -> None:
        """See `RankProcesses.join`."""
        self._everywhere("join", timeout_s)

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """See `RankProcesses.dump_stacks`."""
        self._everywhere("dump_stacks", list(ranks))

    def captured(self) -> Sequence[Path]:
        """See `RankProcesses.captured`: fetched from the hosts."""
        found = []
        for files in self._everywhere("captured"):
            for name, content in files.items():
                path = self._scratch / Path(name).name
                path.write_bytes(content)
                found.append(path)
        return sorted(found)

    def fetch_trace(self, path: Path) -> None:
        """Write the trace that rank 0 has left on its host to a path here, if it has left one."""
        content = self._by_rank[0].call("trace", self._number)
        if content is not None:
            with written_atomically(path) as partial:
                partial.write_bytes(content)

    def end(self) -> None:
        """See `RankProcesses.end`; a host that is lost ends its ranks itself."""
        self.machines()

    def machines(self) -> list[MachineState]:
        """End the ranks; what each host did meanwhile, as far as it was not known before."""
        asked = {h: h.begin("end", self._number) for h in self._each_host if not h.is_lost}
        found = []
        for host, reference in asked.items():
            with suppress(LauncherError):
                found.append(host.answer(reference))
        self._asked.clear()
        return [each for each in found if each is not None]

    @property
    def _each_host(self) -> list[HostProxy]:
        return list(self._hosts.by_node.values())

    def _ask(self, host: HostProxy) -> None:
        reference = host.begin("poll", self._number, POLL_S)
        self._asked[reference] = _Asked(host, time.monotonic())

    def _everywhere(self, method: str, *arguments: object) -> list[Any]:
        asked = [(h, h.begin(method, self._number, *arguments)) for h in self._each_host]
        return [host.answer(reference) for host, reference in asked]
