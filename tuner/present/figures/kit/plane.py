"""Configurations as points of two numbers: the line of their front, contenders' marks, names."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import ConfigNames
from tuner.present.figures.kit.legends import entry_name
from tuner.present.figures.kit.theme import BASELINE, BEST, CHALLENGER, SERIES, Colour
from tuner.study.answer import Contender


class Look(NamedTuple):
    """How a contender is drawn, told apart by more than its colour."""

    colour: Colour
    marker: str
    size: float
    line: str
    hollow: bool = False

    @property
    def fill(self) -> str:
        """The colour of the marker's face, as matplotlib takes it."""
        return "none" if self.hollow else self.colour.light


LOOKS: dict[Contender, Look] = {
    "baseline": Look(BASELINE, "s", 5, "-", hollow=True),
    "best": Look(BEST, "*", 8, "--"),
    "challenger": Look(CHALLENGER, "D", 5, "--"),
}


SHORT_NAME = 8
"""Names of so many letters fit beside their points."""


@dataclass(frozen=True)
class Plane:
    """Where each trial is, and which trials are the front, the best in one number first."""

    at: Mapping[int, tuple[float, float]]
    front: Sequence[int]

    @property
    def corners(self) -> list[tuple[float, float]]:
        """Of the line through the front, which joins its points along the axes."""
        points = [self.at[trial] for trial in self.front]
        corners = points[:1]
        for x, y in points[1:]:
            corners += [(x, corners[-1][1]), (x, y)]
        return corners

    def draw_front(self, label: str, axes: Axes) -> Artist:
        """Draw the line through the front, below all points; returns its entry of a legend."""
        (line,) = axes.plot(
            [x for x, _ in self.corners], [y for _, y in self.corners], color=SERIES[0].light,
            linewidth=1.2, zorder=1.9, label=label,
        )  # fmt: skip
        return line

    def draw_contenders(self, names: ConfigNames, axes: Axes) -> list[Artist]:
        """Mark the contenders, above all points; returns their entries of a legend."""
        handles: list[Artist] = []
        for trial, point in self.at.items():
            if contender := names.contenders.get(trial):
                look = LOOKS[contender]
                handles += axes.plot(
                    *point, marker=look.marker, markersize=look.size + 4, color=look.colour.light,
                    linestyle="none", zorder=4, markerfacecolor=look.fill,
                    label=entry_name(names.legend_name(trial)),
                )  # fmt: skip
        return handles

    def name_points(self, texts: Mapping[int, str], names: ConfigNames, axes: Axes) -> None:
        """Write a text beside each of these trials where there is room, contenders' in bold.

        Call it when everything else is drawn: what is added later can move the axes.
        """
        written = [
            axes.annotate(
                text, self.at[trial], xytext=(0, 0), textcoords="offset points", fontsize=SMALL,
                weight="bold" if trial in names.contenders else "normal", zorder=5,
            )
            for trial, text in texts.items()
        ]  # fmt: skip
        for text in written:
            text.set_in_layout(False)
        place_texts(axes, written, [*self.at.values()], self.corners)


_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_ACROSS: dict[int, Literal["left", "center", "right"]] = {1: "left", 0: "center", -1: "right"}
_UPWARDS: dict[int, Literal["bottom", "center", "top"]] = {1: "bottom", 0: "center", -1: "top"}
_DISTANCES = (9, 14, 20)
"""Points from the middle of a mark to the text."""
_MARK = 5
"""Half the width of a mark, in points."""


def place_texts(
    axes: Axes,
    texts: Sequence[Annotation],
    points: Sequence[tuple[float, float]],
    stairs: Sequence[tuple[float, float]] = (),
) -> list[Annotation]:
    """Move each text to a free place beside its point, or remove it if there is none.

    Call it when everything else is drawn: what is added later can move the axes.

    Args:
        axes: Where the texts are.
        texts: Annotations of points; the earlier, the better their places.
        points: All points, which no text may cover.
        stairs: The corners of a line along the axes, which a text covers only if it must.

    Returns:
        The texts that were placed.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]
    pixels = figure.dpi / 72
    around = axes.get_window_extent()
    half = _MARK * pixels
    taken = [
        Bbox.from_extents(x - half, y - half, x + half, y + half)
        for x, y in (axes.transData.transform(point) for point in points)
    ]
    corners = [axes.transData.transform(corner) for corner in stairs]
    lines = [
        Bbox([np.minimum(start, end), np.maximum(start, end)]).padded(1)
        for start, end in itertools.pairwise(corners)
    ]
    placed = []
    for text in texts:
        box = _first_free(text, around, [*taken, *lines]) or _first_free(text, around, taken)
        if box is None:
            text.remove()
        else:
            taken.append(box)
            placed.append(text)
    return placed


def _first_free(text: Annotation, around: Bbox, taken: Sequence[Bbox]) -> Bbox | None:
    for distance in _DISTANCES:
        for right, up in _DIRECTIONS:
            text.set_position((right * distance, up * distance))
            text.set_horizontalalignment(_ACROSS[right])
            text.set_verticalalignment(_UPWARDS[up])
            box = text.get_window_extent()
            inside = (
                around.x0 <= box.x0 and box.x1 <= around.x1
                and around.y0 <= box.y0 and box.y1 <= around.y1
            )  # fmt: skip
            if inside and not any(box.overlaps(other) for other in taken):
                return box
    return None
