"""A search from its request to its answer: the one place that wires the stages together."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tuner.errors import InterruptedSearchError, LauncherError, UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.study_plan import StudyPlan
from tuner.scratch import own_prefix
from tuner.searching.budget import LEAST_FIRST_S, Budget, first_world_s
from tuner.searching.exploring import sampling_for
from tuner.searching.progress import Observer, tell_stage
from tuner.searching.runner import Runner, check_budget
from tuner.searching.session import Session
from tuner.study.answer import StudyAnswer
from tuner.study.claim import Claim, claimed
from tuner.study.continuing import resume_command
from tuner.study.finding import earlier_studies
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE
from tuner.study.records import CALIBRATION_BLOCK, Record
from tuner.study.sampled import Sampling
from tuner.study.spool import Spool
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import create_study, load_study, resume_study
from tuner.study.storage.patience import Patience
from tuner.study.storage.prior import in_prior_order, prior_costs
from tuner.study.storage.store import StudyStore
from tuner.study.stored import answer_of
from tuner.text import duration, plural
from tuner.world.environment import Environment
from tuner.world.groups import environment_with, members_of
from tuner.world.launcher import Launcher


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """What a search is asked for. UsageError if it contradicts itself."""

    draft: PlanDraft
    resume: bool = False
    """Whether to go on with a study that exists."""
    overwrite: bool = False
    """Whether to delete a study that exists."""

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise UsageError("--resume and --overwrite exclude each other")


class Notes(NamedTuple):
    """What a dashboard shows, in Markdown."""

    study: str
    trials: Mapping[int, str]
    """By trial number."""


class Presenter(Protocol):
    """Tells an answer to people and programs, in files and in notes."""

    def write_answer(self, answer: StudyAnswer) -> None:
        """Write the files that carry the answer; without them the search has failed."""

    def write_report(self, answer: StudyAnswer) -> None:
        """Write the page and its figures; the search goes on without what cannot be written."""

    def notes(self, answer: StudyAnswer) -> Notes:
        """What the dashboard is to show."""


_KEPT = "everything measured is kept, and"
_CONTINUED = "the same command with --resume continues it"


class SearchStopped(InterruptedSearchError):  # noqa: N818 - an ending, not an error
    """The search was stopped from outside; `answer` is the answer so far."""

    def __init__(self, answer: StudyAnswer) -> None:
        self.answer = answer
        super().__init__(
            f"interrupted after {plural(answer.blocks, 'block')}; {_KEPT} this continues it: "
            f"{resume_command(answer)}"
        )


def search(
    request: SearchRequest,
    launcher: Launcher,
    observer: Observer,
    presenter: Presenter,
    clock: Callable[[], float],
) -> StudyAnswer:
    """Measure until the answer is clear or the budget is spent; leave the study and its files.

    Args:
        request: What to search for.
        launcher: What runs the worlds; entered already.
        observer: Hears how far the search is.
        presenter: Writes the answer, for a search that is interrupted too.
        clock: Seconds from any beginning.

    Returns:
        The answer, as the study has it.

    Raises:
        UsageError: the request cannot be carried out; nothing has been changed.
        LauncherError: no world can be launched any more; everything measured so far is kept.
        StorageLostError: the storage went away for too long; everything measured so far is kept.
        StudyTakenError: another search took the study meanwhile.
        SearchStopped: a KeyboardInterrupt came; everything measured so far is kept.
    """
    started_s = clock()

    def since_start() -> float:
        return clock() - started_s

    draft = request.draft
    if draft.problems:
        if draft.workload and draft.program is None:
            # A workload is asked for its own mistakes, too.
            plan_of(draft, launcher)
        raise UsageError.of_request(draft.problems)
    name = draft.study_name
    place = StudyPlace.named(name, storage=draft.storage, out=draft.out)
    patience = Patience(str(place.address), Spool(place.folder, name), observer.on_event)
    place = place.waiting(patience)
    with claimed(place, resume=request.resume, overwrite=request.overwrite) as claim:
        # It takes a while to find out about a workload or a program: not for nothing.
        tell_stage(observer, "setting up")
        if draft.program is None:
            plan = plan_of(draft, launcher)
        else:
            plan = _plan_of_program(draft, launcher, claim)
            observer.on_event(f"comparing the {plan.objective.label}{_why_this(plan)}")
        here, first = environment_with(launcher), None
        if claim.resumes:
            store = resume_study(place, plan, here, observer.on_event)
        else:
            candidates, known = _in_prior_order(place, plan, here)
            first, sampling = _first_world(claim, plan, launcher, since_start)
            if known and sampling is None:
                observer.on_event(
                    f"earlier studies here measured {plural(known, 'configuration')} of these: "
                    "what did well is measured first, and nothing of it counts"
                )
            store = create_study(place, plan, here, observer.on_event, candidates, sampling)
        claim.mark_folder()
        # It tells of the session before; a session that is killed leaves none.
        place.folder.answer.unlink(missing_ok=True)
        runner = Runner(plan, launcher, place.folder)
        budget = Budget(plan.measuring.budget_s, store.elapsed_s, started_s, clock)
        patience.left_s = lambda: budget.remaining_s
        session = Session(runner, store, observer, budget)
        try:
            with patience.spool.reserved():
                if first is not None:
                    session.add(first)
                session.run()
        except KeyboardInterrupt:
            patience.stop_waiting()
            raise SearchStopped(_told(store, session, observer, presenter)) from None
        except LauncherError as error:
            raise LauncherError(f"{error}; {_KEPT} {_CONTINUED}") from error
        return _told(store, session, observer, presenter)


def _in_prior_order(
    place: StudyPlace, plan: StudyPlan, here: Environment
) -> tuple[list[Config], int]:
    """The plan's candidates, those first that did well in the studies beside: never evidence.

    The number is how many of these the other studies have measured.
    """
    candidates = plan.candidates()
    if len(candidates) < 3:
        return candidates, 0
    prior = prior_costs(earlier_studies(place), plan, here)
    return in_prior_order(candidates, prior), sum(config in prior for config in candidates[1:])


def _why_this(plan: StudyPlan) -> str:
    """Why a program has another objective than most, as a clause."""
    subject = plan.subject
    if not isinstance(subject, ProgramSpec) or plan.objective.name != "ms_per_call":
        return ""
    if subject.window_s is not None:
        return ", in a window of each run"
    if len(set(subject.calls)) <= 1:
        return ""
    counts = " and ".join(map(str, subject.calls))
    return f", because the number of calls varies from run to run: {counts}"


def plan_of(draft: PlanDraft, launcher: Launcher, failure_folder: Path | None = None) -> StudyPlan:
    """The plan for what is tuned; all mistakes are told together."""
    try:
        spec = launcher.subject_of(draft, failure_folder)
    except UsageError as error:
        if not draft.problems:
            raise
        problems = [*(error.problems or [str(error)]), *draft.problems]
        raise UsageError.of_request(problems) from None
    return draft.finish(spec)


def _plan_of_program(draft: PlanDraft, launcher: Launcher, claim: Claim) -> StudyPlan:
    """The plan for a program. A study that is resumed goes on with the objective that it has."""
    if claim.resumes and draft.chooses_objective:
        known = load_study(claim.place).plan().measuring.objective_name
        draft = draft.with_objective(known)
    try:
        return plan_of(draft, launcher, claim.place.folder.first_run)
    finally:
        claim.keep_first_run()


def _first_world(
    claim: Claim, plan: StudyPlan, launcher: Launcher, spent_s: Callable[[], float]
) -> tuple[Record, Sampling | None]:
    """Begin a new study by the calibration of its baseline, which is its first record.

    This world tells whether the budget is enough. Until that is known nothing is written, and an
    earlier study stays.
    """
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
        elsewhere = StudyFolder(Path(scratch))
        longest_s = first_world_s(plan.measuring.budget_s, spent_s())
        if longest_s < LEAST_FIRST_S:
            raise UsageError(
                f"a budget of {duration(plan.measuring.budget_s)} is too short: setting up alone "
                f"took {duration(spent_s())}; give a larger --budget"
            )
        runner = Runner(plan, launcher, elsewhere)
        outcome = runner.run(plan.baseline, CALIBRATION_BLOCK, None, longest_s)
        if (sampling := sampling_for(plan, outcome, spent_s())) is None:
            check_budget(plan, outcome, spent_s())
        claim.begin()
        _keep_evidence(elsewhere, claim.place.folder)
    group = 1 if len(members_of(launcher)) > 1 else None
    record = Record(
        trial=BASELINE, block=CALIBRATION_BLOCK, phase="calibration", outcome=outcome, group=group
    )
    return record, sampling


def _keep_evidence(scratch: StudyFolder, folder: StudyFolder) -> None:
    """Move what a failed world left into the study's folder."""
    for left in scratch.failures.glob("*"):
        kept = folder.failures / left.name
        shutil.copytree(left, kept, dirs_exist_ok=True)
        folder.manifest.add(*kept.glob("*"))


def _told(
    store: StudyStore, session: Session, observer: Observer, presenter: Presenter
) -> StudyAnswer:
    """The answer so far, told; it is not lost if a page cannot be written."""
    answer = answer_of(store, session.log)
    presenter.write_answer(answer)
    tell_stage(observer, "drawing")
    try:
        presenter.write_report(answer)
        notes = presenter.notes(answer)
        store.publish(notes.study, notes.trials)
    except KeyboardInterrupt:
        raise SearchStopped(answer) from None
    except Exception as error:
        observer.on_event(
            f"the report could not be written: {type(error).__name__}: {error}; "
            f"python -m tuner.report {answer.folder.root} tries again"
        )
    return answer
