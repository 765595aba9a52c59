"""Two knobs as a grid, and the share of the variance that each knob explains."""

import math
import re
from dataclasses import replace
from itertools import product

import pytest
from matplotlib.figure import Figure

from testing.results import failed_later, known, measured, of_two_knobs, study_result
from testing.specs import for_all, threads
from tuner.present.figures.kit.theme import HEAT, ON_DARK_CELL, ON_LIGHT_CELL
from tuner.present.figures.knob_figures import (
    REST,
    HeatMap,
    draw_heat_map,
    draw_importance,
    heat_map,
    heat_map_figure,
    importance,
    importance_figure,
)
from tuner.study.answer import StudyAnswer

WAYS = ("shm", "uv")


def test_more_time_is_darker(grid: StudyAnswer) -> None:
    shown = known(heat_map(grid))
    values = [row.value for row in shown.cells.values() if row.is_measured]
    assert shown.shade(min(values)) == HEAT[0]
    assert shown.shade(max(values)) == HEAT[-1]
    assert shown.shade((min(values) * max(values)) ** 0.5) == HEAT[3]


def test_cells_say_their_number_or_what_failed(grid: StudyAnswer) -> None:
    shown = known(heat_map(grid))
    axes = Figure().add_subplot()
    draw_heat_map(shown, grid.contenders, axes)
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == len(shown.cells) == 12
    assert shown.rows == ("shm", "uv", "shm+uv", "default")
    assert texts.count("crashed") == 1
    assert sum(bool(re.fullmatch(r"\d\.\d\d", text)) for text in texts) == 11
    colours = {text.get_color() for text in axes.texts if text.get_text() != "crashed"}
    assert colours == {ON_LIGHT_CELL.light, ON_DARK_CELL.light}
    # Two cells are outlined, each by a dark line along a light one.
    assert len(axes.patches) == 12 + 2 * 2
    legend = known(axes.get_legend())
    assert [text.get_text() for text in legend.get_texts()] == ["baseline", "best"]
    figure = known(heat_map_figure(grid))
    assert "A cell with a word is a configuration that failed." in figure.caption
    assert "without a cell" not in figure.caption
    assert re.search(r"num_worker_threads=16, transports=shm: [\d.]+ ms \(baseline\)", figure.alt)


def test_numbers_of_cells_have_three_digits_and_are_never_powers() -> None:
    values = (0.0000123456, 9.996, 99.97, 1234.5)
    shown = known(heat_map(of_two_knobs(dict(zip(product((1, 2), WAYS), values, strict=True)))))
    axes = Figure().add_subplot()
    draw_heat_map(shown, {}, axes)
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"0.0000123", "10.0", "100", "1230"}


def test_one_knob_is_no_grid() -> None:
    assert heat_map(study_result()) is None


def test_a_cell_of_a_config_that_failed_later_says_how(grid: StudyAnswer) -> None:
    fast = grid.rows[0]
    stuck = failed_later(fast.trial, fast.config, 0.01)
    answer = replace(grid, rows=(*grid.rows[1:], stuck))
    shown, figure = known(heat_map(answer)), known(heat_map_figure(answer))
    axes = Figure().add_subplot()
    draw_heat_map(shown, answer.contenders, axes)
    assert "deadlocked" in [text.get_text() for text in axes.texts]
    assert shown.shade(answer.rows[0].value) == HEAT[0]
    assert "0.01" not in figure.alt
    assert "deadlocked (best)" in figure.alt


def test_a_value_that_never_works_is_no_dimension() -> None:
    rows = []
    for trial, (count, way, intra) in enumerate(product((4, 16), ("shm", "uv"), (1, 2))):
        one = for_all(num_worker_threads=count, transports=way, intra_op_threads=intra)
        works = intra == 1 and (count, way) != (16, "uv")
        rows.append(measured(trial, one, trial + 1.0) if works else failed_later(trial, one, 0.5))
    answer = study_result(rows=tuple(rows))
    shown = heat_map(answer)
    found = known(importance(answer))
    assert "intra_op_threads" not in found
    assert shown is not None
    assert (shown.x_label, shown.y_label) == ("num_worker_threads", "transports")
    assert {at: row.trial for at, row in shown.cells.items()} == {
        (0, 0): 0, (0, 1): 2, (1, 0): 4, (1, 1): 6,
    }  # fmt: skip
    assert shown.cells[1, 1].outcome == "deadlocked"
    assert all("intra_op_threads=1" in row.label for row in shown.cells.values())


def test_a_knob_of_many_values_goes_downwards() -> None:
    values = {(n, way): float(n) for n, way in product(range(1, 10), WAYS)}
    shown = known(heat_map(of_two_knobs(values)))
    assert (shown.x_label, shown.y_label) == ("transports", "num_worker_threads")


def test_values_that_differ_by_noise_look_alike() -> None:
    cells = {(0, 0): measured(0, threads(1), 2.0), (1, 0): measured(1, threads(2), 2.02)}
    shown = HeatMap(x_label="x", y_label="y", columns=("1", "2"), rows=("1",), cells=cells)
    assert shown.shade(2.0) == shown.shade(2.02) == HEAT[0]


def test_two_knobs_that_multiply_share_the_variance() -> None:
    values = {(n, way): n * (3.0 if way == "uv" else 1.0) for n, way in product((1, 2), WAYS)}
    found = importance(of_two_knobs(values))
    parts = {"transports": math.log(3) ** 2, "num_worker_threads": math.log(2) ** 2}
    total = sum(parts.values())
    assert found == pytest.approx({**{name: part / total for name, part in parts.items()}, REST: 0})
    assert list(found or ()) == ["transports", "num_worker_threads", REST]


def test_where_no_knob_explains_anything_alone_there_is_no_figure() -> None:
    crossed = {(1, "shm"): 1.0, (2, "uv"): 1.0, (1, "uv"): 2.0, (2, "shm"): 2.0}
    for values in (crossed, {(1, "shm"): 1.0, (2, "shm"): 2.0}):
        assert importance(of_two_knobs(values)) is None


def test_importance_is_drawn_as_bars(big: StudyAnswer) -> None:
    shown = known(importance(big))
    axes = Figure().add_subplot()
    draw_importance(shown, axes)
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([100 * share for share in shown.values()])
    assert {*shown} <= {text.get_text() for text in axes.texts}
    figure = known(importance_figure(big))
    assert figure.alt.startswith("num_worker_threads 8")
    assert " the 58 measured configurations " in figure.caption
