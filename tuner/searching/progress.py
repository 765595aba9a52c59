"""What a search tells its observer while it runs."""

from dataclasses import dataclass
from typing import Protocol

from tuner.decide.statistics import Interval
from tuner.study.records import Phase


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The strongest rival against the baseline, at the last look."""

    rival: str
    speedup: Interval
    """Baseline / rival, paired within blocks."""
    more_s: float | None
    """About how many more seconds would make the answer clear; None if nobody can tell, or if the
    race is over."""
    left_s: float
    """The seconds that were left for it."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Where a search is."""

    phase: Phase
    block: int
    """Blocks begun."""
    worlds: int
    """Worlds run in all sessions, calibrations included."""
    traced: int
    """Configurations that have been traced."""
    configs: int
    """Configurations of the plan, the baseline included."""
    survivors: int
    """Configurations that the next block measures."""
    leader: str | None
    leader_value: float | None
    """In the objective's unit."""
    unit: str
    remaining_s: float
    until_clear: bool = False
    """Whether the time that remains need not be spent."""
    looks: int = 0
    """Looks taken."""
    compared: Compared | None = None
    """None before the first look."""


class Observer(Protocol):
    """Watches a search. It must be quick; it is never called while a world runs."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The search is here now."""

    def on_event(self, message: str) -> None:
        """Something worth a line: a configuration failed or was eliminated, or a phase began."""


class Silent:
    """An observer that watches nothing."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def on_event(self, message: str) -> None:
        """Nothing."""
