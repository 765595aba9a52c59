"""Blocks that several groups measure at the same time, each wholly by one of them.

A group has a thread, which only runs worlds. What these yield goes to the study's one controller,
which alone touches the log and the storage.
"""

import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, Protocol

from tuner.errors import LauncherError, StorageLostError
from tuner.plan.config import Config
from tuner.searching.budget import WorldTimes
from tuner.searching.progress_reports import GroupState, Observer
from tuner.searching.runner import Runner
from tuner.study.log import StudyLog
from tuner.study.records import Phase, Record, is_repeated
from tuner.study.storage.store import StudyStore
from tuner.text import plural
from tuner.world.launcher import Stoppable, members_of
from tuner.world.measurement import Failure, Outcome

OPEN = "open_blocks"
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

    def run_by(self, runner: Runner, block: int, deadline_s: float) -> Outcome:
        """Run it."""
        return runner.run(
            self.config, block, self.steps, deadline_s, again=self.again, attempt=self.attempt
        )

    def record(self, block: int, phase: Phase, outcome: Outcome, group: int | None) -> Record:
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

    def repeats(self, outcome: Outcome) -> "list[BlockWorld]":
        """The world that takes its place, if it failed and did not hang, nor has failed enough.

        So a block stays complete, and its worlds paired, where a program fails now and then.
        """
        again = is_repeated(outcome, self.attempt)
        return [self._replace(attempt=self.attempt + 1)] if again else []


class Keeper(Protocol):
    """Takes in what groups measure. Threads ask it what may have changed, before each world."""

    @property
    def times(self) -> WorldTimes:
        """How long worlds may take."""

    def skips(self, trial: int) -> bool:
        """Whether a trial needs no further world."""

    def keep(self, record: Record) -> None:
        """Keep an outcome, without notifying the observer."""

    def add(self, record: Record) -> None:
        """Keep an outcome, and notify the observer."""

    def end_block(self, block: int, trials: Sequence[int]) -> None:
        """A block of these trials is finished."""


@dataclass
class _Job:
    """A block that a group measures."""

    block: int
    columns: Sequence[int]
    worlds: Sequence[BlockWorld]
    done: int = 0
    """How many worlds it has had."""
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
    is_lost: bool = False


class _Message(NamedTuple):
    """The outcome of a world, or the end of its block."""

    group: int
    job: _Job
    world: BlockWorld | None = None
    outcome: Outcome | None = None
    left_s: float = math.inf
    """What was left of the budget for the world."""
    error: BaseException | None = None
    """What ended the thread; a LauncherError: this group can run no more worlds."""


class ParallelBlocks:
    """Has free groups begin blocks, and takes in what they measure."""

    def __init__(
        self, runner: Runner, log: StudyLog, store: StudyStore, observer: Observer, keeper: Keeper
    ) -> None:
        members = members_of(runner.launcher)
        self._groups = [_Group(replace(runner, launcher=each)) for each in members]
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._log, self._store, self._observer, self._keeper = log, store, observer, keeper
        self._phase: Phase = "race"
        self._left: set[int] = set()
        """The blocks that an earlier session left open, until they are gone on with."""

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def free(self) -> list[int]:
        """The groups that can begin a block, from 0."""
        return [number for number in self._living if self._groups[number].job is None]

    @property
    def _living(self) -> list[int]:
        return [number for number, each in enumerate(self._groups) if not each.is_lost]

    @property
    def _running(self) -> list[tuple[_Group, _Job]]:
        return [(each, each.job) for each in self._groups if each.job is not None]

    def begin(
        self, group: int, phase: Phase, block: int, columns: Sequence[int], worlds: list[BlockWorld]
    ) -> None:
        """Have a free group measure these columns of a block, which is new, or goes on."""
        self._phase = phase
        self._left.discard(block)
        self._note_open(block)
        self._log.rows.open(phase, block)
        self._start(group, _Job(block, columns, worlds))

    def _start(self, number: int, job: _Job) -> None:
        group = self._groups[number]
        if group.thread is None:
            # One thread for all of its blocks: what a thread starts may end with it (PDEATHSIG).
            # A daemon: a world that cannot be asked to stop must not keep the command.
            group.thread = Thread(target=self._work, args=(number,), daemon=True)
            group.thread.start()
        group.job = job
        group.jobs.put(job)

    def receive(self) -> None:
        """Keep what the groups measure, until one of them comes to the end of its block.

        An unexpected exception of a group's thread is raised here.
        """
        while self._running:
            message = self._messages.get()
            job, error = message.job, message.error
            if message.world is not None:
                record = self._record(message)
                job.done += not record.is_repeated
                if self._is_wanted(message):
                    self._keeper.add(record)
                continue
            self._groups[message.group].job = None
            if isinstance(error, LauncherError):
                self.drop(job.block)
                self._note_open()
                self._lose(message.group, error)
            elif error is not None:
                raise error
            else:
                self._log.rows.close(job.block)
                self._note_open()
                self._keeper.end_block(job.block, job.columns)
            return

    def finish(self) -> None:
        """Wait until every group has finished its block."""
        while self._running:
            self.receive()

    def drop_running(self) -> None:
        """Have the blocks that are being measured count no more, and end their worlds.

        Who asks for it knows nothing of their times.
        """
        if blocks := sorted(job.block for _, job in self._running):
            self._cancel()
            self.drop(*blocks)
            self._note_open()

    def close(self) -> None:
        """End what runs, and keep what was measured. A resumed session finishes these blocks."""
        unreceived = self._cancel()
        for each in self._groups:
            if each.thread is not None:
                each.jobs.put(None)
                each.thread.join()
                each.thread = None
        for message in filter(self._is_wanted, unreceived):
            # If the storage is away, the write-ahead log has it, and who closes knows already.
            with suppress(StorageLostError):
                self._keeper.keep(self._record(message))

    def _cancel(self) -> list[_Message]:
        """End the blocks that are being measured, and wait until nothing of them runs.

        What their worlds have yielded and was not received is returned; a world that was ended
        yields nothing.
        """
        running = self._running
        for _, job in running:
            job.is_cancelled = True
        for group, job in running:
            while not job.is_over.wait(_ASK_S):
                if isinstance(group.runner.launcher, Stoppable):
                    group.runner.launcher.stop()
            group.job = None
        unreceived: list[_Message] = []
        with suppress(Empty):
            while True:
                unreceived.append(self._messages.get_nowait())
        return unreceived

    def drop(self, *blocks: int) -> None:
        """Have blocks that no group finishes count no more, now and in later sessions."""
        self._left.difference_update(blocks)
        self._log.drop(*blocks)
        self._store.note("dropped", self._log.dropped)

    def left_open(self, phase: Phase, columns: Sequence[int]) -> list[tuple[int, list[int]]]:
        """The blocks that an earlier session began, each with those of its columns that it left.

        With one group that is known of the last block alone.
        """
        measured = [*self._log.rows.measured(phase).items()]
        if len(self) == 1:
            measured = measured[-1:]
        else:
            # A slow group's may have begun before many that others have finished.
            noted = self._store.noted(OPEN) or ()
            measured = [each for each in measured if each[0] in noted]
        left = [(block, [c for c in columns if c not in done]) for block, done in measured]
        found = [each for each in left if each[1]]
        self._left = {block for block, _ in found}
        return found

    def group_of(self, block: int) -> int:
        """Which group began a block, from 0; -1 if that is not known."""
        known = (each.group for each in self._log.records if each.block == block)
        return (next(known, None) or 0) - 1

    def on_one(self, do: Callable[[Runner], Outcome]) -> tuple[Outcome, int | None]:
        """What the first group yields that is not lost; and which that is, from 1, of several."""
        while True:
            group = self._living[0]
            try:
                outcome = do(self._groups[group].runner)
            except LauncherError as error:
                if len(self) == 1:
                    raise
                self._lose(group, error)
            else:
                return outcome, group + 1 if len(self) > 1 else None

    def states(self) -> tuple[GroupState, ...]:
        """Where each of several groups is."""
        if len(self) == 1:
            return ()
        found = []
        for number, group in enumerate(self._groups, 1):
            job = group.job
            block, done, worlds = (job.block, job.done, len(job.columns)) if job else (None, 0, 0)
            found.append(GroupState(number, block, done, worlds, group.is_lost))
        return tuple(found)

    def _is_wanted(self, message: _Message) -> bool:
        """Whether it is a world that says something."""
        world, outcome = message.world, message.outcome
        if world is None or outcome is None:
            return False
        return not self._keeper.times.is_cut_short(outcome, world.deadline_s, message.left_s)

    def _record(self, message: _Message) -> Record:
        assert message.world is not None
        assert message.outcome is not None
        group = message.group + 1
        return message.world.record(message.job.block, self._phase, message.outcome, group)

    def _note_open(self, *beginning: int) -> None:
        """Note which blocks a later session has to finish."""
        running = (job.block for _, job in self._running)
        self._store.note(OPEN, sorted({*running, *beginning, *self._left}))

    def _lose(self, number: int, why: LauncherError) -> None:
        """Give a group no more blocks."""
        self._groups[number].is_lost = True
        self._groups[number].job = None
        if not self._living:
            raise LauncherError(f"the last of {plural(len(self), 'group')} is lost: {why}") from why
        self._observer.on_event(
            f"group {number + 1} is lost: {why}; its block does not count, and "
            f"{len(self._living)} of {plural(len(self), 'group')} go on"
        )

    def _work(self, number: int) -> None:
        """Run the worlds of one block after the other; in a thread."""
        while (job := self._groups[number].jobs.get()) is not None:
            error: BaseException | None = None
            try:
                self._run(number, job)
            except BaseException as problem:
                error = problem
            if not job.is_cancelled:
                self._messages.put(_Message(number, job, error=error))
            job.is_over.set()

    def _run(self, number: int, job: _Job) -> None:
        runner, left = self._groups[number].runner, [*job.worlds]
        while left and not job.is_cancelled:
            world = left.pop(0)
            if self._keeper.skips(world.trial):
                continue
            left_s = self._keeper.times.left_s()
            outcome = world.run_by(runner, job.block, min(world.deadline_s, left_s))
            if not job.is_cancelled:
                left += world.repeats(outcome)
                self._messages.put(_Message(number, job, world, outcome, left_s))
            elif isinstance(outcome, Failure):
                # It failed because it was ended, which is no evidence of anything.
                left_by_it = runner.folder.failure(
                    world.config, job.block, again=world.again, attempt=world.attempt
                )
                shutil.rmtree(left_by_it, ignore_errors=True)
