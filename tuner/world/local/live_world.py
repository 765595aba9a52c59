"""A world while it runs: its processes, what they report, and how they are ended."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import orjson

from tuner.world.evidence import with_evidence
from tuner.world.launcher import WorldOrder
from tuner.world.local.processes import end_process
from tuner.world.measurement import Failure, Measurement, RankUsage
from tuner.world.postmortem import RankRecord, root_cause, starvation

# Worlds are done in about a second; one that is not may be stuck, and is probed.
PROBE_AFTER_S = 3.0
PROBE_EVERY_S = 1.0
# After a first failure is heard of, this long is left for the one that caused it to be heard of.
GRACE_S = 0.3
STACKS_S = 0.5
# A rank that has shut down RPC has this long to leave by itself.
EXIT_S = 1.0


@dataclass
class LiveRank:
    """One running rank, and what is known of it."""

    name: str
    process: ForkServerProcess
    connection: Connection
    record: RankRecord = field(init=False)
    open: bool = True

    def __post_init__(self) -> None:
        self.record = RankRecord(self.name)

    def send(self, kind: str, **fields: object) -> None:
        """Send a message, unless the rank is gone already."""
        with suppress(OSError, ValueError):
            self.connection.send_bytes(orjson.dumps({"kind": kind, **fields}))

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None once the rank has closed its end."""
        try:
            message: dict[str, Any] = orjson.loads(self.connection.recv_bytes())
        except (EOFError, OSError, orjson.JSONDecodeError):
            self.open = False
            return None
        return message


class LiveWorld:
    """Drives one world from its first message to its last process."""

    def __init__(
        self, ranks: list[LiveRank], order: WorldOrder, scratch: Path, started: float
    ) -> None:
        self._ranks = ranks
        self._order = order
        self._scratch = scratch
        self._started = started
        self._result: dict[str, Any] | None = None
        self._going = False

    def run(self) -> Measurement | Failure:
        """Wait for the world to finish, fail, or pass its deadline."""
        deadline = self._started + self._order.deadline_s
        next_probe = self._started + PROBE_AFTER_S
        while not all(rank.record.finished for rank in self._ranks):
            now = time.monotonic()
            if now >= deadline:
                return self._fail(past_deadline=True)
            self._hear(min(deadline, next_probe) - now)
            self._advance()
            if any(rank.record.failed for rank in self._ranks):
                return self._fail()
            if time.monotonic() >= next_probe:
                next_probe += PROBE_EVERY_S
                if starvation([rank.record for rank in self._ranks]):
                    return self._fail()
                for rank in self._ranks:
                    rank.send("probe")
        for rank in self._ranks:
            rank.process.join(EXIT_S)
        return self._measurement()

    def end_everything(self) -> None:
        """Kill what is left of the world: the ranks, and whatever they started."""
        for rank in self._ranks:
            end_process(rank.process)
            rank.connection.close()

    def _hear(self, timeout_s: float) -> None:
        """Take in every message and every death that comes within the time."""
        connections = {rank.connection: rank for rank in self._ranks if rank.open}
        # A rank's children may hold its end of the line open, so its death is watched for too.
        sentinels = {
            rank.process.sentinel: rank for rank in self._ranks if rank.record.exit_code is None
        }
        ready = wait([*connections, *sentinels], max(0.0, timeout_s))
        for connection, rank in connections.items():
            while rank.open and (connection in ready or connection.poll()):
                ready = [each for each in ready if each is not connection]
                if (message := rank.receive()) is not None:
                    self._take(rank, message)
        for sentinel, rank in sentinels.items():
            if sentinel in ready:
                rank.process.join()
                rank.record.died(rank.process.exitcode, time.time_ns())

    def _take(self, rank: LiveRank, message: dict[str, Any]) -> None:
        if message["kind"] == "result":
            self._result = message
        else:
            rank.record.take(message)

    def _advance(self) -> None:
        if not self._going and all(rank.record.phase == "ready" for rank in self._ranks):
            self._going = True
            self._ranks[0].send("go", pids=[rank.process.pid for rank in self._ranks])
        if self._result is not None and not self._result.get("stopped"):
            self._result["stopped"] = True
            for rank in self._ranks:
                rank.send("stop")

    def _measurement(self) -> Measurement:
        assert self._result is not None
        return Measurement(
            step_s=tuple(self._result["step_s"]),
            wall_s=self._result["wall_s"],
            world_s=time.monotonic() - self._started,
            tracing_overhead=self._result["tracing_overhead"],
            ranks=tuple(
                RankUsage(name=rank.name, cpu_s=cpu_s, **rank.record.usage)
                for rank, cpu_s in zip(self._ranks, self._result["cpu_s"], strict=True)
            ),
        )

    def _fail(self, past_deadline: bool = False) -> Failure:
        until = time.monotonic() + GRACE_S
        while (left_s := until - time.monotonic()) > 0:
            self._hear(left_s)
        self._dump_stacks()
        failure = root_cause(
            [rank.record for rank in self._ranks],
            deadline_s=self._order.deadline_s if past_deadline else None,
            world_s=time.monotonic() - self._started,
        )
        return self._with_evidence(failure)

    def _dump_stacks(self) -> None:
        """Have every living rank write its threads' stacks, which it does without the GIL."""
        alive = [rank for rank in self._ranks if rank.record.exit_code is None]
        files = [self._scratch / f"{rank.name}.stacks" for rank in alive]
        # A rank that has no such file has no handler yet, and the signal would end it.
        alive = [rank for rank, file in zip(alive, files, strict=True) if file.exists()]
        for rank in alive:
            with suppress(ProcessLookupError):
                os.kill(rank.process.pid or 0, signal.SIGUSR1)
        until = time.monotonic() + STACKS_S
        sizes: list[int] = []
        while time.monotonic() < until:
            before, sizes = sizes, [file.stat().st_size for file in files if file.exists()]
            if sizes and sizes == before and all(sizes):
                return
            self._hear(0.02)

    def _with_evidence(self, failure: Failure) -> Failure:
        """Keep what the ranks printed and their stacks, where the order asks for it."""
        if self._order.failure_folder is None:
            return failure
        captured = [each for each in sorted(self._scratch.iterdir())
                    if each.suffix in (".stdout", ".stderr", ".stacks")]  # fmt: skip
        return with_evidence(failure, self._order.failure_folder, captured, self._order.config)
