"""The search as a library call: the one place where the stages are wired together."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuner.errors import InterruptedSearchError, UsageError
from tuner.plan.study_plan import StudyPlan, draft_plan, read_plan_file, shipped_plan_path
from tuner.plan.workload_spec import CatalogueEntry
from tuner.present.notes import study_note, trial_notes
from tuner.present.study_files import write_answer, write_study_report
from tuner.present.study_result import StudyResult
from tuner.recommended.building import recommended_for
from tuner.searching.budget import Budget
from tuner.searching.progress import Observer, Silent
from tuner.searching.runner import Runner, check_budget
from tuner.searching.session import Session
from tuner.study.finding import find_study
from tuner.study.folder import StudyFolder
from tuner.study.records import CALIBRATION_BLOCK, Record
from tuner.study.storage.address import StudyAddress
from tuner.study.storage.store import StudyStore
from tuner.study.stored import answer_of
from tuner.text import plural
from tuner.world.environment import Environment
from tuner.world.launcher import Launcher
from tuner.world.local.launcher import LocalLauncher


class SearchInterrupted(InterruptedSearchError):  # noqa: N818 - an ending, not an error
    """The search was stopped from outside; `result` is what was known by then."""

    def __init__(self, result: StudyResult) -> None:
        self.result = result
        super().__init__(
            f"interrupted after {plural(result.blocks, 'block')}; everything measured is kept, "
            "and the same command with --resume goes on with it"
        )


def plan_mapping(
    plan: str | Path | None, workload: str | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """A plan file's mapping with `changes` on top of it.

    Without a plan file, the plan shipped for the workload is the ground. `options` are merged;
    every other change takes the place of what the file says, the search space as a whole.
    """
    path = Path(plan) if plan is not None else workload and shipped_plan_path(workload)
    mapping = read_plan_file(path) if path else {}
    if workload is not None:
        mapping["workload"] = workload
    given = {key: value for key, value in changes.items() if value is not None}
    if "options" in given and isinstance(mapping.get("options", {}), Mapping):
        given["options"] = {**mapping.get("options", {}), **given["options"]}
    return {**mapping, **given}


def tune(
    workload: str | None = None,
    *,
    plan: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
    launcher: Launcher | None = None,
    clock: Callable[[], float] = time.monotonic,
    **changes: Any,
) -> StudyResult:
    """Find the best RPC settings for a workload; leave the study and its files in its folder.

    `workload` is a shipped one's name, `package.module:Class` or `file.py:Class`; `plan` a TOML
    file. `changes` are the keys of a plan file: `space={"num_worker_threads": [1, 2, 4]}`,
    `options={"size": 400}`, `baseline`, `objective`, `budget`, `max_blocks`, `epsilon`,
    `confidence`, `name`, `storage`, `out`, `timed_part`, `deadline`, `seed`.

    Raises UsageError for a request that cannot be carried out, and SearchInterrupted on
    KeyboardInterrupt, with everything measured so far kept.
    """
    started_s = clock()
    if workload is None and plan is None:
        raise UsageError("name a workload or a plan: --workload udf, or --plan FILE")
    draft = draft_plan(plan_mapping(plan, workload, changes))
    with launcher or LocalLauncher() as running:
        try:
            spec = running.describe(draft.workload, draft.options)
        except UsageError as error:
            raise _with_more(error, draft.problems) from None
        study_plan = draft.finish(spec)
        return _search(
            study_plan, running, resume, overwrite, observer or Silent(), started_s, clock
        )


def load_study(
    study: str | Path, *, storage: str | None = None, out: str | Path | None = None
) -> StudyResult:
    """A study that was searched before, or is being searched now, by its name or its folder.

    `storage` is an Optuna storage URL, if it is not in its folder; `out` then the folder of its
    files. Raises UsageError if there is no such study.
    """
    found = find_study(str(study), storage=storage, out=None if out is None else Path(out))
    return StudyResult(found)


def shipped_workloads() -> list[CatalogueEntry]:
    """The workloads that come with this package, with their roles and options."""
    with LocalLauncher() as launcher:
        return launcher.catalogue()


def _with_more(error: UsageError, problems: tuple[str, ...]) -> UsageError:
    """The error, with what else is known to be wrong: all mistakes are told together."""
    if not problems:
        return error
    return UsageError.about("the plan", [*(error.problems or [str(error)]), *problems])


def _search(
    plan: StudyPlan,
    launcher: Launcher,
    resume: bool,
    overwrite: bool,
    observer: Observer,
    started_s: float,
    clock: Callable[[], float],
) -> StudyResult:
    folder = StudyFolder(plan.out)
    folder.check_writable()
    address = StudyAddress.of(plan, folder.database)
    environment = Environment.here()
    runner = Runner(plan, launcher, folder)
    first, before = None, time.time()
    if not _goes_on(plan, folder, address, resume, overwrite):
        first = runner.run(plan.baseline, CALIBRATION_BLOCK, None)
        check_budget(plan, first, clock() - started_s)
    with folder.locked():
        if first is None:
            store = StudyStore.resume(address, plan, environment)
        else:
            if address.exists():
                address.delete()
            _forget(folder, before=before)
            store = StudyStore.create(address, plan, environment)
        budget = Budget(plan.measuring.budget_s, store.elapsed_s, started_s, clock)
        session = Session(runner, store, observer, budget)
        try:
            if first is not None:
                session.add(
                    Record(trial=0, block=CALIBRATION_BLOCK, phase="calibration", outcome=first)
                )
            session.run()
        except KeyboardInterrupt:
            raise SearchInterrupted(_kept(store, session, observer)) from None
        return _kept(store, session, observer)


def _kept(store: StudyStore, session: Session, observer: Observer) -> StudyResult:
    """The answer so far, with its files written; an answer is not lost for want of its pictures."""
    answer = answer_of(store, session.log)
    result = StudyResult(answer)
    write_answer(answer)
    try:
        write_study_report(answer)
        store.publish(study_note(answer), trial_notes(answer), StudyFolder(answer.plan.out))
    except KeyboardInterrupt:
        raise SearchInterrupted(result) from None
    except Exception as error:
        observer.on_event(
            f"the report could not be written: {type(error).__name__}: {error}; "
            f"python -m tuner.report {result.plan.out} tries again"
        )
    return result


def _goes_on(
    plan: StudyPlan, folder: StudyFolder, address: StudyAddress, resume: bool, overwrite: bool
) -> bool:
    """Whether an existing study is to be resumed; UsageError if what exists is in the way."""
    where = folder.root if address.in_own_folder else address
    exists = address.exists()
    if resume and not exists:
        raise UsageError(f"there is no study {plan.name} in {where} to resume")
    if exists and not resume and not overwrite:
        raise UsageError(
            f"there is a study {plan.name} in {where} already: --resume goes on with it, "
            "--overwrite deletes it first, another --study and --out keep it"
        )
    owner = recommended_for(folder.recommended)
    owners = [owner] if owner else address.names() if address.in_own_folder else []
    if others := [name for name in owners if name != plan.name]:
        raise UsageError(
            f"the folder {folder.root} holds the study {others[0]}; give {plan.name} another --out"
        )
    return exists and resume


def _forget(folder: StudyFolder, before: float) -> None:
    """Remove the files of an earlier study: those a search makes, older than `before`.

    `before` is Unix time; the new study's first world may have left a failure already.
    """
    for failure in folder.failures.glob("*"):
        if failure.stat().st_mtime < before:
            shutil.rmtree(failure)
    for made in (folder.traces, folder.figures, folder.artifacts):
        shutil.rmtree(made, ignore_errors=True)
    for path in (folder.trials_csv, folder.recommended, folder.report):
        path.unlink(missing_ok=True)
