"""Legends beside the axes, where they hide nothing."""

import math
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from tuner.present.figures.kit.rows import wrapped

_BESIDE_HANDLE = 50
"""Letters that fit beside the handle of an entry, on a figure of the report's width."""

Entry = Artist | Container
"""What a legend can show."""


def entry_name(name: str, width: int = _BESIDE_HANDLE) -> str:
    """The name of an entry in lines that fit.

    matplotlib leaves out what begins with an underscore, as a name of a function may.
    """
    text = wrapped(name, width)
    return f"\u200b{text}" if text.startswith("_") else text


def legend_above(
    axes: Axes, handles: Sequence[Entry], columns: int = 1, lines_between: float = 0.3
) -> None:
    """A legend over the axes, so many lines of text above them.

    It begins at the left edge of the figure, if the axes are its only ones.
    """
    figure = axes.figure
    if handles:
        alone = len(figure.axes) == 1
        axes.legend(
            handles=_row_by_row(handles, columns), loc="lower left",
            bbox_to_anchor=(0.02 if alone else 0.0, 1.0), bbox_transform=blended_transform_factory(
                figure.transSubfigure if alone else axes.transAxes, axes.transAxes
            ),
            ncols=columns, borderaxespad=lines_between, columnspacing=1.2,
        )  # fmt: skip


def legend_below(figure: Figure, handles: Sequence[Entry], columns: int) -> None:
    """A legend at the foot of the figure."""
    if handles:
        figure.legend(
            handles=_row_by_row(handles, columns), loc="outside lower left", ncols=columns,
            columnspacing=1.2,
        )  # fmt: skip


def _row_by_row(handles: Sequence[Entry], columns: int) -> list[Entry]:
    """The order in which matplotlib, which fills columns, has the entries from left to right."""
    rows = math.ceil(len(handles) / columns)
    short = len(handles) % columns or columns
    # The first columns are the full ones, as matplotlib makes them.
    places = [
        row * columns + column
        for column in range(columns)
        for row in range(rows if column < short else rows - 1)
    ]
    return [handles[place] for place in places]
