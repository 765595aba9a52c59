"""What a subject is, by running it before there is a study: facts, and one decision, whether
another run is worth its time."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft, like_before
from tuner.plan.program_spec import Subject
from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import TRACED_FACTOR
from tuner.searching.fitting import Fit, fit_of, pair_worlds
from tuner.searching.progress_reports import Telling
from tuner.searching.runner import TRACED_TIME_S, Runner, numbers_in, patterns_of, scratch_folder
from tuner.searching.searched_space import (
    Notify,
    numbers_of_intra_op_threads,
    other_intra_op_threads,
    with_share,
)
from tuner.study.folder import StudyFolder
from tuner.study.storage.opening import NEEDED_S, Claim
from tuner.study.storage.store import StudyStore
from tuner.text import one_line
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.suggestions import Suggestion
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import Model
from tuner.trace.model.trace import Trace
from tuner.world.launcher import ExpectsThreads, InspectsPrograms, Launcher
from tuner.world.measurement import Failure, Measurement, Outcome

_MOST_TRACED_FIRST = 0.15  # of the budget, for a program's trace before anything is compared
_LONGEST_TRACE = 0.1  # of the budget, for a workload's
_STEPS = 10  # the steps of that trace: how long one takes is not known yet

Spent = Callable[[], float]
"""How many seconds setting up has taken so far, and earlier sessions."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What runs of a subject have shown before there is a study."""

    subject: Subject
    chooses_space: bool  # whether the space is a default one, to which a trace may add
    run: Measurement | None = None  # the latest one of a program as it is
    failed: Failure | None = None  # how a program failed as it is, where none went well
    traced: tuple[Measurement, Trace] | None = None  # a world of the baseline
    trace_file: Path | None = None  # where the study finds that trace; None of a workload's
    was_traced: bool = False  # whether the latest run as it is took longer because it was traced
    had_trace: bool = False  # whether an earlier session has traced the baseline

    @cached_property
    def suggestions(self) -> Collection[Suggestion]:
        """The knobs that the diagnosis of the trace names, for a default space."""
        if self.traced is None or not self.chooses_space:
            return ()
        return diagnose(self.traced[1], patterns_of(self.subject.ranks)).suggestions

    @property
    def kept(self) -> tuple[Measurement, Trace] | None:
        """The traced world, where the study begins with it."""
        return None if self.trace_file is None else self.traced

    @cached_property
    def model(self) -> Model | str:
        """The programs that the kept trace may show, or why there is no forecast."""
        assert self.kept is not None
        return Model.of(self.kept[1], patterns_of(self.subject.ranks))

    @property
    def saved_s(self) -> float:
        """How many seconds later runs of a program are shorter than the latest one."""
        return 0.0 if self.run is None else self.subject.sooner_s(self.run.world_s)

    def fit(
        self, plan: StudyPlan, world: Outcome, spent_s: float, least_s: float | None = None
    ) -> Fit:
        """What the rest of the budget is enough for, where so much of it is spent, by a world of
        the baseline; one takes `least_s` if that is given."""
        shorter_s = self.saved_s
        world = world.model_copy(update={"world_s": world.world_s - shorter_s})
        world_s = world.world_s if least_s is None else least_s
        if shorter_s:
            spent_s += world_s  # the baseline's first world, which is one of these
        return fit_of(
            plan, world, spent_s, world_s,
            is_traced=self.had_trace or self.kept is not None, was_traced=self.was_traced,
        )  # fmt: skip


def plan_of(draft: PlanDraft, launcher: Launcher) -> StudyPlan:
    """The plan for what is tuned; all mistakes are reported together."""
    try:
        spec = launcher.subject_of(draft)
    except UsageError as error:
        if not draft.problems:
            raise
        problems = [*(error.problems or [str(error)]), *draft.problems]
        raise UsageError.of_request(problems) from None
    return draft.finish(with_share(spec, draft.launching))


def inspect(
    draft: PlanDraft, launcher: Launcher, claim: Claim, known: StudyStore | None, spent_s: Spent,
    elsewhere: StudyFolder, notify: Notify, tell: Telling,
) -> tuple[StudyPlan, Facts]:  # fmt: skip
    """Run what is tuned, as far as that is worth its time; its plan, as far as no trace widens it.

    Args:
        draft: What to search for, here.
        launcher: Runs it.
        claim: Of the study; a first run that fails leaves its evidence there.
        known: The study that is resumed.
        spent_s: What setting up has taken so far.
        elsewhere: Gets the files of worlds until there is a study.
        notify: Gets what is compared, in a sentence.
        tell: Gets what is done.
    """
    if draft.program is None:
        tell("importing torch and the workload")
        plan = plan_of(draft, launcher)
        tell("a short trace")
        facts = Facts(subject=plan.subject, chooses_space=draft.chooses_space)
        return plan, replace(facts, traced=_traced_workload(facts, plan, launcher))
    if known is not None:
        # The study of a program goes on with the objective that it has.
        draft = like_before(draft, known.plan())
        if draft.chooses_objective:
            draft = draft.with_objective(known.plan().measuring.objective_name)
    asks = known is None or bool(known.noted(NEEDED_S))
    trace = elsewhere.traces / "as-it-is.json" if known is None else None
    try:
        facts = _run_as_it_is(draft, launcher, claim, spent_s if asks else None, trace, tell)
    finally:
        claim.keep_first_run()
    plan = draft.finish(facts.subject)
    notify(f"comparing the {plan.objective.label}{plan.subject.why_compared(plan.objective)}")
    if known is None:
        tell("a trace of the program")
        facts = _with_trace(plan, facts, trace, launcher, spent_s, elsewhere)
    if isinstance(launcher, ExpectsThreads) and facts.run is not None:
        launcher.expect_threads(other_intra_op_threads(plan, chooses_space=draft.chooses_space))
    return plan, facts


def _run_as_it_is(
    draft: PlanDraft, launcher: Launcher, claim: Claim, spent_s: Spent | None, trace: Path | None,
    tell: Telling,
) -> Facts:  # fmt: skip
    """Run a program as it is until another run is not worth its time, where that is asked; a later
    one is traced to a file, if that can be."""
    assert isinstance(launcher, InspectsPrograms), "a launcher of workloads was given a program"
    facts: Facts | None = None
    told: set[str] = set()
    tell("a first run of the program, as it is")
    for seen in launcher.inspect(draft, claim.place.folder.first_run, trace):
        for warning in [each for each in seen.warned if each not in told]:
            tell(f"PyTorch warned in its own code: {one_line(warning)}")
        told.update(seen.warned)
        tell("another run of the program, as it is")
        subject = with_share(seen.subject, draft.launching)
        facts = facts or Facts(subject=subject, chooses_space=draft.chooses_space)
        facts = replace(facts, subject=subject)
        if spent_s is None or seen.run is None:
            continue  # What a session that goes on needs is known.
        if isinstance(seen.run, Failure):
            facts = replace(facts, failed=facts.failed or seen.run)
            continue
        is_traced = trace is not None and trace.exists()
        was_traced = is_traced and subject.window_s is None
        facts = replace(facts, run=seen.run, was_traced=was_traced,
                        trace_file=trace if is_traced else None)  # fmt: skip
        if not _is_another_worth(draft.finish(subject), facts, seen.run, seen.least_s, spent_s()):
            break
    assert facts is not None
    return facts


def _is_another_worth(
    plan: StudyPlan, facts: Facts, run: Measurement, least_s: float, spent_s: float
) -> bool:
    """Whether there is time for another run as it is, where each takes so long at least."""
    needed_s = spent_s + (1 + pair_worlds(plan)) * least_s
    compares = facts.fit(plan, run, spent_s, least_s).compares
    return compares and needed_s <= plan.measuring.budget_s


def _with_trace(
    plan: StudyPlan, facts: Facts, traced: Path | None, launcher: Launcher, spent_s: Spent,
    folder: StudyFolder,
) -> Facts:  # fmt: skip
    """With a trace of a program's baseline, unless it takes too much of the budget. Where this is
    enough for no comparison, all that is left may go to the trace."""
    subject, budget_s = plan.subject, plan.measuring.budget_s
    if not subject.run_s:
        return facts
    if facts.run is not None and facts.trace_file is not None and changes_nothing(plan):
        with suppress(UsageError):
            trace = read_trace(facts.trace_file)
            # It took no time of its own.
            known = {"trace": numbers_in(trace, subject.ranks), "world_s": 0.0}
            return replace(facts, traced=(facts.run.model_copy(update=known), trace))
    most_s = budget_s - spent_s()
    if facts.run is None or facts.fit(plan, facts.run, spent_s()).compares:
        most_s = min(most_s, _MOST_TRACED_FIRST * budget_s)
    if TRACED_FACTOR * subject.usual_s > most_s:
        return facts
    runner, most_s = Runner(plan, launcher, folder), min(most_s, subject.longest_run_s)
    if (found := _traced(runner, None, most_s, operators=True)) is None:
        return facts
    return replace(facts, traced=found, trace_file=folder.trace(plan.baseline))


def _traced_workload(
    facts: Facts, plan: StudyPlan, launcher: Launcher
) -> tuple[Measurement, Trace] | None:
    """A short traced world of a workload, and its trace, where that may widen the space, there is
    time and it goes well."""
    operators = bool(numbers_of_intra_op_threads(plan))
    if not facts.chooses_space or not (operators or plan.subject.has_gil):
        return None
    with scratch_folder() as scratch:
        runner, most_s = Runner(plan, launcher, scratch), _LONGEST_TRACE * plan.measuring.budget_s
        return _traced(runner, TRACED_TIME_S / _STEPS, most_s, operators=operators)


def _traced(
    runner: Runner, step_s: float | None, most_s: float, *, operators: bool
) -> tuple[Measurement, Trace] | None:
    """A world of the baseline that goes well, and its trace."""
    baseline = runner.plan.baseline
    world = runner.trace(baseline, step_s, most_s, operators=operators)
    if not isinstance(world, Measurement):
        return None
    return world, read_trace(runner.folder.trace(baseline))


def changes_nothing(plan: StudyPlan) -> bool:
    """Whether the baseline is the program as it is."""
    return plan.baseline.resolved(plan.subject) == Config.of({}).resolved(plan.subject)
