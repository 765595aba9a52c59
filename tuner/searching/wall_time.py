"""Wall time: what a study may take over all its sessions, and what its next world may take."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tuner.decide.statistics import best_measured_s, variance_between
from tuner.plan.measuring import LEAST_START_S
from tuner.plan.program_spec import STUCK_RUN
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import BASELINE, StudyLog
from tuner.world.measurement import Failure, Outcome

# What a command does beside the search, from its imports to its figures, takes so many times as
# long as to import what draws. Of the budget: what is kept for it at most, how late it may be.
END_BY_PREPARING, MOST_END, LATE_END = 9.0, 0.25, 0.03
END_S = 2.0  # a world that is ended takes so long to end
LONGEST_SHARE = 1 / 3  # of the budget: a longer world leaves no time to compare it with others
LEAST_FIRST_S = 1.0  # without which a first world is not begun: it could only run into their end
DOMINATED_WORLD = 20  # a world so many times as long as the baseline's is dominated, or stuck
LEAST_DEADLINE_S = 10.0  # a start may take its time
LONGEST = 10.0  # the steps of a world last so many times the least at most
# Steps that take so many times as long as they are to last are stuck; so is a program's run that
# takes so much longer than others, and much of the budget.
STUCK = 3.0
_LATEST = 20  # the noise is estimated from so many blocks


def first_world_s(budget_s: float, spent_s: float) -> float:
    """How long a study's first world may take, after so much was spent to set it up."""
    longest_s = longest_world_s(budget_s)
    return min(longest_s, max(0.0, budget_s + longest_s + END_S - spent_s))


def longest_world_s(budget_s: float) -> float:
    """How long a world may take while none has run: of a budget that no such world fits into."""
    return max(LEAST_START_S, LONGEST_SHARE * budget_s)


def kept_for_end_s(budget_s: float, prepared_s: float) -> float:
    """What worlds leave of a budget for its end, by how long it took to get ready for that, on this
    machine as it is now: a command may be a little late, and its end is no reason for no answer."""
    return min(MOST_END * budget_s, max(0.0, END_BY_PREPARING * prepared_s - LATE_END * budget_s))


@dataclass
class Budget:
    """Wall time, over all sessions of a study."""

    total_s: float
    spent_before_s: float  # what earlier sessions spent
    started_s: float  # when this session began, on `clock`
    clock: Callable[[], float]
    end_s: float = 0.0  # what no world may take: the answer is written and drawn then

    @property
    def spent_s(self) -> float:
        """Seconds spent so far."""
        return self.spent_before_s + self.clock() - self.started_s

    @property
    def remaining_s(self) -> float:
        """Seconds left for worlds; below zero when the budget is overdrawn."""
        return self.total_s - self.end_s - self.spent_s

    @property
    def is_spent(self) -> bool:
        """Whether no further world may begin."""
        return self.remaining_s <= 0


class WorldTimes:
    """What the log and the budget say of the next worlds."""

    def __init__(self, log: StudyLog, plan: StudyPlan, budget: Budget) -> None:
        self._log, self._budget, self._measuring = log, budget, plan.measuring
        self._longest_run_s = plan.subject.longest_run_s

    def measured_s(self) -> float:
        """How long the steps of the next block's worlds last at least, from the noise so far."""
        log, least_s = self._log, self._measuring.min_time_s
        between = variance_between(log.worlds("race")[-_LATEST:])
        within = log.variance_within()
        if between is None or within is None:
            return least_s
        worlds = [world for trial in log.alive for world in log.trials[trial].samples[-3:]]
        fixed_s = statistics.median(world.world_s - world.wall_s for world in worlds)
        used_s = statistics.median(world.wall_s for world in worlds)
        best_s = best_measured_s(fixed_s, within, between, used_s)
        longest_s = min(LONGEST * least_s, self._measuring.deadline_s / STUCK)
        return max(least_s, min(best_s, longest_s))

    def deadline_s(self, trial: int, steps_s: float = 0.0) -> float:
        """How long a world of a trial may take, by how long its steps are to last."""
        usual_s = self._usual_s()
        if math.isfinite(self._longest_run_s):
            stuck_s = max(self._longest_run_s, STUCK_RUN * (usual_s or 0.0))
            return min(stuck_s, self._longest_s())
        if usual_s is None:
            return self._longest_s()
        if trial == BASELINE and self._log.calibration(BASELINE) is not None:
            return math.inf
        return max(LEAST_DEADLINE_S, DOMINATED_WORLD * usual_s) + STUCK * steps_s

    def traced_deadline_s(self, trial: int) -> float:
        """How long a world may take that is traced and compares nothing: it leaves time for those
        that do, also where it is the baseline's."""
        return min(self.deadline_s(trial), self._longest_s())

    def _longest_s(self) -> float:
        """How much of the budget a world may take, or three usual ones."""
        return max(longest_world_s(self._budget.total_s), STUCK * (self._usual_s() or 0.0))

    def left_s(self) -> float:
        """How long the budget lets a world take that begins now: the rest, and a usual world, as
        soon as one has ended by itself."""
        left_s = max(0.0, self._budget.remaining_s) + (self._usual_s() or 0.0) + END_S
        if self.has_grace:
            left_s = max(left_s, first_world_s(self._budget.total_s, self._budget.spent_s))
        return left_s

    @property
    def has_grace(self) -> bool:
        """Whether a world may begin late, as a first one may: nothing was tried but a baseline that
        deadlocks, which took the time."""
        failed = [trial for trial, state in enumerate(self._log.states) if state.never_ran()]
        if failed != [BASELINE] or not self._log.states[BASELINE].has_deadlocked():
            return False
        is_first = not self._log.runnable
        return is_first and self._budget.spent_s < 2 * self._budget.total_s

    def is_cut_short(self, outcome: Outcome, deadline_s: float, left_s: float) -> bool:
        """Whether the end of the budget ended a world, which says nothing of its configuration."""
        is_late = isinstance(outcome, Failure) and outcome.failure == "timed-out"
        return is_late and left_s < min(deadline_s, self._measuring.deadline_s)

    def _usual_s(self) -> float | None:
        """What a first world takes: the baseline's, or else the quickest one; None if none ran."""
        if (first := self._log.calibration(BASELINE)) is not None:
            return first.world_s
        # One by one: groups ask from threads of their own.
        alive = [trial for trial, state in enumerate(self._log.states) if state.is_alive()]
        known = map(self._log.calibration, alive)
        return min((world.world_s for world in known if world is not None), default=None)
