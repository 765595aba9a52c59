"""What a trace of the baseline tells of other numbers of threads: the order of what is measured.

A forecast is no evidence: it says what is measured first, and what only if there is time.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import trace_contenders
from tuner.searching.measurer import Measurer
from tuner.searching.runner import patterns_of
from tuner.study.log import BASELINE
from tuner.study.records import ForecastThreads
from tuner.study.storage.store import StudyStore
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.model.trace import Trace
from tuner.world.measurement import Measurement

MOST_S, MOST_SHARE = 10.0, 0.05  # for all forecasts, and as a share of the budget


def forecast_threads(measurer: Measurer) -> None:
    """Trace the baseline, and note what it tells of the numbers of threads of the space."""
    log, plan, budget = measurer.log, measurer.plan, measurer.budget
    is_known = measurer.store.noted("forecasts") is not None
    if is_known or BASELINE not in log.runnable or not _others(plan):
        return
    trace_contenders(measurer, [BASELINE])
    if isinstance(log.trials[BASELINE].trace, Measurement):
        traced = read_trace(measurer.store.folder.trace(plan.baseline))
        found = forecasts_of(plan, traced, lambda: budget.spent_s)
        log.forecasts, log.no_forecast = found
        note_forecasts(measurer.store, found)


class Forecasts(NamedTuple):
    """What a trace of the baseline tells of the other threads of the space."""

    found: Mapping[tuple[int, ...], ForecastThreads] = {}  # by `StudyPlan.threads_by_role`
    why_not: str = ""  # why it tells of none; empty if it does, or was not asked


def note_forecasts(store: StudyStore, forecasts: Forecasts) -> None:
    """Keep them with the study."""
    store.note("forecasts", [each.model_dump(mode="json") for each in forecasts.found.values()])
    if forecasts.why_not:
        store.note("no_forecast", forecasts.why_not)


def forecasts_of(plan: StudyPlan, trace: Trace, spent_s: Callable[[], float]) -> Forecasts:
    """What a trace of the baseline tells, of as many threads as the time allows."""
    until_s = spent_s() + min(MOST_S, MOST_SHARE * plan.measuring.budget_s)
    if not (others := _others(plan)):
        return Forecasts()
    model = Model.of(trace, patterns_of(plan.subject.ranks))
    if isinstance(model, str):
        return Forecasts({}, model)
    found, why_not = dict[tuple[int, ...], ForecastThreads](), ""
    for threads in others:
        if spent_s() > until_s:
            break
        each = model.forecast(WhatIf(threads=dict(zip(plan.subject.roles, threads, strict=True))))
        why_not = why_not or each.why_not
        if not each.why_not:
            found[threads] = _noted(threads, each)
    return Forecasts(found, "" if found else why_not)


def _others(plan: StudyPlan) -> list[tuple[int, ...]]:
    """The threads of each role that a forecast is wanted for; none where time is no objective."""
    if not plan.objective.is_time:
        return []
    others = dict.fromkeys(map(plan.threads_by_role, plan.candidates()))
    others.pop(plan.threads_by_role(plan.baseline), None)
    return [*others]


def _noted(threads: tuple[int, ...], found: Forecast) -> ForecastThreads:
    if found.deadlock:
        return ForecastThreads(threads=threads, deadlock=found.deadlock)
    return ForecastThreads(
        threads=threads, ratio=found.ratio, low=found.ratio_low, high=found.ratio_high
    )
