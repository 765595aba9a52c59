"""A study as its storage has it: what was measured, and what that answers."""

from dataclasses import replace
from pathlib import Path

from tuner.decide.interim_analysis import InterimAnalysis
from tuner.plan.study_plan import StudyPlan
from tuner.study.answer import MachineUse, StudyAnswer
from tuner.study.blocks import TrialWorlds
from tuner.study.conclusion import Conclusion, conclude, resume_budget_s
from tuner.study.deadlocks import needs_threads
from tuner.study.evidence import causes_of, far_ahead, gains_of
from tuner.study.front import front_of
from tuner.study.log import BASELINE, BLOCK_PHASES, StudyLog
from tuner.study.records import ForecastChange, ForecastThreads, Sampling
from tuner.study.rows import TrialDetail, observations_of, passed_over, rows_of
from tuner.study.storage.address import StudyPlace, place_of
from tuner.study.storage.opening import NEEDED_S, load_study
from tuner.study.storage.store import StudyStore
from tuner.study.together import together_of
from tuner.trace.forecast.by_callers import read_callers
from tuner.world.measurement import Measurement, Quantiles


def find_study(
    reference: str, *, storage: str | None = None, out: Path | None = None
) -> StudyAnswer:
    """The answer of the study that `place_of` finds; UsageError if it is not there, or cannot be
    read."""
    return stored_answer(place_of(reference, storage=storage, out=out))


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
    log.forecasts, log.no_forecast = stored_forecasts(store), store.noted("no_forecast") or ""
    with store.reading("changes"):
        for trial, rows in store.noted("changes") or ():
            log.changes = {int(trial): tuple(ForecastChange(**row) for row in rows)}
    with store.reading("callers"):
        log.callers = {int(trial): read_callers(own) for trial, own in store.noted("callers") or ()}
    with store.reading("unreliable"):
        log.distrust(*map(int, store.noted("unreliable") or ()))
    with store.reading("set_aside"):
        log.put_aside(*(store.noted("set_aside") or ()))
    with store.reading("dropped"):
        log.drop(*(store.noted("dropped") or ()))
    return log


def stored_forecasts(store: StudyStore) -> dict[tuple[float, ...], ForecastThreads]:
    """What a trace of its baseline tells of others, by `StudyPlan.forecast_key`."""
    with store.reading("forecasts"):
        found = [ForecastThreads(**forecast) for forecast in store.noted("forecasts") or ()]
        return {(*forecast.threads, *forecast.intervals_s): forecast for forecast in found}


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
    plan = log.plan
    # What was measured before the race tells of a pair, too.
    paired = replace(gains_of(log), blocks=log.matrix(*BLOCK_PHASES))
    rows = rows_of(log, conclusion.tied_trials, paired)
    return StudyAnswer(
        **vars(conclusion),
        study=plan.name,
        files=store.folder,
        storage=store.storage_elsewhere,
        plan=plan,
        environment=store.environment,
        objective=plan.objective,
        resume_budget_s=resume_budget_s(log, store.elapsed_s, conclusion.more_s),
        blocks=sum(map(log.blocks, BLOCK_PHASES)),
        # A record of no time is the trace of a world that has another.
        worlds=sum(record.outcome.world_s > 0 for record in log.records),
        elapsed_s=store.elapsed_s,
        measured_at=store.measured_at,
        front=front_of(log),
        sampling=log.sampling,
        interrupted=interrupted,
        needed_s=store.noted(NEEDED_S),
        machine=MachineUse.of(
            (world for worlds in log.trials for world in worlds.samples),
            repeated_blocks=len(log.set_aside),
        ),
        forecasts=log.forecasts,
        no_forecast=log.no_forecast,
        changes=log.changes.get(conclusion.best_trial or BASELINE, ()),
        callers=log.callers.get(conclusion.best_trial or BASELINE, ()),
        needs_threads=needs_threads(log),
        far_ahead=far_ahead(log) if conclusion.verdict == "undecided" else None,
        rows=rows,
        causes=causes_of(log),
        passed_over=passed_over(log, rows, conclusion.best_trial, paired),
        together=together_of(log, conclusion.leader_trial),
        observations=observations_of(log),
        paired=paired,
        details={trial: _detail(worlds) for trial, worlds in enumerate(log.trials)},
    )


def _detail(worlds: TrialWorlds) -> TrialDetail:
    step_ms = Quantiles.of([step_s * 1e3 for world in worlds.samples for step_s in world.step_s])
    trace = worlds.trace.trace if isinstance(worlds.trace, Measurement) else None
    if trace is None:
        return TrialDetail(step_ms=step_ms)
    same = ("calls", "open_calls", "call_ms", "call_parts_ms")
    return TrialDetail(step_ms=step_ms, **{name: getattr(trace, name) for name in same})
