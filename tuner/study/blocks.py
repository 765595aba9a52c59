"""The blocks of a study: which are begun, which count, and what each has measured."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.decide.statistics import FloatArray
from tuner.study.records import TRACE_BLOCK, Phase, Record
from tuner.world.measurement import Failure

Costs = Sequence[float]
"""log(objective) of a world, its negative if more is better; and that of a second objective."""


class BlockRows:
    """What each block has measured of which column. Blocks are numbered as they begin.

    A block that is being measured does not count, and no later one does: so what is known of the
    race follows from its first blocks, whichever is finished first.
    """

    def __init__(self) -> None:
        self._begun: dict[Phase, dict[int, set[int]]] = {}
        """The columns that each block of a phase has measured."""
        self._failed: Counter[tuple[int, int]] = Counter()
        """How many worlds of a block and a column failed."""
        self._open: set[int] = set()
        self._rows: dict[Phase, dict[int, dict[int, Costs]]] = {}
        """What each block of a phase has measured, by column."""
        self._matrices: dict[tuple[tuple[Phase, ...], int, int], FloatArray] = {}

    def add(self, record: Record) -> None:
        """Note that a block has measured a column; or, after a failure, tried to."""
        begun = self._begun.setdefault(record.phase, {}).setdefault(record.block, set())
        if isinstance(record.outcome, Failure):
            self._failed[record.block, record.column] += 1
        if not record.is_repeated:
            begun.add(record.column)

    def put(self, record: Record, costs: Costs) -> None:
        """Take in what a block has measured of a column."""
        row = self._rows.setdefault(record.phase, {}).setdefault(record.block, {})
        row[record.column] = costs
        self._matrices.clear()

    def open(self, phase: Phase, block: int) -> None:
        """Begin a block, or go on with one."""
        self._begun.setdefault(phase, {}).setdefault(block, set())
        self._open.add(block)
        self._matrices.clear()

    def close(self, block: int) -> None:
        """End a block: it is finished."""
        self._open.discard(block)
        self._matrices.clear()

    def drop(self, blocks: Iterable[int]) -> None:
        """Forget these blocks."""
        for block in blocks:
            self._open.discard(block)
            for of_phase in (*self._begun.values(), *self._rows.values()):
                of_phase.pop(block, None)  # type: ignore[attr-defined]
        self._matrices.clear()

    def counts(self, block: int) -> bool:
        """Whether neither this block nor one before it is being measured."""
        return not self._open or block < min(self._open)

    def failed(self, block: int, column: int) -> int:
        """How many worlds of a column failed in a block."""
        return self._failed[block, column]

    def begun(self, phase: Phase) -> int:
        """The number of blocks of a phase, those that are being measured included."""
        return len(self._begun.get(phase, {}))

    @property
    def traced(self) -> int:
        """The number of trials that have been traced, with or without success."""
        return len(self._begun.get("trace", {}).get(TRACE_BLOCK, ()))

    def measured(self, phase: Phase) -> dict[int, set[int]]:
        """The columns that each block of a phase has measured, in the order of the blocks."""
        return dict(sorted(self._begun.get(phase, {}).items()))

    @property
    def highest(self) -> int:
        """The highest number of a block of any phase; -1 where there is none."""
        return max((max(blocks) for blocks in self._begun.values() if blocks), default=-1)

    def matrix(self, phases: tuple[Phase, ...], trials: int, objective: int) -> FloatArray:
        """The rows of the blocks that count, in order; NaN where nothing was measured.

        Args:
            phases: Whose blocks.
            trials: How many there are.
            objective: Whether it is the study's first one, 0, or its second one, 1.

        Returns:
            Blocks x (trials + 1), the last column for the baseline's second world.
        """
        key = phases, trials, objective
        if key in self._matrices:
            return self._matrices[key]
        rows = {
            block: row
            for phase in phases
            for block, row in self._rows.get(phase, {}).items()
            if self.counts(block)
        }
        found = np.full((len(rows), trials + 1), np.nan)
        for place, block in enumerate(sorted(rows)):
            found[place, list(rows[block])] = [costs[objective] for costs in rows[block].values()]
        self._matrices[key] = found
        return found


@dataclass
class _Block:
    measured: int = 0
    disturbed: int = 0


@dataclass
class Disturbances:
    """How many worlds others disturbed, by block and in all."""

    _blocks: dict[int, _Block] = field(default_factory=dict)
    _all: _Block = field(default_factory=_Block)

    def add(self, record: Record) -> None:
        """Count a world; one that failed says nothing of the times in its block."""
        if isinstance(record.outcome, Failure):
            return
        for count in (self._blocks.setdefault(record.block, _Block()), self._all):
            count.measured += 1
            count.disturbed += record.outcome.is_disturbed

    def drop(self, block: int) -> None:
        """Count the worlds of a block no more."""
        if (gone := self._blocks.pop(block, None)) is not None:
            self._all.measured -= gone.measured
            self._all.disturbed -= gone.disturbed

    def only_in(self, block: int) -> bool:
        """Whether a block has a disturbed world, and at most half of the others are disturbed."""
        here = self._blocks.get(block, _Block())
        elsewhere = self._all.measured - here.measured
        disturbed = self._all.disturbed - here.disturbed
        return here.disturbed > 0 and disturbed <= elsewhere / 2
