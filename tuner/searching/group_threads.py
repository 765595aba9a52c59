"""Groups that measure blocks at the same time: a thread each, which only runs worlds.

What a world yields goes to the one controller, which alone knows the study. A thread touches
neither the log nor the storage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, Protocol

from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.searching.budget import WorldTimes
from tuner.searching.runner import Runner
from tuner.study.records import Phase, Record, is_repeated
from tuner.world.launcher import Stoppable
from tuner.world.measurement import Failure, Measurement

# A world is asked to stop again and again: the first time it may not have begun.
_ASK_S = 0.1


class BlockWorld(NamedTuple):
    """One world of a block that is to be run."""

    trial: int
    again: bool
    """Whether it is the baseline's second world in its block."""
    config: Config
    steps: int | None
    deadline_s: float
    attempt: int = 0
    """How many worlds in its place failed before it."""

    def run_by(self, runner: Runner, block: int, deadline_s: float) -> Measurement | Failure:
        """Run it."""
        return runner.run(
            self.config, block, self.steps, deadline_s, again=self.again, attempt=self.attempt
        )

    def record(
        self, block: int, phase: Phase, outcome: Measurement | Failure, group: int | None
    ) -> Record:
        """What is kept of it, once it has run."""
        return Record(
            trial=self.trial,
            block=block,
            phase=phase,
            outcome=outcome,
            again=self.again,
            group=group,
            attempt=self.attempt,
        )

    def repeats(self, outcome: Measurement | Failure) -> "list[BlockWorld]":
        """The world that takes its place in its block if it failed; none if it hung, or has failed
        enough.

        So a block stays complete, and its worlds paired, where a program fails now and then.
        """
        again = is_repeated(outcome, self.attempt)
        return [self._replace(attempt=self.attempt + 1)] if again else []


@dataclass(frozen=True, kw_only=True)
class GroupMessage:
    """What a group reports: the outcome of a world, or the end of its block."""

    group: int
    """From 0."""
    block: int
    world: BlockWorld | None = None
    outcome: Measurement | Failure | None = None
    left_s: float = math.inf
    """What was left of the budget for it."""
    lost: LauncherError | None = None
    """Why this group can run no more worlds."""
    error: BaseException | None = None
    """What was raised in the thread unexpectedly."""

    @property
    def is_end(self) -> bool:
        """Whether the group has come to the end of its block."""
        return self.outcome is None


class Limits(Protocol):
    """What may have changed since a block began; asked in threads, before each world."""

    def skips(self, trial: int) -> bool:
        """Whether a trial needs no further world."""

    @property
    def times(self) -> WorldTimes:
        """How long worlds may take."""


@dataclass
class _Job:
    block: int
    worlds: Sequence[BlockWorld]
    limits: Limits
    is_cancelled: bool = False
    is_over: Event = field(default_factory=Event)
    """Set once the group runs nothing of it any more."""


@dataclass
class _Group:
    runner: Runner
    jobs: "SimpleQueue[_Job | None]" = field(default_factory=SimpleQueue)
    """None ends the thread."""
    thread: Thread | None = None
    job: _Job | None = None
    """The block that it measures."""
    is_lost: bool = False


class Groups:
    """Has blocks measured by several groups at the same time, each wholly by one of them.

    Args:
        runners: What runs the worlds of each group.
    """

    def __init__(self, runners: Sequence[Runner]) -> None:
        self._groups = [_Group(runner) for runner in runners]
        self._messages: SimpleQueue[GroupMessage] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def living(self) -> list[int]:
        """The groups that are not lost."""
        return [number for number, each in enumerate(self._groups) if not each.is_lost]

    @property
    def free(self) -> list[int]:
        """The living groups that measure no block."""
        return [number for number in self.living if self._groups[number].job is None]

    @property
    def blocks(self) -> dict[int, int]:
        """The block that each group measures, for those that measure one."""
        known = enumerate(self._groups)
        return {number: each.job.block for number, each in known if each.job is not None}

    def runner(self, group: int) -> Runner:
        """What runs the worlds of a group, while it measures no block."""
        return self._groups[group].runner

    def lose(self, group: int) -> None:
        """Give a group no more blocks."""
        self._groups[group].is_lost = True
        self._groups[group].job = None

    def start(self, group: int, block: int, worlds: Sequence[BlockWorld], limits: Limits) -> None:
        """Have a free group measure a block, in this order.

        Args:
            group: Which.
            block: The number of the block.
            worlds: Its worlds.
            limits: What each of them may be.
        """
        chosen = self._groups[group]
        if chosen.thread is None:
            # A daemon: a world that cannot be asked to stop must not keep the command.
            chosen.thread = Thread(target=self._work, args=(group,), daemon=True)
            chosen.thread.start()
        chosen.job = _Job(block, worlds, limits)
        chosen.jobs.put(chosen.job)

    def receive(self) -> GroupMessage:
        """What a group reports next. An unexpected exception of its thread is raised here."""
        message = self._messages.get()
        if message.is_end:
            self._groups[message.group].job = None
        if message.lost is not None:
            self.lose(message.group)
        if message.error is not None:
            raise message.error
        return message

    def cancel(self) -> list[GroupMessage]:
        """End the blocks that are being measured, and wait until nothing of them runs.

        Returns:
            The outcomes of their worlds that `receive` has not returned; a world that was ended has
            none.
        """
        running = [each for each in self._groups if each.job is not None]
        for each in running:
            if each.job is not None:
                each.job.is_cancelled = True
        for each in running:
            while each.job is not None and not each.job.is_over.wait(_ASK_S):
                if isinstance(each.runner.launcher, Stoppable):
                    each.runner.launcher.stop()
            each.job = None
        unreceived: list[GroupMessage] = []
        while True:
            try:
                message = self._messages.get_nowait()
            except Empty:
                return [each for each in unreceived if not each.is_end]
            unreceived.append(message)

    def close(self) -> list[GroupMessage]:
        """`cancel`, for good: the threads end, too."""
        unreceived = self.cancel()
        for each in self._groups:
            if each.thread is not None:
                each.jobs.put(None)
                each.thread.join()
                each.thread = None
        return unreceived

    def _work(self, number: int) -> None:
        """Run the worlds of one block after the other; in a thread."""
        while (job := self._groups[number].jobs.get()) is not None:
            lost: LauncherError | None = None
            error: BaseException | None = None
            try:
                self._run(number, job)
            except LauncherError as problem:
                lost = problem
            except BaseException as problem:
                error = problem
            if not job.is_cancelled:
                self._messages.put(
                    GroupMessage(group=number, block=job.block, lost=lost, error=error)
                )
            job.is_over.set()

    def _run(self, number: int, job: _Job) -> None:
        runner, left = self._groups[number].runner, [*job.worlds]
        while left and not job.is_cancelled:
            world = left.pop(0)
            if job.limits.skips(world.trial):
                continue
            left_s = job.limits.times.left_s()
            deadline_s = min(world.deadline_s, left_s)
            outcome = world.run_by(runner, job.block, deadline_s)
            if not job.is_cancelled:
                left += world.repeats(outcome)
                self._messages.put(
                    GroupMessage(
                        group=number, block=job.block, world=world, outcome=outcome, left_s=left_s
                    )
                )
            elif isinstance(outcome, Failure):
                # It failed because it was ended, which is no evidence of anything.
                runner.forget_failure(
                    world.config, job.block, again=world.again, attempt=world.attempt
                )
