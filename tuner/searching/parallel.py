"""Blocks that several groups measure at once, each wholly by one of them. A group has a thread,
which only runs worlds: the study's one controller alone touches the log and the storage."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple

from tuner.errors import LauncherError, StorageLostError
from tuner.searching.measurer import Measurer, run_in_turn
from tuner.searching.progress_reports import GroupState, Observer
from tuner.searching.runner import Runner, TimedWorld
from tuner.searching.wall_time import Budget
from tuner.study.records import Record
from tuner.study.storage.store import StudyStore
from tuner.text import plural
from tuner.world.launcher import Stoppable, members_of
from tuner.world.measurement import Failure, Outcome

_ASK_S = 0.1  # a world is asked to stop again and again: the first time it may not have begun


@dataclass
class _Job:
    """A block that a group measures."""

    block: int
    columns: Sequence[int]
    worlds: Sequence[TimedWorld]
    done: int = 0  # how many worlds it has had
    is_cancelled: bool = False
    is_over: Event = field(default_factory=Event)  # set once the group runs nothing of it any more


@dataclass
class _Group:
    runner: Runner
    jobs: "SimpleQueue[_Job | None]" = field(default_factory=SimpleQueue)  # None ends the thread
    thread: Thread | None = None
    job: _Job | None = None
    is_lost: bool = False


class _Message(NamedTuple):
    """What a world has yielded, or the end of its block."""

    group: int
    job: _Job
    record: Record | None = None
    error: BaseException | None = None  # what ended the block; of a LauncherError also its group


class ParallelMeasurer(Measurer):
    """Has free groups begin blocks, and takes in what they measure."""

    def __init__(
        self, runner: Runner, store: StudyStore, observer: Observer, budget: Budget
    ) -> None:
        members = members_of(runner.launcher)
        self._groups = [_Group(replace(runner, launcher=each)) for each in members]
        super().__init__(runner, store, observer, budget)
        self._messages: SimpleQueue[_Message] = SimpleQueue()

    @property
    def _living(self) -> list[int]:
        return [number for number, each in enumerate(self._groups) if not each.is_lost]

    @property
    def _free(self) -> list[int]:
        """The groups that can begin a block, from 0."""
        return [number for number in self._living if self._groups[number].job is None]

    @property
    def _running(self) -> list[tuple[_Group, _Job]]:
        return [(each, each.job) for each in self._groups if each.job is not None]

    def measure_blocks(self, trials: Sequence[int]) -> None:
        """Have every free group begin a block, and wait until any group has finished one."""
        for group in self._free:
            if self.blocks_left(trials) >= 1:
                self._begin(group, self.log.next_block, trials)
        self._receive()
        self.note_elapsed()

    def finish_blocks(self) -> None:
        """Wait until every group has finished its block."""
        while self._running:
            self._receive()

    def drop_blocks(self) -> None:
        """Have the blocks that are being measured count no more, whatever their times."""
        if blocks := sorted(job.block for _, job in self._running):
            self._cancel()
            self._leave_out(*blocks)

    def close(self) -> None:
        """End what runs, and keep what was measured. A resumed session leaves these blocks out."""
        unreceived = self._cancel()
        for each in self._groups:
            if each.thread is not None:
                each.jobs.put(None)
                each.thread.join()
                each.thread = None
        for message in unreceived:
            # If the storage is away, the write-ahead log has it, and who closes knows already.
            with suppress(StorageLostError):
                if message.record is not None:
                    self.keep(message.record)

    def group_states(self) -> tuple[GroupState, ...]:
        """Where each group is."""
        return tuple(
            GroupState(number, job.block, job.done, len(job.columns), each.is_lost)
            if (job := each.job)
            else GroupState(number, None, 0, 0, each.is_lost)
            for number, each in enumerate(self._groups, 1)
        )

    def _begin(self, number: int, block: int, columns: Sequence[int]) -> None:
        """Have a free group measure these columns of a new block."""
        job = _Job(block, columns, self._worlds_of(columns, block))
        self._note_open(block)
        self.log.rows.open(self._phase, block)
        group = self._groups[number]
        if group.thread is None:
            # One thread for all of its blocks: what a thread starts may end with it (PDEATHSIG).
            # A daemon: a world that cannot be asked to stop must not keep the command.
            group.thread = Thread(target=self._work, args=(number,), daemon=True)
            group.thread.start()
        group.job = job
        group.jobs.put(job)

    def _receive(self) -> None:
        """Keep what the groups measure, until one of them comes to the end of its block."""
        while self._running:
            number, job, record, error = self._messages.get()
            if record is not None:
                job.done += not record.is_repeated
                self.add(record)
                continue
            self._groups[number].job = None
            if isinstance(error, LauncherError):
                self._leave_out(job.block)
                self._lose(number, error)
            elif error is not None:
                raise error
            else:
                self.log.rows.close(job.block)
                self._note_open()
                self._end_block(job.block, job.columns)
            return

    def _cancel(self) -> list[_Message]:
        """End the blocks that are being measured; returns what was not received of them."""
        running = self._running
        for _, job in running:
            job.is_cancelled = True
        for group, job in running:
            while not job.is_over.wait(_ASK_S):
                if isinstance(group.runner.launcher, Stoppable):
                    group.runner.launcher.stop()
            group.job = None
        return [self._messages.get() for _ in range(self._messages.qsize())]

    def _on_one(self, do: Callable[[Runner], Outcome]) -> tuple[Outcome, int | None]:
        while True:
            group = self._living[0]
            try:
                return do(self._groups[group].runner), group + 1
            except LauncherError as error:
                self._lose(group, error)

    def _note_open(self, *blocks: int) -> None:
        super()._note_open(*blocks, *(job.block for _, job in self._running))

    def _lose(self, number: int, why: LauncherError) -> None:
        self._groups[number].is_lost = True
        self._groups[number].job = None
        groups = plural(len(self._groups), "group")
        if not self._living:
            raise LauncherError(f"the last of {groups} is lost: {why}") from why
        self.observer.on_event(
            f"group {number + 1} is lost: {why}; its block does not count, and "
            f"{len(self._living)} of {groups} go on"
        )

    def _work(self, number: int) -> None:
        """Run the worlds of one block after the other; in a thread."""
        while (job := self._groups[number].jobs.get()) is not None:
            error: BaseException | None = None
            try:
                self._run_job(number, job)
            except BaseException as problem:
                error = problem
            if not job.is_cancelled:
                self._messages.put(_Message(number, job, error=error))
            job.is_over.set()

    def _run_job(self, number: int, job: _Job) -> None:
        runner = self._groups[number].runner

        def run(world: TimedWorld) -> Outcome | None:
            if job.is_cancelled or self._skips(world.trial):
                return None
            left_s = self.times.left_s()
            outcome = runner.run(world, left_s)
            if not job.is_cancelled:
                if not self.times.is_cut_short(outcome, world.deadline_s, left_s):
                    record = world.record(self._phase, outcome, number + 1)
                    self._messages.put(_Message(number, job, record))
                return outcome
            if isinstance(outcome, Failure):
                # It failed because it was ended, which is no evidence of anything.
                shutil.rmtree(runner.failure_folder(world), ignore_errors=True)
            return None

        run_in_turn(job.worlds, run)
