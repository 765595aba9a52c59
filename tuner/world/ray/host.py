"""What runs on a host of the cluster: it starts the ranks there, polls them, and ends them.

It is an actor of Ray. The ranks are no actors: they are forked from a process that has torch
imported, as on one machine, so that one that is stuck is ended without losing what is warm.
"""

import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import psutil

from tuner.errors import LauncherError
from tuner.scratch import own_prefix, sweep
from tuner.world.command.order import HookOrder
from tuner.world.environment import Environment, MachineState
from tuner.world.failure_evidence import head_and_tail
from tuner.world.live_world import Message
from tuner.world.local.local_rank_processes import LocalRankProcesses
from tuner.world.local.processes import Processes
from tuner.world.machine_reading import MachineReader, MachineReading, machine_between
from tuner.world.rank.task import RankTask
from tuner.world.ray.host_programs import News, Programs

_TRACE = "trace.json"
_CUDA = "CUDA_VISIBLE_DEVICES"
# Below where the kernel takes the ports of outgoing connections, above Ray's own.
_PORTS = range(20_000, 32_000)
_ATTEMPTS = 200


class HostFacts(NamedTuple):
    """What a host says of itself."""

    environment: Environment
    tuner: str
    """The version of rpc-tuner there."""


class Started(NamedTuple):
    """What a host says of the ranks that it has started."""

    begun_ns: int
    """Unix time by its clock, when it was asked."""
    ended_ns: int
    """The same, when all were started."""
    pids: Mapping[int, int]
    """By rank."""


@dataclass(frozen=True)
class _World:
    """The ranks of one world that are here."""

    ranks: LocalRankProcesses
    scratch: Path
    before: MachineReading
    polling: threading.Lock


class Host:
    """The ranks of one host. Its methods are called from several threads: a world is polled while
    messages are sent to it."""

    def __init__(self) -> None:
        _as_without_ray()
        sweep()
        self._processes = Processes()
        self._machine = MachineReader()
        self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
        self._worlds: dict[int, _World] = {}
        self._programs = Programs(self._scratch, self._machine)

    def facts(self) -> HostFacts:
        """The machine and the software here."""
        return HostFacts(Environment.here(), version("rpc-tuner"))

    def start(
        self, number: int, folder: Path, tasks: Sequence[RankTask], gpus: Sequence[int]
    ) -> Started:
        """Start ranks of a world in a working folder, each with so many of the GPUs here.

        Raises:
            LauncherError: They cannot be started.
        """
        begun_ns = time.time_ns()
        if not folder.is_dir():
            folder = Path.home()
        scratch = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        ranks = LocalRankProcesses(self._processes, scratch)
        world = _World(ranks, scratch, self._machine.read(), threading.Lock())
        self._worlds[number] = world
        ranks.start(
            replace(
                task,
                folder=folder,
                scratch=scratch,
                trace=task.trace and replace(task.trace, path=scratch / _TRACE),
                environment={**task.environment, **devices},
            )
            for task, devices in zip(tasks, _devices(gpus), strict=True)
        )
        numbers = [task.rank for task in tasks]
        pids = {rank: pid for rank, pid in zip(numbers, ranks.pids, strict=True) if pid is not None}
        return Started(begun_ns, time.time_ns(), pids)

    def interface_to(self, addresses: Sequence[str], named: str | None) -> tuple[str, str]:
        """See `tuner.world.ray.host`."""
        return interface_to(addresses, named)

    def free_port(self, address: str) -> int:
        """See `tuner.world.ray.host`."""
        return free_port(address)

    def poll(self, number: int, timeout_s: float) -> list[Message]:
        """See `RankProcesses.poll`; nothing of a world that has ended."""
        world = self._worlds.get(number)
        if world is None:
            return []
        with world.polling:
            return world.ranks.poll(timeout_s) if number in self._worlds else []

    def send(self, number: int, rank: int, message: Mapping[str, object]) -> None:
        """See `RankProcesses.send`."""
        if (world := self._worlds.get(number)) is not None:
            world.ranks.send(rank, message)

    def join(self, number: int, timeout_s: float) -> None:
        """See `RankProcesses.join`."""
        self._worlds[number].ranks.join(timeout_s)

    def dump_stacks(self, number: int, ranks: Sequence[int]) -> None:
        """See `RankProcesses.dump_stacks`."""
        self._worlds[number].ranks.dump_stacks(ranks)

    def captured(self, number: int) -> dict[str, bytes]:
        """The heads and tails of the files of `RankProcesses.captured`, by name."""
        return {each.name: head_and_tail(each) for each in self._worlds[number].ranks.captured()}

    def trace(self, number: int) -> bytes | None:
        """The trace that rank 0 has written here, if it has."""
        path = self._worlds[number].scratch / _TRACE
        return path.read_bytes() if path.exists() else None

    def end(self, number: int) -> MachineState | None:
        """See `RankProcesses.end`; what the machine did meanwhile, if the world began here."""
        world = self._worlds.get(number)
        if world is None:
            return None
        # The channel to a rank is closed when no thread reads it any more.
        world.ranks.kill()
        with world.polling:
            self._worlds.pop(number, None)
            world.ranks.end()
        shutil.rmtree(world.scratch, ignore_errors=True)
        return machine_between(world.before, self._machine.read())

    def start_program(
        self,
        number: int,
        command: Sequence[str],
        folder: Path,
        order: HookOrder,
        environment: Mapping[str, str],
    ) -> None:
        """See `Programs.start`."""
        self._programs.start(number, command, folder, order, environment)

    def exchange(self, number: int, request: str) -> News:
        """See `Programs.exchange`."""
        return self._programs.exchange(number, request)

    def stop_program(self, number: int) -> None:
        """See `Programs.stop_gently`."""
        self._programs.stop_gently(number)

    def end_program(self, number: int) -> None:
        """See `Programs.end`."""
        self._programs.end(number)

    def program_files(self, number: int) -> dict[str, bytes]:
        """See `Programs.files`."""
        return self._programs.files(number)

    def forget_program(self, number: int) -> MachineState | None:
        """See `Programs.forget`."""
        return self._programs.forget(number)

    def leave(self) -> None:
        """End all that is here; the actor ends next."""
        self._programs.leave()
        for number in list(self._worlds):
            with suppress(LauncherError, OSError):
                self.end(number)
        shutil.rmtree(self._scratch, ignore_errors=True)


def _as_without_ray() -> None:
    """Let ranks find what they would find without Ray: their modules, and their environment."""
    ray = str(Path(sys.modules["ray"].__path__[0]) if "ray" in sys.modules else "/nowhere")
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(ray)]
    given = dict(
        pair.split("=", 1)
        for pair in Path("/proc/self/environ").read_text(errors="replace").split("\0")
        if "=" in pair
    )
    # Ray sets it for its own processes, where no one else has.
    if "OMP_NUM_THREADS" not in given:
        os.environ.pop("OMP_NUM_THREADS", None)


def _devices(gpus: Sequence[int]) -> list[dict[str, str]]:
    """What shows each rank its share of the GPUs that Ray has given to this host's ranks.

    Where no GPUs are asked for, ranks see what this host sees.
    """
    if not any(gpus):
        return [{} for _ in gpus]
    here = [each for each in os.environ.get(_CUDA, "").split(",") if each]
    shares = [here[sum(gpus[:place]) :][:count] for place, count in enumerate(gpus)]
    return [{_CUDA: ",".join(share)} for share in shares]


def interface_to(addresses: Sequence[str], named: str | None = None) -> tuple[str, str]:
    """The interface of the route from here to these addresses, and our own address on it.

    Args:
        addresses: Those of the other hosts.
        named: The interface to use whatever the route.

    Raises:
        LauncherError: There is no such interface, or no route.
    """
    ours = {
        address.address: name
        for name, each in psutil.net_if_addrs().items()
        for address in each
        if address.family == socket.AF_INET
    }
    if named is not None:
        found = [address for address, name in ours.items() if name == named]
        if not found:
            known = ", ".join(sorted(set(ours.values())))
            raise LauncherError(
                f"{socket.gethostname()} has no interface {named} with an IPv4 address; it has "
                f"{known}; name another by --interface"
            )
        return named, found[0]
    for address in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # A datagram socket sends nothing when it is connected; the kernel finds the route.
                probe.connect((address, 9))
            except OSError:
                continue
            own: str = probe.getsockname()[0]
        if own in ours:
            return ours[own], own
    raise LauncherError(
        f"{socket.gethostname()} has no route to {', '.join(addresses)}; "
        "name the interface by --interface"
    )


def free_port(address: str) -> int:
    """A TCP port that no process here listens on. LauncherError if there is none."""
    for _ in range(_ATTEMPTS):
        port = random.choice(_PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
            try:
                attempt.bind((address, port))
            except OSError:
                continue
            return port
    raise LauncherError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free at {address}")
