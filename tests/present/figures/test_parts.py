"""What the figures share: names, rows, scales, legends, intervals."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tests.plan.specs import for_all, threads
from tests.present.figures.test_timeline_data import stepped
from tests.present.results import big_study, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures.comparison import ComparedPoint
from tuner.present.figures.kit.axis import plain_log_axis, threads_axis
from tuner.present.figures.kit.config_names import cast_of, short_names, shown_rows
from tuner.present.figures.kit.inline_svg import inline_svg
from tuner.present.figures.kit.intervals import reach, top_of
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.rows import Rows, wrapped
from tuner.present.figures.timeline_figures import timeline_figures


def test_configs_of_one_knob_are_called_by_its_value(plan: StudyPlan) -> None:
    cast = cast_of(study_result(plan))
    assert cast.knob == "num_worker_threads"
    assert cast.name("num_worker_threads=4") == "4"
    assert cast.row_name("num_worker_threads=16") == "16 (baseline)"
    assert cast.full_name("num_worker_threads=8") == "num_worker_threads=8"
    assert cast.legend_name("num_worker_threads=4") == "best: num_worker_threads=4"


def test_what_all_configs_share_is_left_out_of_their_names() -> None:
    pair = [for_all(num_worker_threads=n, transports="shm") for n in (1, 2)]
    assert short_names(pair) == (
        "num_worker_threads", {str(pair[0]): "1", str(pair[1]): "2"},
    )  # fmt: skip
    mixed = [threads(16), for_all(num_worker_threads=4, transports="shm")]
    assert short_names(mixed) == (None, {str(each): str(each) for each in mixed})
    assert short_names([threads(16)]) == ("num_worker_threads", {str(threads(16)): "16"})
    assert short_names([]) == (None, {})


def test_the_baseline_that_is_best_has_one_role(plan: StudyPlan) -> None:
    cast = cast_of(study_result(plan, best=threads(16), challenger=threads(4)))
    assert cast.roles == {
        "num_worker_threads=16": "baseline", "num_worker_threads=4": "challenger",
    }  # fmt: skip
    cast = cast_of(study_result(plan, best=None, challenger=None))
    assert cast.roles == {"num_worker_threads=16": "baseline"}


def test_rows_keep_the_order_and_those_with_a_role(tmp_path: Path) -> None:
    answer = big_study(tmp_path)
    cast = cast_of(answer)
    rows = shown_rows(cast, answer.rows)
    assert len(rows) == 10
    assert rows == [row for row in answer.rows if row in rows]
    assert str(answer.baseline) in [row.label for row in rows]


def test_short_names_stand_beside_the_rows_and_long_ones_above() -> None:
    short, long = Rows(("1", "16 (baseline)")), Rows(("1", "a b=" + "x" * 60, "y" * 20))
    assert not short.above
    assert long.above
    assert long.lines[1].count("\n") == 1
    assert long.heights_in[1] > long.heights_in[0]
    for rows in (short, long):
        tops = np.cumsum([0, *rows.heights_in])
        for top, bottom, at in zip(tops[:-1], tops[1:], rows.at, strict=True):
            assert top < at - rows.bar_in / 2 < at + rows.bar_in / 2 < bottom


def test_rows_are_named_in_their_axes() -> None:
    axes = Figure().add_subplot()
    Rows(("1", "2")).draw(axes, "num_worker_threads")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["1", "2"]
    assert [text.get_text() for text in axes.texts] == ["num_worker_threads"]
    assert axes.get_ylim() == (0.5, 0)


@given(st.text(alphabet="ab =", max_size=200), st.integers(10, 60))
def test_no_line_of_a_name_is_too_long(name: str, width: int) -> None:
    lines = wrapped(name, width).split("\n")
    assert len(lines) <= 2
    assert max(map(len, lines)) <= width


def test_a_name_that_is_cut_says_so() -> None:
    assert wrapped("x" * 30, 10) == "x" * 10 + "\n" + "x" * 9 + "…"


def test_ticks_of_threads_have_room() -> None:
    axes = Figure().add_subplot()
    threads_axis(axes, "x", range(1, 17))
    named = [text.get_text() for text in axes.get_xticklabels()]
    assert {"1", "2", "4", "8", "16"} <= set(named)
    assert len(named) < 14
    threads_axis(axes, "x", [3.0])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["3"]


@given(st.floats(1e-3, 1e4), st.floats(1.01, 1e6), st.integers(2, 6))
def test_a_log_scale_has_a_few_plain_ticks(low: float, ratio: float, most: int) -> None:
    axes = Figure().add_subplot()
    plain_log_axis(axes, "y", low, low * ratio, most)
    ticks = axes.get_yticks()
    assert 1 <= len(ticks) <= most + 1
    assert all(low <= tick <= low * ratio for tick in ticks)
    assert not any("$" in text.get_text() for text in axes.get_yticklabels())


def test_intervals_are_drawn_as_far_as_they_are_known() -> None:
    nan = math.nan
    points = [ComparedPoint("a", 2.0, 1.5, 2.25), ComparedPoint("b", 3.0, nan, nan),
              ComparedPoint("c", 1.0, 0.0, math.inf)]  # fmt: skip
    assert top_of(points) == pytest.approx(3.15)
    assert reach(points, 3.0) == [[0.5, 0.0, 1.0], [0.25, 0.0, 5.0]]


def test_a_legend_reads_row_by_row() -> None:
    figure = Figure()
    handles = [Line2D([], [], label=str(n)) for n in range(5)]
    legend_below(figure, handles, 3)
    figure.draw_without_rendering()
    places = {
        text.get_text(): (-round(text.get_window_extent().y0), round(text.get_window_extent().x0))
        for text in figure.legends[0].get_texts()
    }
    assert sorted(places, key=lambda name: places[name]) == ["0", "1", "2", "3", "4"]


def test_a_name_with_an_underscore_first_is_an_entry_too() -> None:
    assert entry_name("_handler").endswith("_handler")
    assert not entry_name("_handler").startswith("_")


def test_inline_keeps_what_a_text_says() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="9pt">'
        '<text x="1.23456" style="fill: #1b1f24"> a &lt; b #1 </text></svg>'
    )
    made = inline_svg(svg, "name", 'said "so" & more')
    assert '<text x="1.23" style="fill:var(--fig-ink)"> a &lt; b #1 </text>' in made
    assert 'aria-label="said &quot;so&quot; &amp; more"' in made


def test_timelines_of_a_study_have_the_same_scales() -> None:
    slow, fast = timeline_figures(
        [
            ("baseline", "num_worker_threads=1", stepped(6, threads=1)),
            ("best", "num_worker_threads=4 " + "transports=shm+uv " * 2, stepped(6, threads=4)),
        ]
    )
    assert (slow.name, fast.name) == ("timeline_baseline", "timeline_best")
    boxes = [re.findall(r'viewBox="[^"]*"', figure.inline_svg) for figure in (slow, fast)]
    assert boxes[0] == boxes[1]
    ticks = [places_of_ticks(figure.inline_svg) for figure in (slow, fast)]
    assert ticks[0] == ticks[1]
    assert len(ticks[0]) > 3
    assert "num_worker_threads=4" in fast.alt
    assert "all 6 steps, 24 calls" in fast.caption


def places_of_ticks(svg: str) -> list[tuple[str, ...]]:
    """Where the ticks of the time are, and what they say."""
    number = r'<text x="([\d.]+)" y="([\d.]+)" style="[^"]*text-anchor:middle[^"]*">([\d.]+)<'
    return re.findall(number, svg)


def test_without_traces_there_are_no_timelines() -> None:
    assert timeline_figures([]) == []
