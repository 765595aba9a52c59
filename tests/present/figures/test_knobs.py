"""What the knobs do: calls at once by threads, the grid of two, the shares of more."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.plan.specs import for_all, threads
from tests.present.results import (
    ROWS,
    big_study,
    failed,
    failed_later,
    measured,
    study_result,
    two_knobs,
)
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures import plot_parallelism, plot_scaling
from tuner.present.figures.heat_map import Cell, draw_heat_map, heat_map, heat_map_figure
from tuner.present.figures.importance import REST, draw_importance, importance, importance_figure
from tuner.present.figures.kit.theme import HEAT, ON_DARK_CELL, ON_LIGHT_CELL
from tuner.present.figures.kit.varying_knobs import threads_dimension
from tuner.present.figures.parallelism import AtOnce, draw_parallelism, parallelism
from tuner.study.answer import StudyAnswer


def at_once(plan: StudyPlan, found: dict[int, tuple[float, float]]) -> StudyAnswer:
    rows = tuple(
        replace(measured(n, threads(n), 2.0), parallelism_mean=mean, parallelism_max=most)
        for n, (mean, most) in found.items()
    )
    return study_result(plan, rows=rows)


def test_parallelism_is_told_by_threads(plan: StudyPlan) -> None:
    shown = parallelism(at_once(plan, {4: (2.5, 4), 16: (2.75, 9), 1: (1.0, 1)}))
    assert shown is not None
    assert shown.points == (AtOnce(1, 1.0, 1), AtOnce(4, 2.5, 4), AtOnce(16, 2.75, 9))
    assert (shown.x_label, shown.cores, shown.joined) == ("num_worker_threads", 2, True)
    axes = Figure().add_subplot()
    draw_parallelism(shown, axes)
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
    assert drawn["mean, while any"] == [1.0, 2.5, 2.75]
    assert drawn["most at once"] == [1, 4, 9]
    assert drawn["one per thread"] == [1, 16]
    assert drawn["2 CPU cores"] == [2, 2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "4", "16"]


def test_configs_without_a_trace_are_no_points(plan: StudyPlan) -> None:
    nan = float("nan")
    shown = parallelism(at_once(plan, {4: (2.5, nan), 16: (nan, nan), 1: (1.0, 1)}))
    assert shown is not None
    assert [point.threads for point in shown.points] == [1, 4]
    axes = plot_parallelism(at_once(plan, {4: (2.5, nan), 1: (1.0, nan)}), Figure().add_subplot())
    assert axes.get_ylim()[1] > 4


def test_configs_that_failed_after_their_trace_are_no_points(plan: StudyPlan) -> None:
    answer = at_once(plan, {4: (2.5, 4), 1: (1.0, 1)})
    shown = parallelism(replace(answer, rows=(*answer.rows, failed_later(2, threads(2), 1.0))))
    assert shown is not None
    assert [point.threads for point in shown.points] == [1, 4]
    rows = (answer.rows[0], failed_later(2, threads(2), 1.0))
    assert parallelism(replace(answer, rows=rows)) is None


def test_of_two_roles_the_threads_of_the_one_that_serves_count(plan: StudyPlan) -> None:
    rows = tuple(
        measured(
            n,
            Config.from_json(
                {"caller": {"num_worker_threads": n}, "server": {"num_worker_threads": 2 * n}}
            ),
            float(n),
        )
        for n in (1, 2)
    )
    shown = parallelism(study_result(plan, rows=rows))
    assert shown is not None
    assert shown.x_label == "server.num_worker_threads"
    assert [point.threads for point in shown.points] == [2, 4]


def test_the_threads_of_the_role_that_serves_have_the_axis_though_they_are_fewer(
    plan: StudyPlan,
) -> None:
    grid = [(caller, server) for caller in (1, 2, 4) for server in (2, 8)]
    rows = tuple(
        measured(
            n,
            Config.from_json(
                {"caller": {"num_worker_threads": caller}, "server": {"num_worker_threads": server}}
            ),
            n + 1.0,
        )
        for n, (caller, server) in enumerate(grid)
    )
    answer = study_result(plan, rows=rows)
    assert str(threads_dimension(answer)) == "server.num_worker_threads"
    shown = parallelism(answer)
    assert shown is not None
    axes = plot_scaling(answer, Figure().add_subplot())
    assert shown.x_label == axes.get_xlabel() == "server.num_worker_threads"


def test_a_driver_alone_has_the_axis(plan: StudyPlan) -> None:
    rows = tuple(
        measured(n, Config.from_json({"caller": {"num_worker_threads": n}}), 1.0) for n in (1, 2)
    )
    answer = study_result(plan, rows=rows)
    assert str(threads_dimension(answer)) == "caller.num_worker_threads"
    assert threads_dimension(study_result(plan, rows=rows[:1])) is None


def test_where_threads_do_not_vary_there_is_no_parallelism(plan: StudyPlan) -> None:
    rows = tuple(measured(n, for_all(transports=way), 1.0) for n, way in enumerate(("shm", "uv")))
    answer = study_result(plan, rows=rows)
    assert parallelism(answer) is None
    with pytest.raises(UsageError, match="nothing to plot"):
        plot_parallelism(answer)


def test_plots_go_into_axes_of_ones_own(plan: StudyPlan) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_scaling(study_result(plan), left) is left
    assert plot_parallelism(at_once(plan, {4: (2.5, 4), 1: (1.0, 1)}), right) is right
    assert left.get_xlabel() == right.get_xlabel() == "num_worker_threads"


def test_plots_without_axes_make_a_pyplot_figure(plan: StudyPlan) -> None:
    from matplotlib import pyplot

    before = pyplot.rcParams["font.size"], len(pyplot.get_fignums())
    axes = plot_scaling(study_result(plan))
    assert pyplot.gca() is axes
    assert len(pyplot.get_fignums()) == before[1] + 1
    pyplot.close(axes.figure)  # type: ignore[arg-type]
    assert (pyplot.rcParams["font.size"], len(pyplot.get_fignums())) == before
    with pytest.raises(UsageError, match="no settings were measured"):
        plot_scaling(study_result(plan, rows=(failed(0, threads(16)),)))


def test_the_grid_has_a_cell_for_each_config(plan: StudyPlan) -> None:
    rows = (
        measured(1, for_all(num_worker_threads=4, transports="shm"), 2.0),
        measured(2, for_all(num_worker_threads=4, transports="uv"), 4.0),
        measured(0, threads(16), 3.0),
        failed(3, for_all(num_worker_threads=8, transports="uv")),
    )
    best = for_all(num_worker_threads=4, transports="shm")
    shown = heat_map(study_result(plan, rows=rows, best=best, challenger=best))
    assert shown is not None
    assert (shown.x_label, shown.columns) == ("num_worker_threads", ("4", "8", "16"))
    assert (shown.y_label, shown.rows) == ("transports", ("default", "shm", "uv"))
    assert shown.cells == {
        (0, 1): Cell(str(best), 2.0, None, "best"),
        (0, 2): Cell("num_worker_threads=4 transports=uv", 4.0, None, None),
        (2, 0): Cell("num_worker_threads=16", 3.0, None, "baseline"),
        (1, 2): Cell("num_worker_threads=8 transports=uv", None, "crashed", None),
    }


def test_more_time_is_darker(tmp_path: Path) -> None:
    shown = heat_map(two_knobs(tmp_path))
    assert shown is not None
    values = [cell.value for cell in shown.cells.values() if cell.value]
    assert shown.shade(min(values)) == HEAT[0]
    assert shown.shade(max(values)) == HEAT[-1]
    assert shown.shade((min(values) * max(values)) ** 0.5) == HEAT[3]


def test_cells_say_their_number_or_what_failed(tmp_path: Path) -> None:
    answer = two_knobs(tmp_path)
    shown = heat_map(answer)
    assert shown is not None
    axes = Figure().add_subplot()
    draw_heat_map(shown, axes)
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == len(shown.cells) == 12
    assert texts.count("crashed") == 1
    assert sum(bool(re.fullmatch(r"\d\.\d\d", text)) for text in texts) == 11
    colours = {text.get_color() for text in axes.texts if text.get_text() != "crashed"}
    assert colours == {ON_LIGHT_CELL.light, ON_DARK_CELL.light}
    # Two cells are outlined, each by a dark line along a light one.
    assert len(axes.patches) == 12 + 2 * 2
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["baseline", "best"]
    figure = heat_map_figure(answer)
    assert figure is not None
    assert "Cells with words in them failed." in figure.caption
    assert "Blank" not in figure.caption
    assert re.search(r"num_worker_threads=16, transports=shm: [\d.]+ ms \(baseline\)", figure.alt)


def test_only_two_knobs_are_a_grid(plan: StudyPlan, tmp_path: Path) -> None:
    assert heat_map(study_result(plan)) is None
    assert heat_map(big_study(tmp_path)) is None
    broken = tuple(
        failed(n, for_all(num_worker_threads=n + 1, transports=way))
        for n, way in enumerate(("shm", "uv"))
    )
    assert heat_map(study_result(plan, rows=broken)) is None


def test_a_cell_of_configs_that_failed_later_says_how(tmp_path: Path) -> None:
    answer = two_knobs(tmp_path)
    fast = answer.rows[0]
    stuck = failed_later(fast.trial, Config.from_json(fast.config), 0.01)
    answer = replace(answer, rows=(*answer.rows[1:], stuck))
    shown, figure = heat_map(answer), heat_map_figure(answer)
    assert shown is not None
    assert figure is not None
    (cell,) = [cell for cell in shown.cells.values() if cell.label == fast.label]
    assert (cell.value, cell.failure) == (None, "deadlocked")
    axes = Figure().add_subplot()
    draw_heat_map(shown, axes)
    assert "deadlocked" in [text.get_text() for text in axes.texts]
    assert shown.shade(answer.rows[0].value) == HEAT[0]
    assert "0.01" not in figure.alt
    assert "deadlocked (best)" in figure.alt


def of_three_knobs(plan: StudyPlan) -> StudyAnswer:
    """Two values of three knobs; with more intra-op threads nothing works."""
    rows = []
    for trial, (count, way, intra) in enumerate(product((4, 16), ("shm", "uv"), (1, 2))):
        one = for_all(num_worker_threads=count, transports=way, intra_op_threads=intra)
        works = intra == 1 and (count, way) != (16, "uv")
        rows.append(measured(trial, one, trial + 1.0) if works else failed_later(trial, one, 0.5))
    return study_result(plan, rows=tuple(rows))


def test_a_value_that_never_works_is_no_dimension(plan: StudyPlan) -> None:
    answer = of_three_knobs(plan)
    shown = heat_map(answer)
    assert importance(answer) is None
    assert shown is not None
    assert (shown.x_label, shown.y_label) == ("num_worker_threads", "transports")
    assert {at: cell.value for at, cell in shown.cells.items()} == {
        (0, 0): 1.0, (0, 1): 3.0, (1, 0): 5.0, (1, 1): None,
    }  # fmt: skip
    assert shown.cells[1, 1].failure == "deadlocked"
    assert all("intra_op_threads=1" in cell.label for cell in shown.cells.values())


def test_what_failed_later_is_not_important(tmp_path: Path) -> None:
    answer = big_study(tmp_path)
    last = answer.rows[57]
    stuck = failed_later(last.trial, Config.from_json(last.config), 1000.0)
    shown = importance(replace(answer, rows=(*answer.rows[:57], *answer.rows[58:], stuck)))
    without = importance(replace(answer, rows=answer.rows[:57]))
    assert shown == without
    assert shown is not None
    assert shown.configs == 57


def test_a_knob_of_many_values_goes_downwards(plan: StudyPlan) -> None:
    rows = tuple(
        measured(2 * n + place, for_all(num_worker_threads=n, transports=way), float(n))
        for n in range(1, 10)
        for place, way in enumerate(("shm", "uv"))
    )
    shown = heat_map(study_result(plan, rows=rows))
    assert shown is not None
    assert (shown.x_label, shown.y_label) == ("transports", "num_worker_threads")


def test_importance_is_for_more_than_two_knobs(plan: StudyPlan, tmp_path: Path) -> None:
    assert importance(study_result(plan, rows=ROWS)) is None
    assert importance(two_knobs(tmp_path)) is None
    shown = importance(big_study(tmp_path))
    assert shown is not None
    assert list(shown.shares) == ["num_worker_threads", "transports", "intra_op_threads"]
    assert shown.shares["num_worker_threads"] > 0.8
    assert shown.rest == pytest.approx(max(0.0, 1 - sum(shown.shares.values())))
    assert shown.configs == 58


def test_importance_is_drawn_as_bars(tmp_path: Path) -> None:
    answer = big_study(tmp_path)
    shown = importance(answer)
    assert shown is not None
    axes = Figure().add_subplot()
    draw_importance(shown, axes)
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([*(100 * share for share in shown.shares.values()), 0], abs=1)
    texts = [text.get_text() for text in axes.texts]
    assert {*shown.shares, REST} <= set(texts)
    figure = importance_figure(answer)
    assert figure is not None
    assert figure.alt.startswith("num_worker_threads 8")
