"""Figures with a row per configuration, and legends beside the axes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tuner.present.figures.kit.canvas import rendered, styled_figure
from tuner.present.figures.kit.named_rows import (
    Rows,
    entry_name,
    legend_above,
    legend_below,
    wrapped,
    wrapped_apart,
)


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


def test_a_name_that_is_cut_says_so() -> None:
    assert wrapped("x" * 30, 10) == "x" * 10 + "\n" + "x" * 9 + "…"


@given(
    st.lists(st.text(alphabet="ab =", min_size=1, max_size=150), unique=True, min_size=1),
    st.integers(10, 60),
)
def test_names_that_differ_look_different(names: list[str], width: int) -> None:
    names = list({" ".join(name.split()): name for name in names})
    texts = wrapped_apart(names, width)
    assert len(set(texts)) == len(names)
    for text in texts:
        assert len(text.split("\n")) <= 2
        assert max(map(len, text.split("\n"))) <= width


def test_the_ends_of_names_are_kept_where_they_tell_them_apart() -> None:
    one, other = (f"{'agent.channels=basic ' * 5}threads={number}" for number in (1, 2))
    texts = wrapped_apart([one, other], 20)
    assert texts == [f"agent.channels=basic\nage…basic threads={number}" for number in (1, 2)]
    assert wrapped_apart([one], 20) == [wrapped(one, 20)]


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
    with styled_figure((4, 3)) as figure:
        handle = Line2D([], [], label=entry_name("_handler"))
        legend_above(figure.add_subplot(), [handle])
        legend_below(figure, [handle], 1)
        assert rendered(figure, "svg").decode().count(">_handler</text>") == 2
