"""Which blocks others disturbed: counts by block, so that asking takes the same time ever."""

from dataclasses import dataclass, field

from tuner.study.records import Record
from tuner.world.measurement import Failure


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
