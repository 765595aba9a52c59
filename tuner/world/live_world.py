"""A world while it runs: what its ranks report, when it goes on, and how it ends."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tuner.world.failure_evidence import with_evidence
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement, RankUsage
from tuner.world.postmortem import RankRecord, root_cause, starvation
from tuner.world.rank.rank_channel import Message

# Worlds are done in about a second; one that is not may be stuck, and is probed.
PROBE_AFTER_S = 3.0
PROBE_EVERY_S = 1.0
# After the first failure is reported, this long is left for the one that caused it to be reported.
GRACE_S = 0.3
# A rank that has shut down RPC has this long to leave by itself.
EXIT_S = 1.0


class RankProcesses(Protocol):
    """The ranks of one world."""

    names: list[str]
    """Their RPC names, in rank order."""
    pids: list[int | None]
    """Their process ids, in rank order; None for a rank that is not on rank 0's host."""

    def poll(self, timeout_s: float) -> list[Message]:
        """Every message and every death that comes, once there is one, or the time is over."""

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """Send a message, unless the rank is gone already."""

    def join(self, timeout_s: float) -> None:
        """Wait until the processes have left by themselves, for so long at most."""

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """Have these ranks write their threads' stacks, which they do without the GIL."""

    def captured(self) -> Sequence[Path]:
        """Files of what the ranks printed, and of their stacks."""


class LiveWorld:
    """Drives one world, whose first rank was started then, from its first message to its last."""

    def __init__(self, ranks: RankProcesses, order: WorldOrder, started: float) -> None:
        self._ranks = ranks
        self._order = order
        self._started = started
        self._records = [RankRecord(name) for name in ranks.names]
        self._result: dict[str, Any] = {}
        self._is_going = self._is_stopping = False

    def run(self) -> Measurement | Failure:
        """Wait for the world to finish, fail, or pass its deadline."""
        deadline = self._started + self._order.deadline_s
        next_probe = self._started + PROBE_AFTER_S
        while not all(record.finished for record in self._records):
            now = time.monotonic()
            if now >= deadline:
                return self._fail(past_deadline=True)
            self._poll(min(deadline, next_probe) - now)
            self._advance()
            if any(record.failed for record in self._records):
                return self._fail()
            if time.monotonic() >= next_probe:
                next_probe += PROBE_EVERY_S
                if starvation(self._records):
                    return self._fail()
                self._send_all("probe")
        # Rank 0 may hold the store that the others still say goodbye to.
        self._ranks.send(0, {"kind": "leave"})
        self._ranks.join(EXIT_S)
        return self._measurement()

    def _poll(self, timeout_s: float) -> None:
        for rank, message in self._ranks.poll(max(0.0, timeout_s)):
            if message["kind"] == "result":
                self._result = message
            else:
                self._records[rank].take(message)

    def _send_all(self, kind: str) -> None:
        for rank in range(len(self._records)):
            self._ranks.send(rank, {"kind": kind})

    def _advance(self) -> None:
        if not self._is_going and all(record.phase == "ready" for record in self._records):
            self._is_going = True
            self._ranks.send(0, {"kind": "go", "pids": self._ranks.pids})
        if self._result and not self._is_stopping:
            self._is_stopping = True
            self._send_all("stop")

    def _measurement(self) -> Measurement:
        result = self._result
        return Measurement(
            step_s=tuple(result["step_s"]),
            steps=result["steps"],
            wall_s=result["wall_s"],
            world_s=time.monotonic() - self._started,
            tracing_overhead=result["tracing_overhead"],
            ranks=tuple(
                RankUsage(name=record.name, cpu_s=cpu_s, **record.usage)
                for record, cpu_s in zip(self._records, result["cpu_s"], strict=True)
            ),
        )

    def _fail(self, past_deadline: bool = False) -> Failure:
        """The root cause; what the ranks printed, and their stacks, are kept where asked for."""
        until = time.monotonic() + GRACE_S
        while (left_s := until - time.monotonic()) > 0:
            self._poll(left_s)
        alive = [rank for rank, record in enumerate(self._records) if record.exit_code is None]
        self._ranks.dump_stacks(alive)
        # What they said meanwhile; it is not waited for.
        self._poll(0)
        failure = root_cause(
            self._records,
            deadline_s=self._order.deadline_s if past_deadline else None,
            world_s=time.monotonic() - self._started,
        )
        folder = self._order.failure_folder
        if folder is None:
            return failure
        return with_evidence(failure, folder, self._ranks.captured(), self._order.config)
