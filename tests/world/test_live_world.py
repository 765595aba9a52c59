"""How long a world may last, without processes."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from testing.fakes import UDF, FakeClock
from tuner.plan.config import Config
from tuner.world.environment import MachineState
from tuner.world.launcher import WorldOrder
from tuner.world.live_world import LiveWorld
from tuner.world.measurement import Failure, Measurement

DEADLINE_S = 10.0


class HandingOver(LiveWorld):
    """Its ranks hand over from 8 s after the start, for so long; then it is done."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        order = WorldOrder(subject=UDF, config=Config.of({}), deadline_s=DEADLINE_S)
        super().__init__(order)
        self.clock, self.seconds = clock, seconds

    def _start(self) -> None:
        pass

    def _look(self, timeout_s: float) -> bool:
        assert timeout_s >= 0
        self.clock.advance(0.5)
        return self._lasted_s() >= 8 + self.seconds

    def _handed_over_s(self) -> float:
        return min(self.seconds, max(0.0, self._lasted_s() - 8))

    def _probe(self) -> bool:
        return False

    def _settle(self) -> None:
        pass

    def _end(self) -> MachineState | None:
        return None

    def _captured(self) -> Sequence[Path] | None:
        return None

    def _outcome(self) -> Measurement | Failure:
        message = "late" if self._is_late else "done"
        return Failure(failure="timed-out", message=message, world_s=self._lasted_s())


@pytest.mark.parametrize(
    ("seconds", "message", "lasted_s"),
    [(0.0, "done", 8.0), (5.0, "done", 13.0), (300.0, "late", 70.0)],
)
def test_what_the_ranks_hand_over_puts_the_deadline_off(
    monkeypatch: pytest.MonkeyPatch, seconds: float, message: str, lasted_s: float
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(time, "monotonic", clock)
    outcome = HandingOver(clock, seconds).run()
    assert isinstance(outcome, Failure)
    assert outcome.message == message
    assert outcome.world_s == pytest.approx(lasted_s, abs=0.6)
