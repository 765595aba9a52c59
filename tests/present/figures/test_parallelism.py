"""The parallelism of servers by worker threads."""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from tests.present.results import by_threads, known
from tuner.present.figures.parallelism import draw_parallelism, parallelism


def parallel(mean: float, maximum: float) -> dict[str, float]:
    return {"parallelism_mean": mean, "parallelism_max": maximum}


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
    answer = by_threads({4: parallel(2.5, 4), 16: {}, 1: parallel(1.0, 1)})
    found: list[dict[str, float]] = [{"parallelism_mean": 2.5}, {}, parallel(1.0, 1)]
    rows = tuple(replace(row, metrics=each) for row, each in zip(answer.rows, found, strict=True))
    shown = known(parallelism(replace(answer, rows=rows)))
    assert [point.threads for point in shown.points] == [1, 4]
    axes = Figure().add_subplot()
    draw_parallelism(shown, axes)
    assert axes.get_ylim()[1] > 4
