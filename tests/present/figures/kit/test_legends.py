"""Legends beside the axes."""

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tuner.present.figures.kit.canvas import rendered, styled_figure
from tuner.present.figures.kit.legends import entry_name, legend_above, legend_below


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
