"""Which blocks others disturbed: counts by block, so that asking takes the same time ever."""

from dataclasses import dataclass, field

from tuner.study.records import Record
from tuner.world.measurement import Failure


@dataclass
class _Block:
    measured: int = 0
    disturbed: int = 0
    failed: int = 0


@dataclass
class Disturbances:
    """How many worlds others disturbed, by block and in all."""

    _blocks: dict[int, _Block] = field(default_factory=dict)
    _all: _Block = field(default_factory=_Block)

    def add(self, record: Record) -> None:
        """Count a world."""
        for count in (self._blocks.setdefault(record.block, _Block()), self._all):
            if isinstance(record.outcome, Failure):
                count.failed += 1
            else:
                count.measured += 1
                count.disturbed += record.outcome.is_disturbed

    def drop(self, block: int) -> None:
        """Count the worlds of a block no more."""
        if (gone := self._blocks.pop(block, None)) is not None:
            self._all.measured -= gone.measured
            self._all.disturbed -= gone.disturbed
            self._all.failed -= gone.failed

    def only_in(self, block: int) -> bool:
        """Whether a block without a failure has a disturbed world, and at most half of the others
        are."""
        here = self._blocks.get(block, _Block())
        elsewhere = self._all.measured - here.measured
        disturbed = self._all.disturbed - here.disturbed
        return not here.failed and here.disturbed > 0 and disturbed <= elsewhere / 2
