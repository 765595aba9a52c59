"""The timelines of a study's report: a figure for each trace, made to be compared."""

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_below
from tuner.present.figures.kit.row_names import wrapped
from tuner.present.figures.timeline_data import Timeline
from tuner.present.figures.timeline_drawing import (
    Scales,
    height_in,
    narrowed,
    scales,
    total_height,
    under_way,
)
from tuner.text import plural, three_digits
from tuner.trace.model.trace import Trace

_FINE = 1000
"""Operators that fit side by side into a figure of the report's width."""
_ENTRY = 22
"""Letters of a legend's entry, where the legend has two columns."""
_TITLE = 34
"""Letters of a line of the title above the lanes."""
_TITLE_LINE_IN = 0.17


def timeline_figures(traces: Sequence[tuple[str, str, Trace]]) -> list[DrawnFigure]:
    """A figure for each trace, all with scales of the same length and with the same colours.

    Args:
        traces: Contender, name of the configuration, and trace.
    """
    if not traces:
        return []
    titles = [wrapped(f"{contender}: {name}", _TITLE, most=3) for contender, name, _ in traces]
    lines = max(title.count("\n") for title in titles)
    # Titles of as many lines, or the first lanes would not be side by side.
    titles = [title + "\n" * (lines - title.count("\n")) for title in titles]
    shared = scales(
        [(title, trace) for title, (_, _, trace) in zip(titles, traces, strict=True)], _FINE
    )
    return [
        drawn(
            _words(contender, name, each),
            height_in(total_height(each)) + _TITLE_LINE_IN * lines,
            partial(_draw_narrow, shared, each), partial(_align, shared),
        )
        for (contender, name, _), each in zip(traces, shared.shown, strict=True)
        if each.servers
    ]  # fmt: skip


def _draw_narrow(shared: Scales, each: Timeline, figure: Figure) -> None:
    shared.draw(each, figure.add_subplot(), narrow=True)
    words = [word for entry in shared.legend() for word in str(entry.get_label()).split()]
    # The name of a function is never broken.
    if max(map(len, words), default=0) <= _ENTRY:
        legend_below(figure, shared.legend(_ENTRY), 2)
    else:
        legend_below(figure, shared.legend(2 * _ENTRY), 1)


def _align(shared: Scales, figure: Figure) -> None:
    """Leave as much room for the names of lanes as the longest name in any timeline takes."""
    (axes,) = figure.axes
    names = [
        name
        for each in shared.shown
        for server in each.servers
        for name in (under_way(server), *(lane.label for lane in server.lanes))
    ]
    at = axes.get_yticks()[0]
    texts = [
        axes.annotate(
            narrowed(name), (0, at), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", ha="right", va="center", fontsize=SMALL,
        )
        for name in dict.fromkeys(names)
    ]  # fmt: skip
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for text in texts:
        text.remove()


def _words(contender: str, name: str, shown: Timeline) -> Words:
    bars = [bar for server in shown.servers for lane in server.lanes for bar in lane.bars]
    return Words(
        name=f"timeline_{contender}",
        title=f"Timeline of the servers: {contender}",
        caption=(
            "A row per thread: a bar is a call that it served, and the dark strip below it is the "
            "time inside operators. Above the threads, in grey: the calls under way. "
            f"Shown: {shown.note}. All timelines of a study have scales of the same length."
        ),
        alt=(
            f"{name}: {'; '.join(server.label for server in shown.servers)}: "
            f"{plural(len(bars), 'bar')} in {three_digits(shown.length_ms)} ms"
        ),
    )
