"""Blocks that several groups measure at the same time, as a study's one controller sees them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tuner.errors import LauncherError, StorageLostError
from tuner.searching.group_threads import BlockWorld, GroupMessage, Groups, Limits
from tuner.searching.progress_reports import GroupState, Observer
from tuner.searching.runner import Runner
from tuner.study.log import StudyLog
from tuner.study.records import Phase, Record
from tuner.study.storage.store import StudyStore
from tuner.text import plural
from tuner.world.measurement import Outcome

OPEN = "open_blocks"


class Keeper(Limits, Protocol):
    """What takes in the worlds and the blocks that groups have measured."""

    def keep(self, record: Record) -> None:
        """Keep an outcome, without notifying the observer."""

    def add(self, record: Record) -> None:
        """Keep an outcome, and notify the observer."""

    def end_block(self, block: int, trials: Sequence[int]) -> None:
        """A block of these trials is finished."""


class ParallelBlocks:
    """Has free groups begin blocks, and takes in what they measure.

    Args:
        runner: Runs worlds of the study; its launcher may have groups.
        log: What is known.
        store: Keeps it.
        observer: Is notified of groups that are lost.
        keeper: Takes in what is measured.
    """

    def __init__(
        self, runner: Runner, log: StudyLog, store: StudyStore, observer: Observer, keeper: Keeper
    ) -> None:
        self._groups = Groups(runner.by_group())
        self._log = log
        self._store = store
        self._observer = observer
        self._keeper = keeper
        self._phase: Phase = "race"
        self._columns: dict[int, Sequence[int]] = {}
        """The columns of each block that is being measured."""
        self._done: dict[int, int] = {}
        """How many worlds each of them has had."""
        self._left: set[int] = set()
        """The blocks that an earlier session left open, until they are gone on with."""

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def free(self) -> list[int]:
        """The groups that can begin a block."""
        return self._groups.free

    def begin(
        self, group: int, phase: Phase, block: int, columns: Sequence[int], worlds: list[BlockWorld]
    ) -> None:
        """Have a free group measure these columns of a block, which is new, or goes on."""
        self._phase = phase
        self._columns[block], self._done[block] = columns, 0
        self._left.discard(block)
        self._note_open()
        self._log.rows.open(phase, block)
        self._groups.start(group, block, worlds, self._keeper)

    def receive(self) -> None:
        """Keep what the groups measure, until one of them comes to the end of its block."""
        while self._groups.blocks:
            message = self._groups.receive()
            if not message.is_end:
                record = self._record(message)
                self._done[message.block] += not record.is_repeated
                if self._is_wanted(message):
                    self._keeper.add(record)
                continue
            if message.lost is not None:
                self.drop(message.block)
                self._forget(message.block)
                self._report_lost(message.group, message.lost)
            else:
                self._log.rows.close(message.block)
                self._keeper.end_block(message.block, self._forget(message.block))
            return

    def finish(self) -> None:
        """Wait until every group has finished its block."""
        while self._groups.blocks:
            self.receive()

    def drop_running(self) -> None:
        """Have the blocks that are being measured count no more, and end their worlds.

        Who asks for it knows nothing of their times.
        """
        if blocks := sorted(self._groups.blocks.values()):
            self._groups.cancel()
            self.drop(*blocks)
            for block in blocks:
                self._forget(block)

    def close(self) -> None:
        """End what runs, and keep what was measured. A resumed session finishes these blocks."""
        for message in filter(self._is_wanted, self._groups.close()):
            # If the storage is away, the write-ahead log has it, and who closes knows already.
            with suppress(StorageLostError):
                self._keeper.keep(self._record(message))

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
            group = self._groups.living[0]
            try:
                outcome = do(self._groups.runner(group))
            except LauncherError as error:
                if len(self) == 1:
                    raise
                self._groups.lose(group)
                self._report_lost(group, error)
            else:
                return outcome, group + 1 if len(self) > 1 else None

    def states(self) -> tuple[GroupState, ...]:
        """Where each of several groups is."""
        if len(self) == 1:
            return ()
        blocks, living = self._groups.blocks, self._groups.living
        found = []
        for group in range(len(self)):
            block = blocks.get(group)
            done = worlds = 0
            if block is not None:
                done, worlds = self._done[block], len(self._columns[block])
            found.append(GroupState(group + 1, block, done, worlds, group not in living))
        return tuple(found)

    def _is_wanted(self, message: GroupMessage) -> bool:
        """Whether it is a world that says something."""
        world, outcome = message.world, message.outcome
        if world is None or outcome is None:
            return False
        return not self._keeper.times.is_cut_short(outcome, world.deadline_s, message.left_s)

    def _record(self, message: GroupMessage) -> Record:
        assert message.world is not None
        assert message.outcome is not None
        return message.world.record(message.block, self._phase, message.outcome, message.group + 1)

    def _forget(self, block: int) -> Sequence[int]:
        self._done.pop(block, None)
        columns = self._columns.pop(block, ())
        self._note_open()
        return columns

    def _note_open(self) -> None:
        """Say which blocks a later session has to finish."""
        self._store.note(OPEN, sorted({*self._columns, *self._left}))

    def _report_lost(self, group: int, why: LauncherError) -> None:
        living = len(self._groups.living)
        if not living:
            raise LauncherError(f"the last of {plural(len(self), 'group')} is lost: {why}") from why
        self._observer.on_event(
            f"group {group + 1} is lost: {why}; its block does not count, and {living} of "
            f"{plural(len(self), 'group')} go on"
        )
