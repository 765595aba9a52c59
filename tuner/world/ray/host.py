"""What runs on a host of the cluster: it starts the ranks there, hears them, and ends them.

It is an actor of Ray. The ranks are no actors: they are forked from a process that has torch
imported, as on one machine, so that one that is stuck is ended without losing what is warm.
"""

import os
import shutil
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

from tuner.errors import LauncherError
from tuner.scratch import own_prefix, sweep
from tuner.world.bounded_files import head_and_tail
from tuner.world.command.order import HookOrder
from tuner.world.crew import Heard
from tuner.world.environment import Environment
from tuner.world.local.crew import LocalCrew
from tuner.world.local.processes import Processes
from tuner.world.machine_reading import MachineReader, MachineReading, machine_between
from tuner.world.machine_state import MachineState
from tuner.world.rank.task import RankTask
from tuner.world.ray.addresses import free_port, interface_to
from tuner.world.ray.programs import News, Programs

_TRACE = "trace.json"
_CUDA = "CUDA_VISIBLE_DEVICES"


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

    crew: LocalCrew
    scratch: Path
    before: MachineReading
    hearing: threading.Lock


class Host:
    """The ranks of one host. Its methods are called from several threads: a world is heard while
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
        crew = LocalCrew(self._processes, scratch)
        world = _World(crew, scratch, self._machine.read(), threading.Lock())
        self._worlds[number] = world
        crew.start(
            replace(
                task,
                folder=folder,
                scratch=scratch,
                trace=task.trace and replace(task.trace, path=scratch / _TRACE),
                environment={**task.environment, **devices},
            )
            for task, devices in zip(tasks, _devices(gpus), strict=True)
        )
        ranks = [task.rank for task in tasks]
        pids = {rank: pid for rank, pid in zip(ranks, crew.pids, strict=True) if pid is not None}
        return Started(begun_ns, time.time_ns(), pids)

    def interface_to(self, addresses: Sequence[str], named: str | None) -> tuple[str, str]:
        """See `tuner.world.ray.addresses`."""
        return interface_to(addresses, named)

    def free_port(self, address: str) -> int:
        """See `tuner.world.ray.addresses`."""
        return free_port(address)

    def hear(self, number: int, timeout_s: float) -> list[Heard]:
        """See `Crew.hear`; nothing of a world that has ended."""
        world = self._worlds.get(number)
        if world is None:
            return []
        with world.hearing:
            return world.crew.hear(timeout_s) if number in self._worlds else []

    def send(self, number: int, rank: int, message: Mapping[str, object]) -> None:
        """See `Crew.send`."""
        if (world := self._worlds.get(number)) is not None:
            world.crew.send(rank, message)

    def join(self, number: int, timeout_s: float) -> None:
        """See `Crew.join`."""
        self._worlds[number].crew.join(timeout_s)

    def dump_stacks(self, number: int, ranks: Sequence[int]) -> None:
        """See `Crew.dump_stacks`."""
        self._worlds[number].crew.dump_stacks(ranks)

    def captured(self, number: int) -> dict[str, bytes]:
        """The heads and tails of the files of `Crew.captured`, by name."""
        return {each.name: head_and_tail(each) for each in self._worlds[number].crew.captured()}

    def trace(self, number: int) -> bytes | None:
        """The trace that rank 0 has written here, if it has."""
        path = self._worlds[number].scratch / _TRACE
        return path.read_bytes() if path.exists() else None

    def end(self, number: int) -> MachineState | None:
        """See `Crew.end`; what the machine did meanwhile, if the world was started here."""
        world = self._worlds.get(number)
        if world is None:
            return None
        # The line to a rank is closed when nobody listens to it any more.
        world.crew.kill()
        with world.hearing:
            self._worlds.pop(number, None)
            world.crew.end()
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
    # Ray sets it for its own processes, where nobody else has.
    if "OMP_NUM_THREADS" not in given:
        os.environ.pop("OMP_NUM_THREADS", None)


def _devices(gpus: Sequence[int]) -> list[dict[str, str]]:
    """What shows each rank its share of the GPUs that Ray has given to this host's ranks.

    Where nobody asked for GPUs, ranks see what this host sees.
    """
    if not any(gpus):
        return [{} for _ in gpus]
    here = [each for each in os.environ.get(_CUDA, "").split(",") if each]
    shares = [here[sum(gpus[:place]) :][:count] for place, count in enumerate(gpus)]
    return [{_CUDA: ",".join(share)} for share in shares]
