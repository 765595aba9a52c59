"""The life of a world: how it is watched, probed and ended, and what is kept of it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tuner.world.environment import MachineState
from tuner.world.launcher import RankTask, WorldOrder
from tuner.world.measurement import Failure, Measurement, RankUsage
from tuner.world.messages import RankMessage
from tuner.world.postmortem import RankRecord, root_cause, starvation, with_evidence

# Worlds are done in about a second; one that is not may be stuck, and is probed.
PROBE_AFTER_S = 3.0
PROBE_EVERY_S = 1.0
# After the first failure is reported, this long is left for the one that caused it to be reported.
GRACE_S = 0.3
# By so much at most a deadline is put off for what the tool itself does in the ranks.
MOST_HAND_OVER_S = 60.0
# A rank that has shut down RPC has this long to leave by itself.
EXIT_S = 1.0


class LiveWorld(ABC):
    """One world, from the start of its processes to the end of the last."""

    def __init__(self, order: WorldOrder) -> None:
        self._order = order
        self._started_s = time.monotonic()
        self._is_late = False
        self._machine: MachineState | None = None
        """What the machine did, once the world has ended."""

    def run(self) -> Measurement | Failure:
        """Start the processes, wait until the world has ended or must, and leave none behind."""
        try:
            self._start()
            self._watch()
            self._settle()
        finally:
            self._machine = self._end()
        outcome = self._outcome()
        if isinstance(outcome, Failure) and (captured := self._captured()) is not None:
            outcome = with_evidence(outcome, self._order, captured)
        return outcome.model_copy(update={"machine": self._machine})

    def _watch(self) -> None:
        deadline_s = self._started_s + self._order.deadline_s
        next_probe_s = self._started_s + PROBE_AFTER_S
        while not self._look(max(0.0, min(deadline_s, next_probe_s) - time.monotonic())):
            if (now_s := time.monotonic()) >= deadline_s:
                own_s = min(self._handed_over_s(), MOST_HAND_OVER_S)
                deadline_s = self._started_s + self._order.deadline_s + own_s
                if now_s >= deadline_s:
                    self._is_late = True
                    return
            if now_s >= next_probe_s:
                next_probe_s = now_s + PROBE_EVERY_S
                if self._probe():
                    return

    def _lasted_s(self) -> float:
        return time.monotonic() - self._started_s

    @abstractmethod
    def _handed_over_s(self) -> float:
        """By how much it lasts longer since its ranks hand over what they have recorded."""

    @abstractmethod
    def _start(self) -> None:
        """Start the processes. LauncherError if there can be none."""

    @abstractmethod
    def _look(self, timeout_s: float) -> bool:
        """Wait for news, so long at most; whether the world has ended, or is to end now."""

    @abstractmethod
    def _probe(self) -> bool:
        """Ask the ranks what they do; whether the world can come to no good end any more."""

    @abstractmethod
    def _settle(self) -> None:
        """Let the processes leave, or find out why the world failed, before they are ended."""

    @abstractmethod
    def _end(self) -> MachineState | None:
        """Kill what is left of the processes; what the machine did since their start."""

    @abstractmethod
    def _outcome(self) -> Measurement | Failure:
        """What came of it, once no process is left."""

    @abstractmethod
    def _captured(self) -> Sequence[Path] | None:
        """The files that show why it failed; None if no evidence is to be kept."""


class RankProcesses(Protocol):
    """The ranks of a workload's world, wherever they run."""

    def start(self, tasks: Sequence[RankTask]) -> Sequence[int | None]:
        """Start the ranks; their process ids, in rank order, None for a rank that is not on rank
        0's host. LauncherError if they cannot be started."""

    def poll(self, timeout_s: float) -> list[RankMessage]:
        """Every message and every death that comes, once there is one, or the time is over."""

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """Send a message, unless the rank is gone already."""

    def join(self, timeout_s: float) -> None:
        """Wait until the processes have left by themselves, for so long at most."""

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """Have these ranks write their threads' stacks, which they do without the GIL."""

    def captured(self) -> Sequence[Path]:
        """Files of what the ranks printed, and of their stacks."""

    def end(self) -> MachineState | None:
        """Kill what is left of them; what the machine did since their start."""


class RankWorld(LiveWorld):
    """A world of a workload: its ranks send messages, and are sent some."""

    def __init__(self, ranks: RankProcesses, order: WorldOrder, tasks: Sequence[RankTask]) -> None:
        super().__init__(order)
        self._ranks = ranks
        self._tasks = tasks
        self._records = [RankRecord(task.name) for task in tasks]
        self._result: dict[str, Any] = {}
        self._pids: Sequence[int | None] = ()
        self._is_going = self._is_stopping = self._has_finished = False
        self._world_s = 0.0
        self._files: Sequence[Path] = ()

    def _handed_over_s(self) -> float:
        return self._records[0].handed_over_s(time.time_ns())

    def _start(self) -> None:
        self._pids = self._ranks.start(self._tasks)

    def _look(self, timeout_s: float) -> bool:
        self._poll(timeout_s)
        if not self._is_going and all(record.phase == "ready" for record in self._records):
            self._is_going = True
            self._ranks.send(0, {"kind": "go", "pids": self._pids})
        if self._result and not self._is_stopping:
            self._is_stopping = True
            self._send_all("stop")
        self._has_finished = all(record.finished for record in self._records)
        return self._has_finished or any(record.failed for record in self._records)

    def _poll(self, timeout_s: float) -> None:
        for rank, message in self._ranks.poll(timeout_s):
            if message["kind"] == "result":
                self._result = message
            else:
                self._records[rank].take(message)

    def _send_all(self, kind: str) -> None:
        for rank in range(len(self._records)):
            self._ranks.send(rank, {"kind": kind})

    def _probe(self) -> bool:
        if starvation(self._records):
            return True
        self._send_all("probe")
        return False

    def _settle(self) -> None:
        if self._has_finished:
            # Rank 0 may hold the store that the others still say goodbye to.
            self._ranks.send(0, {"kind": "leave"})
            self._ranks.join(EXIT_S)
            self._world_s = self._lasted_s()
            return
        until_s = time.monotonic() + GRACE_S
        while (left_s := until_s - time.monotonic()) > 0:
            self._poll(left_s)
        alive = [rank for rank, record in enumerate(self._records) if record.exit_code is None]
        self._ranks.dump_stacks(alive)
        self._poll(0)  # what they said meanwhile
        self._world_s = self._lasted_s()
        if self._order.failure_folder is not None:
            self._files = self._ranks.captured()

    def _end(self) -> MachineState | None:
        return self._ranks.end()

    def _captured(self) -> Sequence[Path]:
        return self._files

    def _outcome(self) -> Measurement | Failure:
        if not self._has_finished:
            deadline_s = self._order.deadline_s if self._is_late else None
            return root_cause(self._records, deadline_s=deadline_s, world_s=self._world_s)
        result = self._result
        ranks = [
            RankUsage(name=record.name, cpu_s=cpu_s, **record.usage)
            for record, cpu_s in zip(self._records, result["cpu_s"], strict=True)
        ]
        told = {name: result[name] for name in ("step_s", "steps", "wall_s", "tracing_overhead")}
        return Measurement(ranks=tuple(ranks), world_s=self._world_s, **told)
