"""Legends beside the axes, where they hide nothing."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from tuner.present.figures.kit.row_names import wrapped_apart

_BESIDE_HANDLE = 50
"""Letters that fit beside the handle of an entry, on a figure of the report's width."""

Entry = Artist | Container
"""What a legend can show."""


def entry_name(name: str, width: int = _BESIDE_HANDLE) -> str:
    """The name of an entry in lines of so many letters."""
    return entry_names([name], width)[name]


def entry_names(names: Iterable[str], width: int = _BESIDE_HANDLE) -> dict[str, str]:
    """`entry_name` of each name, by the name; names that differ look different."""
    known = list(dict.fromkeys(names))
    return dict(zip(known, wrapped_apart(known, width), strict=True))


def legend_above(
    axes: Axes, handles: Sequence[Entry], columns: int = 1, lines_between: float = 0.3
) -> None:
    """A legend over the axes, so many lines of text above them.

    Where the axes are alone in their figure, it begins at the figure's left edge.
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
    """The order in which matplotlib, which fills column by column, shows the entries row by row."""
    rows = math.ceil(len(handles) / columns)
    short = len(handles) % columns or columns
    # matplotlib fills the first columns.
    places = [
        row * columns + column
        for column in range(columns)
        for row in range(rows if column < short else rows - 1)
    ]
    return [handles[place] for place in places]
