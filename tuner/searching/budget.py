"""The wall time that a study may take, over all its sessions, and what it leaves to a world."""

from collections.abc import Callable
from dataclasses import dataclass

from tuner.plan.measuring import LEAST_START_S

# A world that is ended takes so long to end.
END_S = 2.0
# A world that takes longer than this share of the budget leaves no time to compare it with others.
LONGEST_SHARE = 1 / 3
LEAST_FIRST_S = 1.0
"""Seconds without which a first world is not begun: it could only run into their end."""


def first_world_s(budget_s: float, spent_s: float) -> float:
    """How long a study's first world may take, after so much was spent to set it up."""
    longest_s = longest_world_s(budget_s)
    return min(longest_s, max(0.0, budget_s + longest_s + END_S - spent_s))


def longest_world_s(budget_s: float) -> float:
    """How long a world may take while none has run: of a budget that no such world fits into."""
    return max(LEAST_START_S, LONGEST_SHARE * budget_s)


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

    @property
    def is_spent(self) -> bool:
        """Whether no further world may begin."""
        return self.remaining_s <= 0

    def deadline_s(self, usual_s: float) -> float:
        """How long a world may take that begins now: what is left, and a usual world beyond it.

        Args:
            usual_s: How long a world usually takes, in seconds.
        """
        return max(0.0, self.remaining_s) + usual_s + END_S
