"""The figures over worker threads: the parallelism of servers, and the forecasts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from testing.results import by_threads, known, measured, study_result
from testing.specs import for_all
from tuner.decide.gains import Paired
from tuner.decide.statistics import Interval
from tuner.present.figures.worker_threads import (
    draw_forecast_curve,
    draw_parallelism,
    forecast_curve,
    forecast_figure,
    parallelism,
)
from tuner.study.answer import StudyAnswer
from tuner.study.records import ForecastThreads


def parallel(mean: float, maximum: float) -> dict[str, Any]:
    return {"value": 2.0, "metrics": {"parallelism_mean": mean, "parallelism_max": maximum}}


def test_parallelism_is_shown_by_threads() -> None:
    shown = parallelism(
        by_threads({4: parallel(2.5, 4), 16: parallel(2.75, 9), 1: parallel(1.0, 1)})
    )
    assert shown is not None
    assert shown == ("num_worker_threads", [(1, 1.0, 1), (4, 2.5, 4), (16, 2.75, 9)], 2)
    axes = Figure().add_subplot()
    draw_parallelism(shown, axes)
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
    assert drawn["mean"] == [1.0, 2.5, 2.75]
    assert drawn["maximum"] == [1, 4, 9]
    assert drawn["one per thread"] == [1, 16]
    assert drawn["2 logical CPUs"] == [2, 2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "4", "16"]


def test_configs_without_a_trace_are_no_points() -> None:
    answer = by_threads({4: parallel(2.5, 4), 16: parallel(2.75, 9), 1: parallel(1.0, 1)})
    some, none, every = answer.rows
    rows = (replace(some, metrics={"parallelism_mean": 2.5}), replace(none, metrics={}), every)
    shown = known(parallelism(replace(answer, rows=rows)))
    assert [point.threads for point in shown.points] == [1, 4]
    axes = Figure().add_subplot()
    draw_parallelism(shown, axes)
    assert axes.get_ylim()[1] > 4


def answered() -> StudyAnswer:
    """16 threads are the baseline; 4 were measured, 1 was not, and 2 deadlock."""
    rows = [measured(n, for_all(num_worker_threads=each), 2.0) for n, each in enumerate((16, 4))]
    paired = Paired(Interval(1.2, 1.1, 1.3), 8)
    four = ForecastThreads(threads=(4, 4), ratio=0.8, low=0.7, high=0.9)
    one = ForecastThreads(threads=(1, 1), ratio=4.0, low=3.0, high=5.0)
    stuck = ForecastThreads(threads=(2, 2), deadlock="a call")
    rows[1] = replace(rows[1], forecast=four, against_baseline=paired)
    for trial, (threads, found) in enumerate({1: one, 2: stuck}.items(), start=2):
        row = measured(trial, for_all(num_worker_threads=threads), 2.0)
        rows.append(replace(row, forecast=found))
    return study_result(rows=tuple(rows))


def test_what_was_forecast_is_beside_what_was_measured() -> None:
    shown = forecast_curve(answered())
    assert shown is not None
    assert [*shown.forecast] == [1, 4, 16]
    assert shown.forecast[4] == Interval(1 / 0.8, 1 / 0.9, 1 / 0.7)
    assert shown.measured == {4: Interval(1.2, 1.1, 1.3)}
    axes = Figure().add_subplot()
    draw_forecast_curve(shown, axes)
    lines = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
    assert lines["forecast"] == pytest.approx([0.25, 1.25, 1.0])
    assert lines["baseline, traced"] == [1.0]
    low, high = axes.get_ylim()
    assert (low < 1 / 5, high > 1 / 0.7) == (True, True)


def test_the_figure_of_forecasts_says_its_numbers() -> None:
    figure = forecast_figure(answered())
    assert figure is not None
    assert figure.alt == (
        "1 thread: forecast 0.25 (0.20 to 0.33); "
        "4 threads: forecast 1.25 (1.11 to 1.43), measured 1.20 (1.10 to 1.30)"
    )


def test_without_forecasts_there_is_no_figure() -> None:
    rows = answered().rows
    assert forecast_figure(study_result(rows=rows[:1])) is None
    assert forecast_figure(study_result(rows=(rows[0], replace(rows[1], forecast=None)))) is None
