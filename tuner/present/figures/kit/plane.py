"""Configurations as points of two numbers: the line of their front, contenders' marks, names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import ConfigNames
from tuner.present.figures.kit.legends import entry_name
from tuner.present.figures.kit.looks import LOOKS
from tuner.present.figures.kit.text_placement import place_texts
from tuner.present.figures.kit.theme import SERIES

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
