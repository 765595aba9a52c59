"""A search from its request to its answer: the one place that wires the stages together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from tuner.errors import InterruptedSearchError, LauncherError, UsageError
from tuner.plan.draft import PlanDraft
from tuner.searching.beginning import begin, forecast_space, go_on
from tuner.searching.calibrating import (
    calibrate,
    cannot_run,
    trace,
)
from tuner.searching.exploring import explore, measure_both_goals
from tuner.searching.inspecting import inspect, plan_of
from tuner.searching.measurer import Measurer
from tuner.searching.parallel import ParallelMeasurer
from tuner.searching.progress_reports import Observer, Stage, Telling, report_stage, telling
from tuner.searching.racing import RACE_STARTED, measure_far_ahead, race
from tuner.searching.runner import Runner, changes_by, scratch_folder
from tuner.searching.searched_space import Notify, draft_here
from tuner.searching.turns import take_turns, try_next_bets
from tuner.searching.wall_time import Budget, kept_for_end_s
from tuner.searching.widening import widened
from tuner.study.answer import StudyAnswer
from tuner.study.conclusion import conclude, resume_budget_s
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE
from tuner.study.records import Record
from tuner.study.rows import comparable_values
from tuner.study.search_commands import resume_command
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import NEEDED_S, Claim, claimed, load_study, resume_study
from tuner.study.storage.retry import Retry
from tuner.study.storage.store import Ending, StudyStore
from tuner.study.stored import answer_of
from tuner.study.write_ahead_log import WriteAheadLog
from tuner.text import command, plural
from tuner.world.launcher import Launcher, environment_with, members_of

CHANGES_SHARE = 0.05
"""Of the budget: for so long, after its end, changes of the program are forecast at most."""


def measurer_for(runner: Runner, store: StudyStore, observer: Observer, budget: Budget) -> Measurer:
    """What measures for a session: of several groups, blocks at the same time."""
    kind = ParallelMeasurer if len(members_of(runner.launcher)) > 1 else Measurer
    return kind(runner, store, observer, budget)


def measure_study(measurer: Measurer, first: Sequence[Record] = ()) -> StudyAnswer:
    """Measure what is still to be measured, beside the `first` worlds, which have run before, and
    close the study."""
    store, log = measurer.store, measurer.log
    for record in first:
        measurer.add(record)
    if not store.running():
        helps = "no configuration could run; once what fails is repaired, --overwrite searches anew"
        if log.alive:
            least_s = store.noted(NEEDED_S) or resume_budget_s(log, measurer.budget.spent_s)
            helps = f"nothing is left to measure; --budget {least_s}s or more continues it"
        measurer.observer.on_event(f"the study is finished: {helps}")
        return answer_of(store, log)
    try:
        forecast_space(measurer)
        explore(measurer)
        has_raced = store.noted(RACE_STARTED) is not None
        if has_raced:
            measure_far_ahead(measurer, is_resumed=True)
        take_turns(measurer)
        calibrate(measurer)
        try_next_bets(measurer)
        if not has_raced:
            measure_both_goals(measurer)
        measure_far_ahead(measurer, is_resumed=False)
        race(measurer)
        while try_next_bets(measurer):
            race(measurer)
        trace(measurer)
        measurer.reporter.alike()
    finally:
        measurer.close()
        measurer.note_elapsed()
    return _close(measurer)


def _close(measurer: Measurer) -> StudyAnswer:
    """End every trial that is still running; the recommended one is never pruned."""
    store, log = measurer.store, measurer.log
    conclusion = conclude(log)
    best = conclusion.best_trial
    if best is not None and best != BASELINE:
        measurer.readmit(best)
    answer = answer_of(store, log, conclusion)
    values = comparable_values(answer.rows, log.plan.objective)
    if best is not None:
        store.note_answer(best)
    for trial in store.running():
        value, row = values.get(trial), answer.by_trial[trial]
        broken = {"broken_limits": row.broken_text} if row.broken else {}
        facts: dict[str, float | str] = {"outcome": row.outcome, **log.numbers(trial), **broken}
        state, limited = log.states[trial], log.limited(log.trials[trial].samples)
        excess = {str(limit): limit.excess(value) for limit, value in limited}
        ending: Ending = "PRUNED"
        if state.why_out is not None and (state.has_run or cannot_run(log, trial)):
            ending = "FAIL"
        elif state.lost:
            ending = "FAIL"  # so that no later search bets on it
        elif row.outcome in ("completed", "infeasible") and value is not None:
            ending = "COMPLETE"
        store.end(trial, ending, value, facts, excess)
    return _with_changes(measurer, answer, best or BASELINE)


def _with_changes(measurer: Measurer, answer: StudyAnswer, trial: int) -> StudyAnswer:
    """An answer, which is kept by now, with what the trace of a trial tells of changes of the
    program."""
    plan, store = measurer.plan, measurer.store
    if not plan.objective.is_of_calls:
        return answer
    path = store.folder.trace(measurer.log.configs[trial])
    try:
        found, callers = changes_by(
            path, plan.subject.ranks, CHANGES_SHARE * plan.measuring.budget_s
        )
    except Exception as error:  # an odd trace takes nothing from the answer
        measurer.observer.on_event(f"no changes are forecast: {type(error).__name__}: {error}")
        return answer
    measurer.log.changes, measurer.log.callers = {trial: found}, {trial: callers}
    store.note("changes", [(trial, [each.model_dump() for each in found])])
    store.note("callers", [(trial, [each.to_json() for each in callers])])
    return replace(answer, changes=found, callers=callers)


@dataclass(frozen=True)
class Presenter:
    """Writes an answer for people and programs, in files and in notes; what is left out, not."""

    # Without these files the search has failed; it goes on without a page that cannot be written.
    write_answer: Callable[[StudyAnswer], object] = lambda _: None
    write_report: Callable[[StudyAnswer], object] = lambda _: None
    prepare: Callable[[], object] = lambda: None  # gets ready for that, which takes a while
    # For the dashboard, in Markdown: of the study, and by trial number.
    notes: Callable[[StudyAnswer], tuple[str, Mapping[int, str]]] = lambda _: ("", {})


class SearchStopped(InterruptedSearchError):  # noqa: N818 - an ending, not an error
    """The search was stopped from outside; `answer` is the answer so far."""

    def __init__(self, answer: StudyAnswer, log: WriteAheadLog) -> None:
        self.answer = answer
        kept = "everything measured is kept, and this continues it: "
        what = log.kept if log.is_lost else f"{kept}{resume_command(answer)}"
        super().__init__(f"interrupted after {plural(answer.blocks, 'block')}; {what}")


def search(
    draft: PlanDraft,
    launcher: Launcher,
    observer: Observer,
    presenter: Presenter,
    clock: Callable[[], float],
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> StudyAnswer:
    """Measure until the answer is clear or the budget is spent; leave the study and its files.

    Args:
        draft: What to search for; a workload is asked for mistakes in its options, too.
        launcher: Runs the worlds; entered already.
        observer: Is notified of how far the search is.
        presenter: Writes the answer, for a search that is interrupted too.
        clock: Seconds from any beginning.
        resume: Go on with a study that exists.
        overwrite: Delete a study that exists.

    Raises:
        UsageError: the request cannot be carried out; nothing has been changed.
        LauncherError: no world can be launched any more; everything measured so far is kept.
        StorageLostError: the storage went away for too long; everything measured so far is kept.
        StudyTakenError: another search took the study meanwhile.
        SearchStopped: a KeyboardInterrupt came; everything measured so far is kept.
    """
    started_s = clock()
    if draft.problems:
        if draft.workload and draft.program is None:
            plan_of(draft, launcher)
        raise UsageError.of_request(draft.problems)
    notify, name = observer.on_event, draft.study_name
    place = StudyPlace.named(name, storage=draft.storage, out=draft.out)
    retry = Retry(str(place.address), place.write_ahead_log(), notify)
    place = place._replace(address=replace(place.address, retry=retry))
    with claimed(place, resume=resume, overwrite=overwrite) as claim:
        retry.write_ahead_log.has_begun = claim.resumes
        # It takes a while to find out about a workload or a program: not for nothing.
        since_start = partial(_since, started_s, clock)
        # What earlier sessions have spent is known later.
        budget_s = None if claim.resumes else draft.measuring.budget_s
        tell = telling(observer, budget_s, since_start)
        tell("the launcher starts")
        before_s = clock()
        presenter.prepare()
        prepared_s = clock() - before_s
        with scratch_folder() as elsewhere:
            begun = _begin(draft, launcher, claim, notify, tell, since_start, elsewhere)
        retry.write_ahead_log.has_begun = True
        claim.mark_folder()
        # It is of the session before; a session that is killed leaves none.
        place.folder.answer.unlink(missing_ok=True)
        total_s = begun.runner.plan.measuring.budget_s
        end_s = kept_for_end_s(total_s, prepared_s)
        budget = Budget(total_s, begun.store.elapsed_s, started_s, clock, end_s)
        retry.left_s = lambda: budget.remaining_s
        measurer = measurer_for(begun.runner, begun.store, observer, budget)
        return _measure(measurer, begun.first, retry, presenter)


def _since(started_s: float, clock: Callable[[], float]) -> float:
    return clock() - started_s


class _Begun(NamedTuple):
    """A study that measuring goes on with."""

    runner: Runner
    store: StudyStore
    first: Sequence[Record]  # worlds that it lacks yet


def _begin(
    draft: PlanDraft, launcher: Launcher, claim: Claim, notify: Notify, tell: Telling,
    since_start: Callable[[], float], elsewhere: StudyFolder,
) -> _Begun:  # fmt: skip
    """Find out about what is tuned, and create the study, or open it where it is resumed."""
    place = claim.place
    known = load_study(place) if claim.resumes else None
    earlier_s = known.elapsed_s if known else 0.0

    def spent_s() -> float:
        return earlier_s + since_start()

    draft = draft_here(draft, known.plan().space if known else None, notify)
    plan, facts = inspect(draft, launcher, claim, known, spent_s, elsewhere, notify, tell)
    plan, forecasts = widened(draft, plan, facts, spent_s, notify)
    here, runner = environment_with(launcher), Runner(plan, launcher, place.folder)
    tell("the baseline's first world")
    if claim.resumes:
        store = resume_study(place, plan, here, notify)
        first = go_on(runner, facts, store, spent_s, notify)
    else:
        elsewhere_runner = replace(runner, folder=elsewhere)
        store, first = begin(elsewhere_runner, facts, forecasts, claim, here, spent_s, notify)
    return _Begun(runner, store, first)


def _measure(
    measurer: Measurer,
    first: Sequence[Record],
    retry: Retry,
    presenter: Presenter,
) -> StudyAnswer:
    """Measure until the session ends, and write the answer; see `search` for what it raises."""
    try:
        with retry.write_ahead_log.reserved():
            answer = measure_study(measurer, first)
    except KeyboardInterrupt:
        retry.stop()
        answer = answer_of(measurer.store, measurer.log)
        _write(answer, measurer, presenter, retry)
        raise SearchStopped(answer, retry.write_ahead_log) from None
    except LauncherError as error:
        going_on = retry.write_ahead_log.going_on("that is over")
        raise LauncherError(f"{error}. {going_on}") from error
    _write(answer, measurer, presenter, retry)
    return answer


def _write(answer: StudyAnswer, measurer: Measurer, presenter: Presenter, retry: Retry) -> None:
    """Write an answer to its files; it is not lost if a page cannot be written."""
    presenter.write_answer(answer)
    report_stage(measurer.observer, Stage("drawing"))
    try:
        presenter.write_report(answer)
        measurer.store.publish(*presenter.notes(answer))
    except KeyboardInterrupt:
        raise SearchStopped(answer, retry.write_ahead_log) from None
    except Exception as error:
        measurer.observer.on_event(
            f"the report could not be written: {type(error).__name__}: {error}; "
            f"{command('report', str(answer.files.root))} tries again"
        )
