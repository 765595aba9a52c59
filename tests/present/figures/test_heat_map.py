"""Two knobs as a grid."""

import re
from dataclasses import replace
from itertools import product

from matplotlib.figure import Figure

from tests.plan.specs import for_all, threads
from tests.present.results import failed, failed_later, measured, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures.heat_map import (
    Cell,
    HeatMap,
    draw_heat_map,
    heat_map,
    heat_map_figure,
)
from tuner.present.figures.importance import importance
from tuner.present.figures.kit.theme import HEAT, ON_DARK_CELL, ON_LIGHT_CELL
from tuner.study.answer import StudyAnswer


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
        (0, 1): Cell(1, 2.0, None, "best"),
        (0, 2): Cell(2, 4.0, None, None),
        (2, 0): Cell(0, 3.0, None, "baseline"),
        (1, 2): Cell(3, None, "crashed", None),
    }


def test_more_time_is_darker(grid: StudyAnswer) -> None:
    shown = heat_map(grid)
    assert shown is not None
    values = [cell.value for cell in shown.cells.values() if cell.value]
    assert shown.shade(min(values)) == HEAT[0]
    assert shown.shade(max(values)) == HEAT[-1]
    assert shown.shade((min(values) * max(values)) ** 0.5) == HEAT[3]


def test_cells_say_their_number_or_what_failed(grid: StudyAnswer) -> None:
    shown = heat_map(grid)
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
    figure = heat_map_figure(grid)
    assert figure is not None
    assert "A cell with a word is a configuration that failed." in figure.caption
    assert "without a cell" not in figure.caption
    assert re.search(r"num_worker_threads=16, transports=shm: [\d.]+ ms \(baseline\)", figure.alt)


def test_numbers_of_cells_have_three_digits_and_are_never_powers(plan: StudyPlan) -> None:
    ways = ("shm", "uv")
    values = [0.0000123456, 9.996, 99.97, 1234.5]
    rows = tuple(
        measured(trial, for_all(num_worker_threads=n, transports=way), value)
        for trial, ((n, way), value) in enumerate(zip(product((1, 2), ways), values, strict=True))
    )
    shown = heat_map(study_result(plan, rows=rows, best=None, challenger=None))
    assert shown is not None
    axes = Figure().add_subplot()
    draw_heat_map(shown, axes)
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"0.0000123", "10.0", "100", "1234"}


def test_only_two_knobs_are_a_grid(plan: StudyPlan, big: StudyAnswer) -> None:
    assert heat_map(study_result(plan)) is None
    assert heat_map(big) is None
    broken = tuple(
        failed(n, for_all(num_worker_threads=n + 1, transports=way))
        for n, way in enumerate(("shm", "uv"))
    )
    assert heat_map(study_result(plan, rows=broken)) is None


def test_a_cell_of_a_config_that_failed_later_says_how(grid: StudyAnswer) -> None:
    fast = grid.rows[0]
    stuck = failed_later(fast.trial, fast.config, 0.01)
    answer = replace(grid, rows=(*grid.rows[1:], stuck))
    shown, figure = heat_map(answer), heat_map_figure(answer)
    assert shown is not None
    assert figure is not None
    (cell,) = [cell for cell in shown.cells.values() if cell.trial == fast.trial]
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
    found = importance(answer)
    assert found is not None
    assert "intra_op_threads" not in found.shares
    assert shown is not None
    assert (shown.x_label, shown.y_label) == ("num_worker_threads", "transports")
    assert {at: cell.value for at, cell in shown.cells.items()} == {
        (0, 0): 1.0, (0, 1): 3.0, (1, 0): 5.0, (1, 1): None,
    }  # fmt: skip
    assert shown.cells[1, 1].failure == "deadlocked"
    shown_trials = [answer.by_trial[cell.trial] for cell in shown.cells.values()]
    assert all("intra_op_threads=1" in row.label for row in shown_trials)


def test_a_knob_of_many_values_goes_downwards(plan: StudyPlan) -> None:
    rows = tuple(
        measured(2 * n + place, for_all(num_worker_threads=n, transports=way), float(n))
        for n in range(1, 10)
        for place, way in enumerate(("shm", "uv"))
    )
    shown = heat_map(study_result(plan, rows=rows))
    assert shown is not None
    assert (shown.x_label, shown.y_label) == ("transports", "num_worker_threads")


def test_values_that_differ_by_noise_look_alike() -> None:
    cells = {(0, 0): Cell(0, 2.0, None, None), (1, 0): Cell(1, 2.02, None, None)}
    shown = HeatMap(x_label="x", y_label="y", columns=("1", "2"), rows=("1",), cells=cells)
    assert shown.shade(2.0) == shown.shade(2.02) == HEAT[0]
