"""How long worlds last: their steps, from the noise so far, and what they may take at most."""

import math
import statistics

from tuner.decide.precision import best_measured_s, variance_between
from tuner.plan.program_spec import STUCK_RUN, ProgramSpec
from tuner.plan.study_plan import StudyPlan
from tuner.searching.budget import Budget, longest_world_s
from tuner.study.log import BASELINE, StudyLog
from tuner.world.measurement import Failure, Measurement

# A configuration whose world takes this many times as long as the baseline's is dominated, or
# stuck; but a start may take its time, so a deadline is never below LEAST_DEADLINE_S.
DOMINATED_WORLD = 20
LEAST_DEADLINE_S = 10.0
# The steps of a world last so many times the least at most, however quiet worlds are between.
LONGEST = 10.0
# Steps that take so many times as long as they are to last are stuck; so is a program's run, if it
# takes so many times as long as others and much of the budget.
STUCK = 3.0
# The noise is estimated from so many blocks.
_LATEST = 20


class WorldTimes:
    """What the log and the budget say of the next worlds.

    Args:
        log: What was measured.
        plan: What the study measures, and how.
        budget: The time that may be spent.
    """

    def __init__(self, log: StudyLog, plan: StudyPlan, budget: Budget) -> None:
        self._log = log
        self._measuring = plan.measuring
        self._longest_run_s = math.inf
        if isinstance(plan.subject, ProgramSpec):
            self._longest_run_s = plan.subject.longest_run_s
        self._budget = budget

    def measured_s(self) -> float:
        """How long the steps of the next block's worlds last at least, from the noise so far."""
        log, least_s = self._log, self._measuring.min_time_s
        between = variance_between(log.worlds("race")[-_LATEST:])
        within = log.variance_within()
        if between is None or within is None:
            return least_s
        worlds = [world for trial in log.alive for world in log.samples(trial)[-3:]]
        fixed_s = statistics.median(world.world_s - world.wall_s for world in worlds)
        used_s = statistics.median(world.wall_s for world in worlds)
        best_s = best_measured_s(fixed_s, within, between, used_s)
        longest_s = min(LONGEST * least_s, self._measuring.deadline_s / STUCK)
        return max(least_s, min(best_s, longest_s))

    def deadline_s(self, trial: int, steps_s: float = 0.0) -> float:
        """How long a world of a trial may take, whatever is left of the budget.

        Args:
            trial: Which.
            steps_s: How long its steps are to last, in seconds: longer ones than the first
                worlds' are no reason to give it up.
        """
        usual_s = self._usual_s()
        longest_s = longest_world_s(self._budget.total_s)
        if math.isfinite(self._longest_run_s):
            stuck_s = max(self._longest_run_s, STUCK_RUN * (usual_s or 0.0))
            return min(stuck_s, max(longest_s, STUCK * (usual_s or 0.0)))
        if usual_s is None:
            return longest_s
        if trial == BASELINE and self._log.calibration(BASELINE) is not None:
            return math.inf
        return max(LEAST_DEADLINE_S, DOMINATED_WORLD * usual_s) + STUCK * steps_s

    def left_s(self) -> float:
        """How long the budget lets a world take that begins now.

        While none has ended by itself, nobody knows what one takes, and none goes beyond it.
        """
        return self._budget.deadline_s(self._usual_s() or 0.0)

    def is_cut_short(
        self, outcome: Measurement | Failure, deadline_s: float, left_s: float
    ) -> bool:
        """Whether the end of the budget ended a world, which says nothing of its configuration."""
        is_late = isinstance(outcome, Failure) and outcome.failure == "timed-out"
        return is_late and left_s < min(deadline_s, self._measuring.deadline_s)

    def _usual_s(self) -> float | None:
        """What a first world takes: the baseline's, or else the quickest one; None if none ran."""
        first = [self._log.calibration(trial) for trial in (BASELINE, *self._log.runnable)]
        known = [world.world_s for world in first if world is not None]
        return known[0] if first[0] is not None else min(known, default=None)
