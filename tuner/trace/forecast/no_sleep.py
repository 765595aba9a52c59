"""A program whose driver sleeps no more: its trace without that time, and what follows from it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tuner.trace.analyze.own_time import SLEEP, Paused, pauses
from tuner.trace.analyze.server_parallelism import window, window_length_ns
from tuner.trace.forecast.change import DRIVER, Change
from tuner.trace.forecast.changed import NOTHING, WIDE
from tuner.trace.forecast.changes import KINDS
from tuner.trace.forecast.forecasts import MODEL_ERROR, Forecast, Model, WhatIf
from tuner.trace.model.trace import FloatArray, Trace

POLLS = "whether the driver waits there for something the trace does not show"
_LASTING = {"cpu_ns", "run_queue_ns"}  # these are no points in time


@dataclass(frozen=True)
class Cut:
    """A trace without what the driver sleeps, and how long it is beside the whole one."""

    trace: Trace
    forecast: Forecast


def sleeps(trace: Trace) -> list[Change]:
    """One for each line at which the driver sleeps, with the percentage of the time."""
    whole_ns, took = max(window_length_ns(trace), 1), dict[str, float]()
    for pause in pauses(trace):
        if pause.why == SLEEP:
            took[pause.site] = took.get(pause.site, 0.0) + pause.took_ns
    return [
        Change(kind="no-sleep", function=DRIVER, site=site, number=100 * ns / whole_ns)
        for site, ns in took.items()
    ]  # fmt: skip


def forecast_with(
    trace: Trace, model: Model | str, what_if: WhatIf, roles: Sequence[tuple[str, str]] = ()
) -> Forecast:
    """What a configuration, and changes, would do: those of sleep need no model of the servers."""
    sites = {change.site for change in what_if.changes if change.kind == "no-sleep"}
    if not sites:
        return Forecast(why_not=model) if isinstance(model, str) else model.forecast(what_if)
    cut = without_sleep(trace, sites)
    others = [change for change in what_if.changes if change.kind != "no-sleep"]
    rest = what_if.threads or what_if.intervals_s or what_if.cpus or others
    if cut.forecast.why_not or not rest:
        return cut.forecast
    after = Model.of(cut.trace, roles)
    if isinstance(after, str):
        return Forecast(why_not=after)
    return cut.forecast.then(after.forecast(replace(what_if, changes=others)))


def without_sleep(trace: Trace, sites: Collection[str]) -> Cut:
    """The trace without what the driver sleeps at these lines; the empty one stands for all."""
    found = [
        pause for pause in pauses(trace)
        if pause.why == SLEEP and ("" in sites or pause.site in sites)
    ]  # fmt: skip
    whole = float(max(window_length_ns(trace), 1))
    if not found:
        return Cut(trace, Forecast(why_not=NOTHING))
    ratio, low, high = (
        max(1 - sum(spared) / whole, 1e-3)
        for spared in zip(*((p.spared_ns, p.most_ns, p.least_ns) for p in found), strict=True)
    )
    if high > WIDE * low:
        return Cut(trace, Forecast(why_not=POLLS))
    wider = math.exp(2 * MODEL_ERROR)
    condition = KINDS["no-sleep"].condition
    forecast = Forecast(
        ratio=ratio, ratio_low=low / wider, ratio_high=high * wider, condition=condition
    )
    return Cut(_shorter(trace, found), forecast)


def _shorter(trace: Trace, spared: Sequence[Paused]) -> Trace:
    """The trace without these spans of time: what comes later comes earlier."""
    most = {pause.end_ns: pause.end_ns - pause.start_ns for pause in spared}
    of_end = dict.fromkeys(sorted(most), 0.0)
    for pause in spared:  # at several lines of one span
        of_end[pause.end_ns] = min(of_end[pause.end_ns] + pause.spared_ns, most[pause.end_ns])
    ends, lengths = (np.array([*values]) for values in (of_end.keys(), of_end.values()))
    edges = np.ravel([ends - lengths, ends], "F")
    gone = np.ravel([np.cumsum(lengths) - lengths, np.cumsum(lengths)], "F")

    def at(times: FloatArray) -> FloatArray:
        return times - np.interp(times, edges, gone)

    def of(frame: pd.DataFrame) -> pd.DataFrame:
        names = [n for n in frame if str(n).endswith("_ns") and n not in _LASTING]
        return frame.assign(**{
            str(name): pd.array(np.round(at(frame[name].to_numpy(np.float64, na_value=np.nan))),
                                dtype="Float64").astype(frame[name].dtype)
            for name in names
        })  # fmt: skip

    opened, closed = window(trace)
    return replace(
        trace, calls=of(trace.calls), operators=of(trace.operators), callbacks=of(trace.callbacks),
        window_ns=(opened, round(float(at(np.array([float(closed)]))[0]))),
        ranks=tuple(
            replace(rank, pauses=(), gil=tuple(
                wait._replace(asked_ns=round(ns)) for wait, ns in zip(
                    rank.gil, at(np.array([w.asked_ns for w in rank.gil], np.float64)), strict=True)
            )) for rank in trace.ranks
        ),
    )  # fmt: skip
