"""A search from its request to its answer: the one place that wires the stages together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tuner.errors import InterruptedSearchError, LauncherError, UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.searching.beginning import BETS, begin, forecast_space, go_on
from tuner.searching.calibrating import (
    calibrate,
    cannot_run,
    has_time_for,
    trace,
    why_broken,
)
from tuner.searching.exploring import explore, measure_both_goals
from tuner.searching.fitting import in_order_of_promise
from tuner.searching.inspecting import inspect, plan_of
from tuner.searching.measurer import Measurer
from tuner.searching.parallel import ParallelMeasurer
from tuner.searching.progress_reports import Observer, report_stage
from tuner.searching.racing import RACE_STARTED, measure_far_ahead, race
from tuner.searching.runner import Runner, changes_by, scratch_folder
from tuner.searching.searched_space import Notify, draft_here
from tuner.searching.wall_time import Budget, kept_for_end_s
from tuner.searching.widening import widened
from tuner.study.answer import StudyAnswer
from tuner.study.conclusion import conclude, resume_budget_s
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
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
        calibrate(measurer)
        _try_next_bets(measurer)
        if not has_raced:
            measure_both_goals(measurer)
        measure_far_ahead(measurer, is_resumed=False)
        race(measurer)
        while _try_next_bets(measurer):
            race(measurer)
        trace(measurer)
        measurer.reporter.alike()
    finally:
        measurer.close()
        measurer.note_elapsed()
    return _close(measurer)


def _try_next_bets(measurer: Measurer) -> bool:
    """Where nothing that a short budget was to compare can run, or keeps the limits, try what comes
    next, in time; whether something was tried."""
    log, has_tried = measurer.log, False
    while not log.reaches_all and (out := _why_no_bet_is_left(log)):
        if why_broken(log) or not has_time_for(measurer, 1):
            break
        first = in_order_of_promise(measurer.plan, log.forecasts)
        ordered = [*map(Config.from_json, measurer.store.noted(BETS) or ()), *first]
        config = next(each for each in ordered if each not in log.configs)
        measurer.observer.on_event(f"what was tried {out}: measuring {config}")
        # It is not measured beside what takes its place; a larger budget may have time for it.
        for trial in log.candidates:
            if trial != BASELINE and (broken := log.states[trial].breaks):
                said = "; ".join(each.text for each in broken)
                tried = f"{said}: another one was tried in its place"
                measurer.eliminate({trial: tried}, silently=True)
        measurer.propose([config])
        calibrate(measurer)
        has_tried = True
        if log.reaches_all:
            measurer.store.note(NEEDED_S, None)
    return has_tried


def _why_no_bet_is_left(log: StudyLog) -> str:
    """Why no rival that has had a world can win, as a clause; empty where one can, or where none
    is out but for the time that it takes."""
    rivals = [trial for trial in range(len(log.configs)) if trial != BASELINE]
    limits = [trial for trial in rivals if log.states[trial].breaks]
    fails = [trial for trial in rivals if log.states[trial].why_out is not None]
    left = {*log.runnable}.difference(limits, fails, [BASELINE])
    if left or not (limits or fails or log.states[BASELINE].never_ran()):
        return ""
    return "breaks a limit" if limits else "cannot run"


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


_KEPT = "everything measured is kept, and"


class SearchStopped(InterruptedSearchError):  # noqa: N818 - an ending, not an error
    """The search was stopped from outside; `answer` is the answer so far."""

    def __init__(self, answer: StudyAnswer) -> None:
        self.answer = answer
        super().__init__(
            f"interrupted after {plural(answer.blocks, 'block')}; {_KEPT} this continues it: "
            f"{resume_command(answer)}"
        )


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
    retry = Retry(str(place.address), WriteAheadLog(place.folder, name), notify)
    place = place._replace(address=replace(place.address, retry=retry))
    with claimed(place, resume=resume, overwrite=overwrite) as claim:
        # It takes a while to find out about a workload or a program: not for nothing.
        report_stage(observer, "setting up")
        before_s = clock()
        presenter.prepare()
        prepared_s = clock() - before_s
        with scratch_folder() as elsewhere:
            begun = _begin(draft, launcher, claim, notify, lambda: clock() - started_s, elsewhere)
        claim.mark_folder()
        # It is of the session before; a session that is killed leaves none.
        place.folder.answer.unlink(missing_ok=True)
        budget_s = begun.runner.plan.measuring.budget_s
        end_s = kept_for_end_s(budget_s, prepared_s)
        budget = Budget(budget_s, begun.store.elapsed_s, started_s, clock, end_s)
        retry.left_s = lambda: budget.remaining_s
        measurer = measurer_for(begun.runner, begun.store, observer, budget)
        return _measure(measurer, begun.first, retry, presenter)


class _Begun(NamedTuple):
    """A study that measuring goes on with."""

    runner: Runner
    store: StudyStore
    first: Sequence[Record]  # worlds that it lacks yet


def _begin(
    draft: PlanDraft, launcher: Launcher, claim: Claim, notify: Notify,
    since_start: Callable[[], float], elsewhere: StudyFolder,
) -> _Begun:  # fmt: skip
    """Find out about what is tuned, and create the study, or open it where it is resumed."""
    place = claim.place
    known = load_study(place) if claim.resumes else None
    earlier_s = known.elapsed_s if known else 0.0

    def spent_s() -> float:
        return earlier_s + since_start()

    draft = draft_here(draft, known.plan().space if known else None, notify)
    plan, facts = inspect(draft, launcher, claim, known, spent_s, elsewhere, notify)
    plan, forecasts = widened(draft, plan, facts, spent_s, notify)
    here, runner = environment_with(launcher), Runner(plan, launcher, place.folder)
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
        _write(answer, measurer, presenter)
        raise SearchStopped(answer) from None
    except LauncherError as error:
        raise LauncherError(
            f"{error}; {_KEPT} the same command with --resume continues it"
        ) from error
    _write(answer, measurer, presenter)
    return answer


def _write(answer: StudyAnswer, measurer: Measurer, presenter: Presenter) -> None:
    """Write an answer to its files; it is not lost if a page cannot be written."""
    presenter.write_answer(answer)
    report_stage(measurer.observer, "drawing")
    try:
        presenter.write_report(answer)
        measurer.store.publish(*presenter.notes(answer))
    except KeyboardInterrupt:
        raise SearchStopped(answer) from None
    except Exception as error:
        measurer.observer.on_event(
            f"the report could not be written: {type(error).__name__}: {error}; "
            f"{command('report', str(answer.files.root))} tries again"
        )
