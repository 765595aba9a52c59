"""The ranks of one world on this machine: their processes, and the channels to them."""

import os
import signal
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import orjson

from tuner.world.failure_evidence import give_up_middle
from tuner.world.live_world import DIED, SPOKEN, Message
from tuner.world.local.processes import Processes, end_orphans, end_process
from tuner.world.rank.entry import start_rank
from tuner.world.rank.task import RankTask

# Beyond all that a rank has to say, but a bound to what one can make the launcher hold.
MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 20
_LENGTH = struct.Struct("!i")
STACKS_S = 0.5
_POLL_S = 0.02
# How often to look at what ranks print, which may fill the disk.
LOOK_S = 1.0
CAPTURED = (".stdout", ".stderr", ".stacks")
"""How the names of the files end that a rank leaves in its world's folder."""


class Channel:
    """Reads the messages of a `multiprocessing` connection, whose other end sends JSON.

    A process may stop in the middle of a message, and one that never ends must not block others:
    what has come of a message is kept until the rest is there.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = bytearray()
        self.is_open = True
        """Whether anything may still come."""
        os.set_blocking(connection.fileno(), False)

    @property
    def connection(self) -> Connection:
        """What to wait for."""
        return self._connection

    def send(self, content: bytes) -> None:
        """Send a message. OSError if the other side is gone, or reads nothing."""
        self._connection.send_bytes(content)

    def messages(self) -> list[object]:
        """What has come in whole since the last time; no more once the other side is gone."""
        while self.is_open:
            try:
                part = os.read(self._connection.fileno(), _READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                self.is_open = False
            self._received += part
            if len(part) < _READ_BYTES:
                break
        found = []
        while (content := self._next()) is not None:
            try:
                found.append(orjson.loads(content))
            except orjson.JSONDecodeError:
                self.is_open = False  # nothing that follows can be relied upon
                break
        return found

    def awaited(self, seconds: float) -> object:
        """The next message. EOFError if there will be none; TimeoutError after so many seconds."""
        until = time.monotonic() + seconds
        while self.is_open and (left_s := until - time.monotonic()) > 0:
            wait([self._connection], left_s)
            if found := self.messages():
                return found[0]
        if self.is_open:
            raise TimeoutError
        raise EOFError

    def close(self) -> None:
        """Close this end."""
        self.is_open = False
        self._connection.close()

    def _next(self) -> bytes | None:
        """The first whole message, which is taken out; None if there is none."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + length
        if not 0 <= length <= MOST_BYTES:
            self.is_open = False
            self._received.clear()
            return None
        if len(self._received) < end:
            return None
        content = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return content


@dataclass
class _LiveRank:
    """One running rank."""

    rank: int
    name: str
    process: ForkServerProcess
    channel: Channel
    is_gone: bool = False

    def messages(self) -> list[Message]:
        """The messages that have come; what the workload may have sent itself is none."""
        return [
            Message(self.rank, each)
            for each in self.channel.messages()
            if isinstance(each, dict) and each.get("kind") in SPOKEN
        ]


class LocalRankProcesses:
    """See `tuner.world.live_world.RankProcesses`; of a world that is spread, the ranks of one host.

    Args:
        processes: Starts them.
        scratch: The world's folder, in which they leave what they print, and their stacks.
    """

    def __init__(self, processes: Processes, scratch: Path) -> None:
        self._processes = processes
        self._scratch = scratch
        self._ranks: list[_LiveRank] = []

    def start(self, tasks: Iterable[RankTask]) -> None:
        """Start a process for each task. LauncherError if there can be none."""
        for task in tasks:
            ours, theirs = self._processes.context.Pipe()
            process = self._processes.start(start_rank, (task, theirs))
            theirs.close()
            self._ranks.append(_LiveRank(task.rank, task.name, process, Channel(ours)))

    @property
    def names(self) -> Sequence[str]:
        """See `RankProcesses.names`."""
        return [each.name for each in self._ranks]

    @property
    def pids(self) -> Sequence[int | None]:
        """See `RankProcesses.pids`."""
        return [each.process.pid for each in self._ranks]

    def poll(self, timeout_s: float) -> list[Message]:
        """See `RankProcesses.poll`."""
        open_ends = [each.channel.connection for each in self._ranks if each.channel.is_open]
        # A rank's children may hold its end of the channel open, so its death is watched for too.
        sentinels = {each.process.sentinel: each for each in self._ranks if not each.is_gone}
        ready = wait([*open_ends, *sentinels], min(max(0.0, timeout_s), LOOK_S))
        found = [each for rank in self._ranks for each in rank.messages()]
        for file in self.captured():
            give_up_middle(file)
        for sentinel, rank in sentinels.items():
            if sentinel in ready:
                rank.process.join()
                rank.is_gone = True
                code = rank.process.exitcode
                message = {"kind": DIED, "exit_code": code, "time_ns": time.time_ns()}
                found.append(Message(rank.rank, message))
        return found

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """See `RankProcesses.send`."""
        for each in self._ranks:
            if each.rank == rank:
                with suppress(OSError, ValueError):
                    each.channel.send(orjson.dumps(message))

    def join(self, timeout_s: float) -> None:
        """See `RankProcesses.join`."""
        for each in self._ranks:
            each.process.join(timeout_s)

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """See `RankProcesses.dump_stacks`."""
        alive = [each for each in self._ranks if each.rank in ranks and each.process.is_alive()]
        files = [self._scratch / f"{each.name}.stacks" for each in alive]
        # A rank that has no such file has no handler yet, and the signal would end it.
        alive = [each for each, file in zip(alive, files, strict=True) if file.exists()]
        for each in alive:
            with suppress(ProcessLookupError):
                os.kill(each.process.pid or 0, signal.SIGUSR1)
        until = time.monotonic() + STACKS_S
        sizes: list[int] = []
        while time.monotonic() < until:
            before, sizes = sizes, [file.stat().st_size for file in files if file.exists()]
            if sizes and sizes == before and all(sizes):
                return
            time.sleep(_POLL_S)  # a file that grows sends no event

    def captured(self) -> Sequence[Path]:
        """See `RankProcesses.captured`."""
        try:
            return [each for each in sorted(self._scratch.iterdir()) if each.suffix in CAPTURED]
        except FileNotFoundError:
            return []  # the workload has removed it

    def kill(self) -> None:
        """Kill the ranks themselves; `end` does the rest."""
        for each in self._ranks:
            each.process.kill()

    def end(self) -> None:
        """See `RankProcesses.end`."""
        for each in self._ranks:
            end_process(each.process)
            each.channel.close()
        end_orphans()
