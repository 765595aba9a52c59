"""What a search reports to its observer while it runs, and who writes these reports."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.searching.wall_time import Budget
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import ahead_of, gains_of, strongest_rival
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, BLOCK_PHASES, StudyLog
from tuner.study.records import Phase, Record
from tuner.text import first_of, plural
from tuner.world.measurement import Failure
from tuner.world.postmortem import failure_signature

_MOST_NAMED = 3  # an event names no more than these


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The strongest rival against the baseline, at the last look."""

    rival: str
    speedup: Interval  # baseline / rival, paired within blocks
    is_decided: bool  # whether there is a verdict, and the race goes on only to make it more exact


class GroupState(NamedTuple):
    """Where one of several groups is."""

    number: int  # from 1
    block: int | None  # the number of the block that it measures; None while it measures none
    worlds: int  # the worlds that this block has had
    of: int  # the worlds that it is to have
    is_lost: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Where a search is."""

    phase: Phase
    block: int
    worlds: int  # worlds run in all sessions, calibrations included
    calibrated: int
    traced: int
    configs: int
    survivors: int  # configurations that the next block measures, or that can be traced
    ahead: tuple[Config, ...]  # the best one so far, and those that are not told apart from it
    ahead_value: float | None  # the best value, in the objective's unit
    unit: str
    remaining_s: float
    budget_s: float  # of which so much remains
    until_clear: bool = False  # whether the time that remains need not be spent
    looks: int = 0
    compared: Compared | None = None  # None before the first look
    groups: tuple[GroupState, ...] = ()  # empty where there is one


class Observer(Protocol):
    """Watches a search. It must be quick: no world runs meanwhile, but those of other groups."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The search is here now."""

    def on_event(self, message: str) -> None:
        """Something worth a line: a configuration failed or was eliminated, or a phase began."""


class Stage(NamedTuple):
    """What a search does before and after it measures."""

    text: str
    remaining_s: float | None = None  # of the budget; None where that is not known
    budget_s: float = 0.0


@runtime_checkable
class StageObserver(Protocol):
    """An observer that is notified of the stages around the measuring, too."""

    def on_stage(self, stage: Stage) -> None:
        """The search begins this now."""


def report_stage(observer: Observer, stage: Stage) -> None:
    """Notify an observer of a stage, if it is a StageObserver."""
    if isinstance(observer, StageObserver):
        observer.on_stage(stage)


Telling = Callable[[str], None]
"""Says what a search does as it sets up."""


def telling(observer: Observer, budget_s: float | None, spent_s: Callable[[], float]) -> Telling:
    """Has an observer know what is done to set up, and how much of the budget is left."""

    def tell(what: str) -> None:
        left = () if budget_s is None else (max(0.0, budget_s - spent_s()), budget_s)
        report_stage(observer, Stage(f"setting up: {what}", *left))

    return tell


class Silent:
    """An observer that watches nothing."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def on_event(self, message: str) -> None:
        """Nothing."""


class ProgressReporter:
    """Notifies the observer of a search; `groups` says where each of several groups is."""

    def __init__(
        self,
        observer: Observer,
        log: StudyLog,
        folder: StudyFolder,
        budget: Budget,
        groups: Callable[[], tuple[GroupState, ...]],
    ) -> None:
        self._observer, self._log, self._folder = observer, log, folder
        self._budget, self._groups = budget, groups
        self._ahead = ahead_of(log)
        self._compared_trial: int | None = None
        self._compared: Compared | None = None
        # By what failures have in common: the configuration that was reported, and the others.
        self._alike: dict[Hashable, tuple[str, list[str]]] = {}

    def failure(self, record: Record, failure: Failure) -> None:
        """Report the first of those failures that are alike; the others are counted."""
        label = str(self._log.configs[record.trial])
        kind = (record.phase == "trace", failure_signature(failure.failure, failure.message))
        if kind in self._alike:
            self._alike[kind][1].append(label)
            return
        self._alike[kind] = (label, [])
        text = self._folder.failure_text(failure.failure, failure.message)
        what = f"{label}: no trace" if record.phase == "trace" else label
        self._observer.on_event(f"{what}: {text}")

    def alike(self) -> None:
        """Report how many failed as others did and were not reported yet."""
        for first, others in self._alike.values():
            if others:
                those = [label for label in dict.fromkeys(others) if label != first]
                some = f": {first_of(those, _MOST_NAMED)}" if those else ""
                self._observer.on_event(
                    f"{plural(len(others), 'more world')} failed as that of {first} did{some}"
                )
                others.clear()

    def comparison(self, *, ends: bool) -> None:
        """Report what an interim analysis has shown; `ends` says that the race is over."""
        log, comparison = self._log, comparison_of(self._log)
        rival, speedup = strongest_rival(log), comparison.speedup
        before = self._compared_trial
        # It does not change from look to look among rivals that are alike.
        if before is not None and {before, rival} <= {*ahead_of(log)}:
            found = gains_of(log).gain(before, BASELINE)
            rival, speedup = before, None if found is None else found.exp()
        if rival is not None and speedup and not log.states[BASELINE].never_ran():
            self._compared_trial = rival
            self._compared = Compared(
                rival=str(log.configs[rival]),
                speedup=speedup,
                is_decided=comparison.kind != "undecided" and not ends,
            )
            self.progress("race")

    def note_leader(self) -> None:
        """Have the next snapshots name who is ahead now."""
        self._ahead = ahead_of(self._log)

    def progress(self, phase: Phase) -> None:
        """Report how far the search is, in the phase that is measured now."""
        log, plan = self._log, self._log.plan
        ahead = [trial for trial in self._ahead if log.states[trial].is_alive()]
        exploring = log.sampling is not None and log.sampling.went_on is None
        self._observer.on_snapshot(
            Snapshot(
                phase="exploration" if exploring else phase,
                block=sum(map(log.blocks, BLOCK_PHASES)),
                worlds=len(log.records),
                calibrated=log.calibrated,
                traced=log.rows.traced,
                configs=len(log.configs),
                survivors=len(log.runnable if phase == "trace" else log.racing),
                ahead=tuple(log.configs[trial] for trial in ahead),
                ahead_value=log.value(ahead[0]) if ahead else None,
                unit=plan.objective.unit,
                remaining_s=max(0.0, self._budget.remaining_s),
                budget_s=self._budget.total_s,
                until_clear=plan.measuring.until_clear,
                looks=len(log.looks),
                compared=self._compared if phase == "race" else None,
                groups=self._groups(),
            )
        )
