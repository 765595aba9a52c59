"""A study as its storage has it: what was measured, and what that answers."""

from tuner.decide.interim_analysis import InterimAnalysis
from tuner.plan.study_plan import StudyPlan
from tuner.study.answer import StudyAnswer, study_answer
from tuner.study.conclusion import Conclusion, conclude
from tuner.study.log import StudyLog
from tuner.study.records import Sampling
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import REFUSED, load_study
from tuner.study.storage.store import StudyStore


def stored_log(store: StudyStore, plan: StudyPlan) -> StudyLog:
    """Everything that the study has measured."""
    configs, records = store.configs(), store.records()
    with store.reading("records"):
        log = StudyLog(plan, configs, records, store.eliminated())
    with store.reading("sampling"):
        if sampling := store.noted("sampling"):
            log.sampling = Sampling(**sampling)
    with store.reading("looks"):
        looks = store.noted("looks") or ()
        log.looks = tuple(InterimAnalysis(int(rows), *map(float, rest)) for rows, *rest in looks)
    with store.reading("unreliable"):
        log.unreliable = tuple(map(int, store.noted("unreliable") or ()))
    with store.reading("set_aside"):
        log.put_aside(*(store.noted("set_aside") or ()))
    with store.reading("dropped"):
        log.drop(*(store.noted("dropped") or ()))
    return log


def stored_answer(place: StudyPlace) -> StudyAnswer:
    """The answer of a study, or how far it is. UsageError if it is not there, or damaged."""
    store = load_study(place)
    log = stored_log(store, store.plan())
    with store.reading("its numbers"):
        return answer_of(store, log)


def answer_of(
    store: StudyStore, log: StudyLog, conclusion: Conclusion | None = None
) -> StudyAnswer:
    """The answer of a study that is open; no conclusion while there is something to measure."""
    interrupted = conclusion is None and bool(store.running())
    if conclusion is None:
        conclusion = Conclusion() if interrupted else conclude(log)
    return study_answer(
        log,
        conclusion,
        store.environment,
        store.folder,
        storage=store.storage_elsewhere,
        elapsed_s=store.elapsed_s,
        measured_at=store.measured_at,
        interrupted=interrupted,
        needed_s=store.noted(REFUSED),
    )
