"""What runs on a host of the cluster: it starts a world's processes there, polls and ends them.

It is an actor of Ray. The ranks are no actors: they are forked from a process that has torch
imported, as on one machine, so that one that is stuck is ended without losing what is warm.
"""

import array
import fcntl
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tuner.errors import LauncherError
from tuner.files import head_of, own_prefix, sweep
from tuner.trace.record.journal import EVERYBODY_READS
from tuner.world.command.order import HookOrder
from tuner.world.command.program_channel import ProgramChannel, Question
from tuner.world.command.program_commands import ColdStarter, LocalCommands
from tuner.world.descendants import has_variable
from tuner.world.environment import Environment, MachineReader, MachineState
from tuner.world.launcher import RankTask
from tuner.world.local.processes import LocalRankProcesses
from tuner.world.messages import Message, RankMessage
from tuner.world.postmortem import head_and_tail

# Of what the command prints on one host so much is passed on.
_MOST_PRINTED = 1_000_000
_MOST_OF_A_FILE = 1 << 28
_TRACE = "trace.json"
_CUDA = "CUDA_VISIBLE_DEVICES"
# Below where the kernel takes the ports of outgoing connections, above Ray's own.
_PORTS = range(20_000, 32_000)
_ATTEMPTS = 200
# A request to the kernel, the size of an answer's entry, and how many of them there may be.
_GET_ADDRESSES, _BYTES_OF_ADDRESS, _MOST_ADDRESSES = 0x8912, 40, 1000


class Timed(NamedTuple):
    """An answer, and when it was given: Unix time by the host's clock."""

    begun_ns: int
    ended_ns: int
    answer: Any


class Host:
    """The worlds of one host, by their numbers. Its methods are called from several threads."""

    def __init__(self) -> None:
        _as_without_ray()
        sweep()
        self._machine = MachineReader()
        self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
        self._worlds: dict[int, RanksHere | CommandHere] = {}

    def facts(self) -> tuple[Environment, str]:
        """The machine here, and the version of rpc-tuner."""
        return Environment.here(), version("rpc-tuner")

    @staticmethod
    def interface_to(addresses: Sequence[str], named: str | None = None) -> tuple[str, str]:
        """The interface of the route to these addresses, or the one that is named, and our address
        on it. LauncherError if there is none."""
        ours = _own_addresses()
        here = socket.gethostname()
        if named is not None:
            if found := [address for address, name in ours.items() if name == named]:
                return named, found[0]
            raise LauncherError(
                f"{here} has no interface {named} with an IPv4 address; it has "
                f"{', '.join(sorted({*ours.values()}))}; name another by --interface"
            )
        for address in addresses:
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                # A datagram socket sends nothing when it is connected; the kernel finds the route.
                probe.connect((address, 9))
                if (own := str(probe.getsockname()[0])) in ours:
                    return ours[own], own
        to = ", ".join(addresses)
        raise LauncherError(f"{here} has no route to {to}; name the interface by --interface")

    @staticmethod
    def free_port(address: str) -> int:
        """A TCP port that no process here listens on. LauncherError if there is none."""
        for port in random.choices(_PORTS, k=_ATTEMPTS):
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
                attempt.bind((address, port))
                return port
        first, last = _PORTS[0], _PORTS[-1]
        raise LauncherError(f"no port from {first} to {last} is free at {address}")

    def start_ranks(self, number: int, tasks: Sequence[RankTask], gpus: Sequence[int]) -> Timed:
        """Start ranks of a world, each with so many of the GPUs here; their process ids, by rank.
        LauncherError if they cannot be started."""
        begun_ns = time.time_ns()
        scratch = self._new_scratch()
        world = self._worlds[number] = RanksHere(scratch, self._machine)
        order = tasks[0].order
        if order.trace is not None:
            order = replace(order, trace=replace(order.trace, path=scratch / _TRACE))
        folder = _folder_here(tasks[0].folder)
        here = [
            replace(
                task, order=order, folder=folder, scratch=scratch,
                environment={**task.environment, **devices},
            )
            for task, devices in zip(tasks, _devices(gpus), strict=True)
        ]  # fmt: skip
        pids = world.start(here)
        by_rank = dict(zip((task.rank for task in tasks), pids, strict=True))
        return Timed(begun_ns, time.time_ns(), by_rank)

    def start_program(
        self, number: int, command: Sequence[str], folder: Path, order: HookOrder,
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Start a command, with the hook in it and these variables beside the host's."""
        machine, given = self._machine.watch(), {**os.environ, **environment}
        starter, scratch = ColdStarter(command, _folder_here(folder)), self._new_scratch()
        self._worlds[number] = CommandHere(scratch, starter, order, given, machine)

    def _new_scratch(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))

    def call(self, number: int, method: str, *arguments: object) -> Timed:
        """What a method of a world here answers; None where it has ended, or never began."""
        begun_ns, world = time.time_ns(), self._worlds.get(number)
        answer = None if world is None else getattr(world, method)(*arguments)
        return Timed(begun_ns, time.time_ns(), answer)

    def end(self, number: int) -> MachineState | None:
        """End a world and remove what it left; what the machine did meanwhile, if it was here."""
        if (world := self._worlds.pop(number, None)) is None:
            return None
        try:
            return world.end()
        finally:
            if isinstance(world, CommandHere):
                world.channel.close()
            shutil.rmtree(world.scratch, ignore_errors=True)

    def leave(self) -> None:
        """End all that is here; the actor ends next."""
        for number in list(self._worlds):
            with suppress(LauncherError, OSError):
                self.end(number)
        shutil.rmtree(self._scratch, ignore_errors=True)


class RanksHere(LocalRankProcesses):
    """The ranks of one world that are here. It is polled while messages are sent to it."""

    def __init__(self, scratch: Path, machine: MachineReader) -> None:
        super().__init__(None, scratch, machine)
        self._polling = threading.Lock()
        self._is_over = False

    def poll(self, timeout_s: float) -> list[RankMessage]:
        """See `RankProcesses.poll`; nothing of a world that has ended."""
        with self._polling:
            return [] if self._is_over else super().poll(timeout_s)

    def files(self) -> dict[str, bytes]:
        """The heads and tails of what they printed, and of their stacks, by the files' names."""
        return {file.name: head_and_tail(file) for file in self.captured()}

    def trace(self) -> bytes | None:
        """The trace that rank 0 has written here, if it has."""
        path = self.scratch / _TRACE
        return path.read_bytes() if path.exists() else None

    def end(self) -> MachineState:
        """See `LocalRankProcesses.end`."""
        # The channel to a rank is closed when no thread reads it any more.
        self.kill()
        with self._polling:
            self._is_over = True
            return super().end()


class News(NamedTuple):
    """What is new of a program on a host since the last exchange."""

    code: int | None
    """The command's exit code; None while it runs."""
    printed: bytes
    messages: Sequence[Message]


class CommandHere(LocalCommands):
    """One run of a program's command here, and what its processes report."""

    def __init__(
        self, scratch: Path, starter: ColdStarter, order: HookOrder,
        environment: Mapping[str, str], machine: Callable[[], MachineState],
    ) -> None:  # fmt: skip
        self.scratch = scratch
        self._output, self._here = scratch / "output", scratch / "reports"
        self._here.mkdir()
        self.channel = ProgramChannel(self._here)
        self._passed_on: Counter[int] = Counter()
        """How many messages of each process."""
        self._read = 0
        """How much of what it printed has been passed on, in bytes."""
        if order.recording is not None:
            # All hosts run the same command with the same order.
            (self._here / EVERYBODY_READS).touch()
        given = replace(order, reports=self._here).environment(environment)
        is_recorded = order.recording is not None
        report = self.channel.report
        super().__init__([starter], given, self._here, machine, report, is_recorded)
        try:
            with self._output.open("wb") as output:
                self.start(output.fileno())
        except BaseException:
            self.channel.close()
            raise

    def exchange(self, question: Question) -> News:
        """Ask the processes a question, where that is new; what is new here."""
        self.channel.pass_on(question)
        # Before what it has left: nothing comes after its end.
        (code,) = self.codes()
        self.channel.note_gone()
        messages = []
        for sent in self.channel.messages():
            messages += sent[self._passed_on[sent[0]["pid"]] :]
            self._passed_on[sent[0]["pid"]] = len(sent)
        left = max(0, _MOST_PRINTED - self._read)
        with self._output.open("rb") as file:
            file.seek(self._read)
            printed = file.read(left)
        self._read += len(printed)
        if printed and len(printed) == left:
            printed += b"\n(more was printed on this host)\n"
        return News(code, printed, messages)

    def files(self) -> dict[str, bytes]:
        """The files that the processes have left: stacks, and what they recorded."""
        files = (path for path in self._here.iterdir() if path.is_file())
        return {path.name: head_of(path, _MOST_OF_A_FILE) for path in files}


def _folder_here(folder: Path) -> Path:
    return folder if folder.is_dir() else Path.home()


def _as_without_ray() -> None:
    """Let ranks find what they would find without Ray: their modules, and their environment."""
    if ray := sys.modules.get("ray"):
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(ray.__path__[0])]
    # Ray sets it for its own processes, where no one else has.
    if not has_variable(os.getpid(), "OMP_NUM_THREADS"):
        os.environ.pop("OMP_NUM_THREADS", None)


def _devices(gpus: Sequence[int]) -> list[dict[str, str]]:
    """What shows each rank its share of the GPUs that Ray has given to this host's ranks."""
    if not any(gpus):  # ranks see what the host sees
        return [{} for _ in gpus]
    here = [device for device in os.environ.get(_CUDA, "").split(",") if device]
    shares = [here[sum(gpus[:place]) :][:count] for place, count in enumerate(gpus)]
    return [{_CUDA: ",".join(share)} for share in shares]


def _own_addresses() -> dict[str, str]:
    """The IPv4 addresses of this host, and the interface of each."""
    found = array.array("B", bytes(_BYTES_OF_ADDRESS * _MOST_ADDRESSES))
    request = struct.pack("iP", len(found), found.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        length = struct.unpack("iP", fcntl.ioctl(any_socket, _GET_ADDRESSES, request))[0]
    entries = struct.iter_unpack("16s4x4s16x", found.tobytes()[:length])
    return {socket.inet_ntoa(own): name.partition(b"\0")[0].decode() for name, own in entries}
