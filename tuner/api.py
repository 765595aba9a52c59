"""The public functions: what they take, what they return, and what they raise."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tuner.errors import (
    InterruptedSearchError,
    NothingRanError,
    ProgramFailedError,
    UsageError,
)
from tuner.files import own_prefix
from tuner.plan.draft import PlanDraft, asked_draft, changed, draft_plan, given
from tuner.plan.keys import LauncherName
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import CatalogueEntry
from tuner.present.check_result import CheckResult
from tuner.present.notes import study_note, trial_notes
from tuner.present.progress_display import shown_in_notebook
from tuner.present.study_files import prepare_drawing, write_answer, write_study_report
from tuner.present.study_result import StudyResult
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Recommendation, read_recommendation
from tuner.recommended.recheck import recheck_plan
from tuner.searching.dry_run import DryRun
from tuner.searching.dry_run import dry_run as dry_run_of
from tuner.searching.inspecting import plan_of
from tuner.searching.progress_reports import Observer, Silent
from tuner.searching.searched_space import draft_here
from tuner.searching.session import Presenter, SearchStopped, search
from tuner.study.folder import StudyFolder, folder_of
from tuner.study.resuming import asked_or_resumed_draft
from tuner.study.stored import find_study
from tuner.world.launcher import Launcher
from tuner.world.launchers import launcher_for
from tuner.world.shipped import shipped_catalogue

Table = Mapping[str, Any] | list[tuple[str, Any]]
"""Knobs with their values: a mapping, or pairs as the command line gives them."""


class SearchInterrupted(InterruptedSearchError):  # noqa: N818 - an ending, not an error
    """The search was stopped from outside; `result` is the answer so far."""

    def __init__(self, message: str, result: StudyResult) -> None:
        super().__init__(message)
        self.result = result
        """The answer so far."""


def tune(
    workload: str | None = None,
    *,
    program: Sequence[str] | str | None = None,
    beside: Sequence[Sequence[str] | str] = (),
    roles: Mapping[str, str] | None = None,
    expect: str | None = None,
    metric: str | None = None,
    maximize: bool = False,
    window: str | float | None = None,
    warm_up: str | float | None = None,
    cold: bool = False,
    plan: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    space: Table | None = None,
    baseline: Table | None = None,
    objective: str | Sequence[str] | None = None,
    require: str | Sequence[str] | None = None,
    budget: str | float | None = None,
    max_blocks: int | None = None,
    exhaustive: bool = False,
    epsilon: str | float | None = None,
    confidence: str | float | None = None,
    min_time: str | float | None = None,
    deadline: str | float | None = None,
    sampler: str | None = None,
    seed: int | None = None,
    launcher: Launcher | LauncherName | None = None,
    ray_address: str | None = None,
    interface: str | None = None,
    isolation: bool | None = None,
    place: Table | None = None,
    groups: int | None = None,
    cpus_per_world: int | None = None,
    name: str | None = None,
    storage: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
    show: Callable[[bytes], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> StudyResult:
    """Find the best RPC configuration for a workload, or for a program that nobody edits.

    The study and its files are left in a folder. What is not given comes from the plan file;
    without one, from the plan that is shipped for the workload; without one too, the defaults below
    hold. Durations are seconds, or text such as `"60s"`, `"500ms"` or `"1m30s"`; fractions are
    numbers, or text such as `"3%"`.

    Args:
        workload: A shipped workload's name, `package.module:Class` or `file.py:Class`.
        program: Instead of a workload a command, such as `["python", "main.py"]`, or
            `"python main.py"`, which is split as a shell does. Each world is one run of it.
        beside: Further commands that together with `program` are one world.
        roles: A regular expression of the RPC names of each role. Default: the name of a rank
            without its digits is its role.
        expect: A regular expression that the program's output must match, or its answer is wrong.
        metric: Instead of time: `"NAME=REGEX"`, whose only group is a number in the output.
        maximize: Whether more of `metric` is better.
        window: How long to count the calls of a program that does not end; then it is ended. With
            `auto`, the default, long runs, too, where a part stands for all; `off`: whole runs.
        warm_up: From the last rank's `init_rpc` to the window. Default: 5 s.
        cold: Start the program's interpreters for each run, even where they could be forked.
        plan: A plan file (TOML).
        options: Workload options by name, such as `{"size": 400}`; the plan's others stay.
        space: The knobs to tune and their values, such as `{"num_worker_threads": [1, 2, 4]}`, or
            for one role `{"agent": {"num_worker_threads": "1..6"}}`. It replaces the plan's space.
            Default: `num_worker_threads` from 1 to 32, by powers of two, and `cpu_binding`.
        baseline: The configuration to compare with. Default: PyTorch's, or the program's own.
        objective: The number to make small, by its name in `tuner.plan.objectives.OBJECTIVES`.
            Two of them, as `"step_ms,cpu_ms_per_step"`, give a Pareto front too; the first decides.
            Default: `step_ms`; for a program `rpc_active_s`, or `ms_per_call` where its number of
            calls varies with its work.
        require: What a configuration must keep to be recommended, such as `"peak_rss_mb<=2000"`:
            limits on the median over its worlds, by the names in `tuner.plan.objectives.LIMITED`.
        budget: Wall time of all sessions of the study. `"auto"`: until the answer is clear, at most
            10 min, or what is named, as `"auto:20m"`. Default: 60 s; for a program 5 min.
        max_blocks: The most blocks to measure. Default: as many as the budget allows.
        exhaustive: Race all configurations at once, until the budget is spent. Default: the best
            bets first, one after the other, until the answer is certain.
        epsilon: The smallest difference that matters, a fraction. Default: 3 %.
        confidence: How sure every claim must be, a fraction. Default: 95 %.
        min_time: How long the timed steps of a world last at least; longer where the noise shows
            that it pays. Default: 0.1 s.
        deadline: A longer world is ended, as a failure. Default: 30 s; for a program 10 min.
        sampler: Who proposes where the budget is not enough for the grid: `tpe`, `gp` or `random`;
            `grid` measures all of it. Default: `auto`: `grid` where it is enough, and else `tpe`.
        seed: Seeds the inputs, and the order of the configurations in blocks. Default: 0.
        launcher: What runs the worlds: `local`, processes on this machine; `ray`, processes on the
            hosts of a Ray cluster; or a launcher of your own. Default: `local`.
        ray_address: `HOST:PORT` of a running cluster. Default: the one that runs here, or else one
            of this machine alone, which is ended in the end.
        interface: The network interface between hosts. Default: that of the route to the others.
        isolation: Whether worlds on this machine run in a network of their own, where that is
            allowed. Default: yes.
        place: Where roles run on a cluster, such as `{"server": 1, "caller": "spread"}`: on so many
            hosts, or on as many as there are; `"1,cpus=4,gpus=1"` reserves for each rank. Roles of
            different entries share no host; `"server+caller"` share theirs. Default: each rank
            where the fewest are.
        groups: How many groups measure blocks at the same time, each a block wholly by itself: sets
            of this machine's CPUs, or of a cluster's hosts. Default: 1.
        cpus_per_world: Pin the ranks of each world to so many logical CPUs, which they share.
            Default: an equal part for each of several groups.
        name: The study's name. Default: the plan's, or the workload's.
        storage: An Optuna storage URL. Default: SQLite in the study's folder.
        out: The study's folder; a new one, an empty one, or that of an earlier study of this name.
            Default: `studies/NAME`.
        resume: Go on with a study that was interrupted, or with a larger budget with one that is
            finished; nothing is measured twice. `name`, with `storage` where it was given, is
            enough to say which: what it tunes, and how, is in the study.
        overwrite: Delete a study of this name first, with the files that it made.
        observer: Hears how far the search is. Default: nobody; in a notebook, the cell shows it.
        show: Takes what the program prints, as it comes. Default: nobody.
        clock: Tells the time in seconds; for tests, whose worlds take none.

    Returns:
        The answer: `verdict`, `best` (a configuration), `speedup` over the baseline with its
        interval, and `trials`, a frame with one row per configuration.

    Raises:
        UsageError: the request cannot be carried out; the message lists everything that is wrong.
        SearchInterrupted: a KeyboardInterrupt came; its `result` is the answer so far, and
            everything measured is kept.
    """
    draft = asked_or_resumed_draft(locals(), resume=resume)
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    try:
        with _running(draft, launcher, observer, show) as (running, hearing):
            answer = search(
                draft, running, hearing, _files(), clock, resume=resume, overwrite=overwrite
            )
    except SearchStopped as ending:
        raise SearchInterrupted(str(ending), StudyResult.of(ending.answer)) from None
    return StudyResult.of(answer)


def check(
    study: str | Path,
    *,
    storage: str | None = None,
    budget: str | float | None = None,
    max_blocks: int | None = None,
    epsilon: str | float | None = None,
    confidence: str | float | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    ray_address: str | None = None,
    interface: str | None = None,
    isolation: bool | None = None,
    observer: Observer | None = None,
    show: Callable[[bytes], None] | None = None,
    launcher: Launcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CheckResult:
    """Measure an earlier recommendation against its baseline, on this machine and now.

    Where the baseline was recommended, its strongest rival is measured with it. What is not
    described here is as for `tune`.

    Args:
        study: A study's name or folder, or a `recommended.json`, or an export to JSON or TOML.
        storage: The Optuna storage URL that the study was searched with, if that is not in its
            folder.
        budget: The most wall time. It ends earlier where the answer is clear. Default: 60 s; for a
            program 5 min.
        max_blocks: The most pairs to measure. Default: as many as the budget allows.
        epsilon: The smallest difference that matters, a fraction. Default: the study's.
        confidence: How sure every claim must be, a fraction. Default: the study's.
        out: A folder for its files; an earlier check there is deleted. Default: none are kept.
        ray_address: Default: the study's, as for `interface` and `isolation`; what else it says of
            where its worlds ran cannot change.

    Returns:
        The result: `outcome` is `holds`, `no-longer-holds`, `undecided` or `cannot-run`; `speedup`
        is today's with its interval, and `str(result)` a sentence.

    Raises:
        UsageError: There is no such study, it recommends nothing, or it compared nothing with its
            baseline.
        NothingRanError: The program fails as it is.
        InterruptedSearchError: A KeyboardInterrupt came.
    """
    # The storage is that of the study which is checked.
    keys = given(locals()) | {"storage": None}
    earlier = _recommendation_at(str(study), storage)
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
        folder = Path(scratch) / "check" if out is None else Path(out)
        draft = draft_plan(changed(recheck_plan(earlier), {**keys, "out": str(folder)}))
        presenter = Presenter() if out is None else _files()
        try:
            with _running(draft, launcher, observer, show) as (running, hearing):
                answer = search(draft, running, hearing, presenter, clock, overwrite=True)
        except SearchStopped:
            raise InterruptedSearchError("the check was interrupted") from None
        except ProgramFailedError as error:
            why = f"the recommendation {earlier.config} cannot run here: {error}"
            raise NothingRanError(why) from None
    return CheckResult(earlier, answer)


def _recommendation_at(reference: str, storage: str | None) -> Recommendation:
    """What a study recommends, or what a `recommended.json` or an export of one says, which may be
    all that is left in the folder of a study."""
    path = Path(reference)
    if storage is None and folder_of(reference) is None:
        left = StudyFolder(path).recommended
        if left.is_file() or path.is_file() or path.suffix in (".json", ".toml"):
            return read_recommendation(left if left.is_file() else path)
    return recommendation_of(find_study(reference, storage=storage))


def dry_run(
    *,
    show: Callable[[bytes], None] | None = None,
    launcher: Launcher | LauncherName | None = None,
    clock: Callable[[], float] = time.monotonic,
    **asked: Any,
) -> tuple[DryRun, StudyPlan]:
    """Tell what a search would do, from a few worlds of its baseline; nothing is left behind.

    The keywords are those of `tune`. NothingRanError if the baseline does not run.
    """
    draft = draft_here(asked_draft({**asked, "launcher": launcher}), None, Silent().on_event)
    with _running(draft, launcher, Silent(), show) as (running, _):
        whole = plan_of(draft, running)
        return dry_run_of(whole, running, clock), whole


def load_study(
    study: str | Path, *, storage: str | None = None, out: str | Path | None = None
) -> StudyResult:
    """Read a study that was searched before, or is being searched now.

    Args:
        study: Its name, whose folder is `studies/NAME`, or the path of its folder.
        storage: The Optuna storage URL that it was searched with, if that is not in its folder.
        out: The folder of its files, if that is not `studies/NAME`.

    Returns:
        The answer, as `tune` returned it, or as far as the study is.

    Raises:
        UsageError: there is no such study, or it cannot be read.
    """
    found = find_study(str(study), storage=storage, out=None if out is None else Path(out))
    return StudyResult.of(found)


def shipped_workloads() -> list[CatalogueEntry]:
    """List the workloads that come with this package: their roles, options and defaults."""
    return shipped_catalogue()


def _files() -> Presenter:
    return Presenter(
        write_answer,
        write_study_report,
        prepare_drawing,
        lambda answer: (study_note(answer), trial_notes(answer)),
    )


@contextmanager
def _running(
    draft: PlanDraft,
    given: Launcher | LauncherName | None,
    observer: Observer | None,
    show: Callable[[bytes], None] | None,
) -> Iterator[tuple[Launcher, Observer]]:
    """A person's own launcher, or that of the plan, entered; and who is notified."""
    with ExitStack() as stack:
        hearing = observer or stack.enter_context(shown_in_notebook())
        for note in draft.notes:
            hearing.on_event(note)
        if given is None or isinstance(given, str):
            given = launcher_for(draft, notify=hearing.on_event, show=show)
        yield stack.enter_context(given), hearing
