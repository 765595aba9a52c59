"""How a study begins: with a world of its baseline, and with what the budget is enough for then."""

import math
import shutil
import statistics
from collections.abc import Callable, Sequence

from tuner.decide.simultaneous import LEAST_BLOCKS
from tuner.errors import BudgetTooShortError, UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramSpec, Subject
from tuner.plan.study_plan import StudyPlan
from tuner.searching.budget import LEAST_FIRST_S, first_world_s
from tuner.searching.calibrating import is_tried_again
from tuner.searching.exploring import BATCH, LEAST_ROUNDS, rounds_s, sampling_for
from tuner.searching.runner import Runner, TimedWorld, scratch_folder
from tuner.study.finding import earlier_studies
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import CALIBRATION_BLOCK, Record, Sampling
from tuner.study.storage.opening import REFUSED, Claim, create_study
from tuner.study.storage.prior import IDENTITY, identity_of, in_prior_order, prior_costs
from tuner.study.storage.store import StudyStore
from tuner.text import duration, plural
from tuner.world.environment import Environment
from tuner.world.launcher import Launcher, members_of
from tuner.world.measurement import Failure, Measurement, Outcome

_TO_SPARE = 1.1  # a budget that is said to be enough has so much more than it needs
_FIRST_RUNS = 2  # so often a session runs a program as it is, before it measures anything


class Beginner:
    """Begins a study, or goes on with one that its budget was too short for.

    A launcher calls this after each run of a program that went well: the first one tells whether
    the budget is enough. `earlier_s` and `since_start` are seconds of earlier sessions and of this.
    """

    def __init__(
        self,
        draft: PlanDraft,
        launcher: Launcher,
        earlier_s: float,
        since_start: Callable[[], float],
        notify: Callable[[str], None],
    ) -> None:
        self.problem: BudgetTooShortError | None = None  # why no more is measured, by this budget
        self._draft, self._launcher, self._notify = draft, launcher, notify
        self._earlier_s, self._since_start = earlier_s, since_start
        self._last: Measurement | None = None  # the latest run of a program as it is
        self._least_s: float | None = None  # how long such a run takes at least
        self._sampling: Sampling | None = None

    def __call__(self, subject: Subject, run: Measurement, least_s: float) -> bool:
        """Whether the budget may be enough, where a run takes so long at least."""
        self._last, self._least_s = run, least_s
        self._find_problem(self._draft.finish(subject), run)
        return self.problem is None

    def judge(self, plan: StudyPlan, world: Outcome) -> None:
        """Find out who proposes what to measure, by the latest run, or by a world if none was run;
        BudgetTooShortError if the budget is not enough for this plan."""
        spent_s = self._earlier_s + self._since_start()
        self._sampling = _sampling_by(plan, self._last or world, spent_s, self._least_s)

    def _find_problem(self, plan: StudyPlan, world: Outcome) -> None:
        self.problem = self._sampling = None
        try:
            self.judge(plan, world)
        except BudgetTooShortError as problem:
            self.problem = problem

    def begin(
        self, plan: StudyPlan, claim: Claim, here: Environment
    ) -> tuple[StudyStore, Sequence[Record]]:
        """Begin a new study; returns it, and the worlds of its baseline, which it lacks yet.

        A study that the budget is not enough for has these alone, and can be gone on with; it
        replaces no earlier one. What did well in the studies beside is first.
        """
        candidates, known = plan.candidates(), 0
        if len(candidates) > 2:
            prior = prior_costs(earlier_studies(claim.place), plan, here)
            known = sum(config in prior for config in candidates[1:])
            candidates = in_prior_order(candidates, prior)
        with scratch_folder() as elsewhere:
            if self._last is not None and self.problem is not None:
                first = _run_as_record(plan, self._last)
            else:
                first = self._first_worlds(plan, elsewhere)
            if self._last is None:
                self._find_problem(plan, first[-1].outcome)
            if self.problem is not None and claim.replaces:
                raise self.problem
            claim.begin()
            for left in elsewhere.failures.glob("*"):
                kept = claim.place.folder.failures / left.name
                shutil.copytree(left, kept, dirs_exist_ok=True)
                claim.place.folder.manifest.add(*kept.glob("*"))
        if self.problem is not None:
            candidates = candidates[:1]
        elif known and self._sampling is None:
            self._notify(
                f"earlier studies here measured {plural(known, 'configuration')} of these: what "
                "did well is measured first, and nothing of it counts"
            )
        refused = None if self.problem is None else self.problem.needed_s
        store = create_study(
            claim.place, plan, here, self._notify, candidates, self._sampling, refused=refused
        )
        store.note(IDENTITY, identity_of(plan.subject))
        return store, first

    def go_on(self, plan: StudyPlan, store: StudyStore) -> Sequence[Record]:
        """Add to a study what a larger budget is enough for; it may still be too short."""
        if not store.noted(REFUSED):
            return ()
        first: list[Record] = []
        if self._last is None:
            kept = [each for each in store.records() if each.trial == BASELINE]
            if not any(isinstance(each.outcome, Measurement) for each in kept):
                first = self._first_worlds(plan, store.folder, kept)
            self._find_problem(plan, [*kept, *first][-1].outcome)
        if self.problem is None:
            if self._sampling is None:
                there = store.configs()
                store.add_configs([each for each in plan.candidates() if each not in there], plan)
            else:
                store.note("sampling", self._sampling.model_dump(mode="json"))
        store.note(REFUSED, None if self.problem is None else self.problem.needed_s)
        return first

    def _first_worlds(
        self, plan: StudyPlan, folder: StudyFolder, known: Sequence[Record] = ()
    ) -> list[Record]:
        """Run the baseline until a world goes well, as often as a first world is tried."""
        group = 1 if len(members_of(self._launcher)) > 1 else None
        runner, log = Runner(plan, self._launcher, folder), StudyLog(plan, [plan.baseline], known)
        budget_s, first = plan.measuring.budget_s, list[Record]()
        while not log.records or is_tried_again(log, BASELINE, budget_s):
            longest_s = first_world_s(budget_s, self._since_start())
            if isinstance(plan.subject, ProgramSpec):
                longest_s = min(longest_s, plan.subject.longest_run_s)
            if longest_s < LEAST_FIRST_S:
                if log.records:
                    break
                raise UsageError(
                    f"a budget of {duration(budget_s)} is too short: setting up alone took "
                    f"{duration(self._since_start())}; give a larger --budget"
                )
            world = TimedWorld(BASELINE, CALIBRATION_BLOCK, plan.baseline, attempt=len(log.records))
            first.append(world.record("calibration", runner.run(world, longest_s), group))
            log.add(first[-1])
        return first


def _sampling_by(
    plan: StudyPlan, first: Outcome, spent_s: float, least_s: float | None
) -> Sampling | None:
    """Who proposes what to measure, by the baseline's first world; BudgetTooShortError if the
    budget is not enough for one block, or for a few rounds, where a world takes `least_s`."""
    world_s = first.world_s if least_s is None else least_s
    sampling = sampling_for(plan, first, spent_s, world_s)
    count, budget_s, fits = len(plan.candidates()), plan.measuring.budget_s, ""
    if sampling is not None:
        shortest_s, more_s = rounds_s(world_s), rounds_s(first.world_s)
        what = f"{LEAST_ROUNDS} rounds of {plural(BATCH, 'configuration')}"
    elif isinstance(first, Failure):
        return None
    else:
        worlds = (count - 1) + (count + 1)
        shortest_s = world_s * worlds
        # What it is said to need are the fewest blocks that give an interval.
        more_s = first.world_s * (worlds + (LEAST_BLOCKS - 1) * (count + 1))
        each = f"{plural(worlds + 1, 'world')} of {duration(first.world_s)} or more each"
        what = f"one block of {plural(count, 'configuration')}, with {each}"
        fitting_worlds = (budget_s / _TO_SPARE - spent_s) / first.world_s
        fitting = math.floor((fitting_worlds - (LEAST_BLOCKS - 1)) / (LEAST_BLOCKS + 1))
        fewer = f", or fewer values: {fitting} configurations fit, the baseline among them"
        fits = f"{fewer if fitting > 1 else ''}; --dry-run says what a budget can show"
    if spent_s + shortest_s <= budget_s:
        return sampling
    # The session that has it runs a program as it is once more.
    runs = plan.subject.run_s if isinstance(plan.subject, ProgramSpec) else ()
    runs_s = _FIRST_RUNS * statistics.fmean(runs) if runs else 0.0
    needed_s = math.ceil((spent_s + runs_s + more_s) * _TO_SPARE)
    raise BudgetTooShortError(
        f"a budget of {duration(budget_s)} is too short for {what}; it needs about "
        f"{duration(needed_s)}{fits}",
        needed_s,
    )


def _run_as_record(plan: StudyPlan, run: Measurement) -> list[Record]:
    """A run of a program as it is, as the first world of a baseline that changes nothing."""
    is_own = plan.baseline.resolved(plan.subject) == Config.of({}).resolved(plan.subject)
    if not is_own or plan.objective.read(run) is None:
        return []
    return [TimedWorld(BASELINE, CALIBRATION_BLOCK, plan.baseline).record("calibration", run)]
