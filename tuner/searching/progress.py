"""What a search tells its observer while it runs."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

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
    is_decided: bool
    """Whether there is a verdict, and more blocks only make it more exact."""
    left_s: float
    """The seconds that were left for it."""


class GroupState(NamedTuple):
    """Where one of several groups is."""

    number: int
    """From 1."""
    block: int | None
    """The number of the block that it measures; None while it measures none."""
    worlds: int
    """The worlds that this block has had."""
    of: int
    """The worlds that it is to have."""
    is_lost: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Where a search is."""

    phase: Phase
    block: int
    """Blocks begun."""
    worlds: int
    """Worlds run in all sessions, calibrations included."""
    calibrated: int
    """Configurations that have had their first world."""
    traced: int
    """Configurations that have been traced."""
    configs: int
    """Configurations of the plan, the baseline included."""
    survivors: int
    """Configurations that the next block measures, or that can be traced."""
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
    groups: tuple[GroupState, ...] = ()
    """Of several groups, in their order; empty where there is one."""


class Observer(Protocol):
    """Watches a search. It must be quick: it is never called while a world runs, but for those of
    other groups."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The search is here now."""

    def on_event(self, message: str) -> None:
        """Something worth a line: a configuration failed or was eliminated, or a phase began."""


Stage = Literal["setting up", "drawing"]
"""What a search does before and after it measures."""


@runtime_checkable
class StageObserver(Protocol):
    """An observer that hears of the stages around the measuring, too."""

    def on_stage(self, stage: Stage) -> None:
        """The search begins this now."""


def tell_stage(observer: Observer, stage: Stage) -> None:
    """Tell an observer of a stage, if it hears of stages."""
    if isinstance(observer, StageObserver):
        observer.on_stage(stage)


class Silent:
    """An observer that watches nothing."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def on_event(self, message: str) -> None:
        """Nothing."""
