"""The ranks of one world on this machine: their processes, and the channels to them."""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import orjson

from tuner.world.bounded_files import give_up_middle
from tuner.world.crew import DIED, SPOKEN, Message
from tuner.world.local.line import Channel
from tuner.world.local.processes import Processes, end_orphans, end_process
from tuner.world.rank.entry import start_rank
from tuner.world.rank.task import RankTask

STACKS_S = 0.5
_POLL_S = 0.02
# How often to look at what ranks print, which may fill the disk.
LOOK_S = 1.0
CAPTURED = (".stdout", ".stderr", ".stacks")
"""How the names of the files end that a rank leaves in its world's folder."""


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
    """See `tuner.world.crew.RankProcesses`; of a world that is spread, the ranks of one host.

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
