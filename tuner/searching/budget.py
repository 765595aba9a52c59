"""The wall time that a study may take, over all its sessions."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Budget:
    """Wall time, over all sessions of a study."""

    total_s: float
    spent_before_s: float
    """What earlier sessions spent."""
    started_s: float
    """When this session began, on `clock`."""
    clock: Callable[[], float]

    @property
    def spent_s(self) -> float:
        """Seconds spent so far."""
        return self.spent_before_s + self.clock() - self.started_s

    @property
    def remaining_s(self) -> float:
        """Seconds left; below zero when the budget is overdrawn."""
        return self.total_s - self.spent_s
