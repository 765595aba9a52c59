"""Places texts beside points so that they cover neither each other nor a point."""

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

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
