"""A study as its storage has it: what was measured, and what that answers."""

from pathlib import Path

from tuner.decide.conclusion import conclude
from tuner.decide.log import Confirmation, StudyLog
from tuner.decide.result import StudyAnswer, study_answer
from tuner.decide.study.address import StudyAddress
from tuner.decide.study.store import StudyStore
from tuner.plan.study_plan import StudyPlan


def stored_log(store: StudyStore, plan: StudyPlan) -> StudyLog:
    """Everything that the study has measured."""
    log = StudyLog(plan, store.settings(), store.records(), store.eliminated())
    if confirmation := store.noted("confirmation"):
        with store.reading("confirmation"):
            log.confirmation = Confirmation(**confirmation)
    return log


def stored_answer(address: StudyAddress, *, out: Path, storage: str | None) -> StudyAnswer:
    """The answer of a study, or how far it is; `out` is the folder of its files.

    UsageError if there is no such study, or if it cannot be read.
    """
    store = StudyStore.load(address)
    return answer_of(store, stored_log(store, store.plan(out, storage)))


def answer_of(store: StudyStore, log: StudyLog) -> StudyAnswer:
    """The answer of a study that is open; no conclusion while there is something to measure."""
    interrupted = bool(store.running())
    return study_answer(
        log,
        None if interrupted else conclude(log),
        store.environment,
        elapsed_s=store.elapsed_s,
        measured_at=store.measured_at,
        interrupted=interrupted,
    )
