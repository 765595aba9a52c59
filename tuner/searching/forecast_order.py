"""What a trace of the baseline tells of other numbers of threads: the order of what is measured.

A forecast is no evidence: it says what is measured first, and what only if there is time.
"""

from collections.abc import Sequence

from tuner.searching.calibrating import trace_contenders
from tuner.searching.measurer import Measurer
from tuner.searching.runner import patterns_of
from tuner.study.log import BASELINE
from tuner.study.records import ForecastThreads
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.world.measurement import Measurement

MOST_S, MOST_SHARE = 10.0, 0.05  # for all forecasts, and as a share of the budget


def forecast_threads(measurer: Measurer) -> None:
    """Trace the baseline, and note what it tells of the numbers of threads of the space."""
    log, plan = measurer.log, measurer.plan
    is_known = measurer.store.noted("forecasts") is not None
    if is_known or not plan.objective.is_time or BASELINE not in log.runnable:
        return
    others = dict.fromkeys(map(log.threads_by_role, plan.candidates()))
    others.pop(log.threads_by_role(plan.baseline), None)
    if not others:
        return
    trace_contenders(measurer, [BASELINE])
    if isinstance(log.trials[BASELINE].trace, Measurement):
        log.forecasts = _forecasts(measurer, [*others])
        noted = [each.model_dump(mode="json") for each in log.forecasts.values()]
        measurer.store.note("forecasts", noted)


def _forecasts(
    measurer: Measurer, others: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], ForecastThreads]:
    """Of so many numbers of threads as the time allows; none where the trace allows none."""
    plan, budget = measurer.plan, measurer.budget
    until_s = budget.spent_s + min(MOST_S, MOST_SHARE * budget.total_s)
    roles = patterns_of(plan.subject.ranks)
    model = Model.of(read_trace(measurer.store.folder.trace(plan.baseline)), roles)
    found = {}
    for threads in others:
        if isinstance(model, str) or budget.spent_s > until_s:
            break
        each = model.forecast(WhatIf(threads=dict(zip(plan.subject.roles, threads, strict=True))))
        if not each.why_not:
            found[threads] = _noted(threads, each)
    return found


def _noted(threads: tuple[int, ...], found: Forecast) -> ForecastThreads:
    if found.deadlock:
        return ForecastThreads(threads=threads, deadlock=found.deadlock)
    return ForecastThreads(
        threads=threads, ratio=found.ratio, low=found.ratio_low, high=found.ratio_high
    )
