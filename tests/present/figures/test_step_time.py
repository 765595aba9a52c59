from matplotlib.figure import Figure

from testing.results import known, measured, study_result
from testing.specs import for_all, threads
from tuner.decide.statistics import Interval
from tuner.present.figures.step_time import (
    CurvePoint,
    draw_scaling_curve,
    scaling_curve,
    step_time_figure,
)
from tuner.study.answer import StudyAnswer


def test_threads_alone_are_one_series_from_few_to_many() -> None:
    curve = scaling_curve(study_result())
    assert curve.threads == "num_worker_threads"
    assert curve.series == {
        "": [
            CurvePoint(1.0, 3, Interval(6.0, 5.5, 6.5)),
            CurvePoint(4.0, 1, Interval(2.0, 1.9, 2.1)),
            CurvePoint(8.0, 2, Interval(2.05, 1.95, 2.15)),
            CurvePoint(16.0, 0, Interval(3.0, 2.9, 3.1)),
        ]
    }


def test_configs_without_a_number_of_threads_have_that_of_pytorch() -> None:
    rows = (
        measured(1, threads(4), 1.0),
        measured(2, threads(8), 2.0),
        measured(0, for_all(transports="shm"), 3.0),
    )
    curve = scaling_curve(study_result(rows=rows))
    assert {name: [p.x for p in points] for name, points in curve.series.items()} == {
        "transports=default": [4.0, 8.0],
        "transports=shm": [16.0],
    }


def test_other_knobs_have_rows_cut_to_the_fastest_and_the_baseline() -> None:
    config = [for_all(rpc_timeout=seconds) for seconds in range(1, 19)]
    # The slowest is the baseline.
    rows = tuple(measured((place + 1) % 18, each, place + 1.0) for place, each in enumerate(config))
    answer = study_result(rows=rows, best=config[0])
    curve = scaling_curve(answer)
    assert curve.threads is None
    assert curve.rows.names == (*map(str, range(1, 16)), "18")
    assert [point.value.estimate for point in curve.points] == [*(n + 1.0 for n in range(15)), 18.0]
    assert curve.left_out == 2
    figure = known(step_time_figure(answer))
    assert "Shown are 16 of 18 configurations" in figure.caption


def test_very_many_series_are_named_only_if_fast(big: StudyAnswer) -> None:
    curve = scaling_curve(big)
    assert len(curve.series) == 12
    assert len(curve.named) == 5
    series = {point.trial: name for name, points in curve.series.items() for point in points}
    assert curve.answer.best_trial is not None
    assert {series[0], series[curve.answer.best_trial]} <= set(curve.named)
    axes = Figure().add_subplot()
    draw_scaling_curve(curve, axes)
    legend = known(axes.get_legend())
    assert "7 other combinations" in [text.get_text() for text in legend.get_texts()]


def test_threads_are_drawn_on_a_log_scale_from_zero_upwards() -> None:
    axes = Figure().add_subplot()
    draw_scaling_curve(scaling_curve(study_result()), axes)
    assert axes.get_xscale() == "log"
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "8", "16"]
