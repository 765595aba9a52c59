"""The figures of two numbers of each configuration: CPUs against time, and two objectives."""

import itertools
import string
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from tuner.decide.verdict import undominated
from tuner.present.configurations import ConfigNames, names_of
from tuner.present.figures.kit.axis import plane_axis
from tuner.present.figures.kit.canvas import SMALL, DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import entry_name, legend_below
from tuner.present.figures.kit.theme import LOOKS, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.front import Front, Goal
from tuner.study.metrics import CPUS_USED
from tuner.text import percent, three_digits

_MOST_NAMED = 6
"""The most points of CPUs that have names."""
_SHORT = 8
"""Names of so many letters fit beside their points."""
_LABEL_WIDTH = 28
"""A longer label of an axis is folded: it would be as high as the figure."""
_MOST_REACH = 1.0
"""An interval that reaches further than this is cut off: a point of few blocks hides no other."""


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

    def draw(self, labels: tuple[str, str, str], names: ConfigNames, axes: Axes) -> list[Artist]:
        """Draw the contenders and the line of the front; `labels` are the line's, and x and y."""
        handles: list[Artist] = []
        for trial, point in self.at.items():
            if contender := names.contenders.get(trial):
                look = LOOKS[contender]
                handles += axes.plot(
                    *point, marker=look.marker, markersize=look.size + 4, color=look.colour.light,
                    linestyle="none", zorder=4, markerfacecolor=look.fill,
                    label=entry_name(names.legend_name(trial)),
                )  # fmt: skip
        handles += axes.plot(
            *zip(*self.corners, strict=True), color=SERIES[0].light, linewidth=1.2, zorder=1.9,
            label=labels[0],
        )  # fmt: skip
        plane_axis(axes, "x", 5)
        plane_axis(axes, "y", 5)
        axes.set_xlabel(labels[1])
        axes.set_ylabel(labels[2])
        return handles

    def name_points(self, texts: Mapping[int, str], names: ConfigNames, axes: Axes) -> None:
        """Write texts beside trials where there is room; call it when everything else is drawn."""
        written = [
            axes.annotate(
                text, self.at[trial], xytext=(0, 0), textcoords="offset points", fontsize=SMALL,
                weight="bold" if trial in names.contenders else "normal", zorder=5, in_layout=False,
            )
            for trial, text in texts.items()
        ]  # fmt: skip
        place_texts(axes, written, [*self.at.values()], self.corners)


_ACROSS: tuple[Literal["center", "left", "right"], ...] = ("center", "left", "right")
_UPWARDS: tuple[Literal["center", "bottom", "top"], ...] = ("center", "bottom", "top")
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
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
    """Move each text to a place free of points, and of the stairs if it can, or remove it."""
    figure = axes.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]
    half = _MARK * figure.dpi / 72
    taken = [
        Bbox.from_extents(x - half, y - half, x + half, y + half)
        for x, y in (axes.transData.transform(point) for point in points)
    ]
    lines = [
        Bbox([np.minimum(start, end), np.maximum(start, end)]).padded(1)
        for start, end in itertools.pairwise(map(axes.transData.transform, stairs))
    ]
    around, placed = axes.get_window_extent(), []
    for text in texts:
        box = _first_free(text, around, [*taken, *lines]) or _first_free(text, around, taken)
        if box is None:
            text.remove()
        else:
            taken.append(box)
            placed.append(text)
    return placed


def _first_free(text: Annotation, around: Bbox, taken: Sequence[Bbox]) -> Bbox | None:
    for distance, (right, up) in itertools.product(_DISTANCES, _DIRECTIONS):
        text.set_position((right * distance, up * distance))
        text.set_horizontalalignment(_ACROSS[right])
        text.set_verticalalignment(_UPWARDS[up])
        box = text.get_window_extent()
        both = Bbox.union([around, box])
        if (both.bounds == around.bounds) and not any(box.overlaps(other) for other in taken):
            return box
    return None


def cpu(answer: StudyAnswer) -> Plane | None:
    """CPUs used by objective, the fastest first; None where two of them are not known."""
    cost = answer.objective.cost
    known = [row for row in answer.rows if row.is_measured and CPUS_USED.name in row.metrics]
    if len(known) < 2:
        return None
    known.sort(key=lambda row: (cost(row.value), row.metric(CPUS_USED)))
    at = {row.trial: (row.value, row.metric(CPUS_USED)) for row in known}
    in_front = undominated([(cost(value), cpus) for value, cpus in at.values()])
    return Plane(at, [*itertools.compress(at, in_front)])


def draw_cpu(answer: StudyAnswer, plane: Plane, axes: Axes) -> list[Artist]:
    """Draw the points, and a line through the front; returns the entries of a legend."""
    axes.margins(0.12)
    names = names_of(answer)
    for trials, size, colour, zorder in ((plane.at, 4, OTHER, 2), (plane.front, 6, SERIES[0], 3)):
        at = [plane.at[trial] for trial in trials if trial not in names.contenders]
        axes.plot(
            [value for value, _ in at], [cpus for _, cpus in at], marker="o", markersize=size,
            color=colour.light, linestyle="none", zorder=zorder,
        )  # fmt: skip
    labels = ("nothing is better in both", answer.objective.short_heading, CPUS_USED.heading)
    return plane.draw(labels, names, axes)


def cpu_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """CPUs used by objective with words; None where they are not known."""
    plane = cpu(answer)
    if plane is None:
        return None
    names, unit = names_of(answer), answer.objective.unit
    leading = [trial for trial in plane.at if trial in names.contenders]
    named = [*leading, *(trial for trial in plane.front if trial not in leading)][:_MOST_NAMED]
    # What stands beside a point: its name, or a letter where names are long; contenders with long
    # names are in the legend, and need none.
    keys = {trial: names.names[trial] for trial in named}
    is_long = any(len(name) > _SHORT for name in keys.values())
    if is_long:
        keys = dict(zip(named[len(leading) :], string.ascii_uppercase, strict=False))
    texts = [
        f"{names.row_name(trial)} {three_digits(plane.at[trial][0])} {unit} with "
        f"{three_digits(plane.at[trial][1])} CPUs"
        for trial in named
    ]

    def draw(figure: Figure) -> None:
        handles = draw_cpu(answer, plane, figure.add_subplot())
        for trial, key in keys.items() if is_long else ():
            entry = entry_name(f"{key}: {names.names[trial]}")
            handles.append(Line2D([], [], linestyle="none", label=entry))
        legend_below(figure, handles, 1)

    return drawn(
        draw,
        2.6,
        lambda figure: plane.name_points(keys, names, figure.axes[0]),
        name="cpu",
        title="What speed costs",
        caption=(
            f"CPUs used: CPU seconds of all ranks per wall second, against the "
            f"{answer.objective.label} ({answer.objective.better}); fewer CPUs are better. The "
            "line joins the configurations that no other beats in both."
        ),
        alt=f"CPUs used {names.by}: {'; '.join(texts)}",
    )


def draw_pareto(front: Front, names: ConfigNames, axes: Axes) -> list[Artist]:
    """Draw the points with their intervals, and the front; returns the entries of a legend."""
    axes.margins(0.12)
    for point in front.points:
        axes.errorbar(
            point.first.value, point.second.value, xerr=_reach(point.first),
            yerr=_reach(point.second), color=(SERIES[0] if point.in_front else OTHER).light,
            linewidth=0.8, marker="o", markersize=5 if point.in_front else 3.5,
        )  # fmt: skip
    y_label = textwrap.fill(front.second.heading, _LABEL_WIDTH)
    labels = ("no other is shown better", front.first.heading, y_label)
    return plane_of(front).draw(labels, names, axes)


def plane_of(front: Front) -> Plane:
    """Both objectives of each point, the first to the right and the second upwards."""
    at = {point.trial: (point.first.value, point.second.value) for point in front.points}
    return Plane(at, front.trials)


def _reach(goal: Goal) -> list[list[float]]:
    """How far the interval reaches down and up."""
    low, high = (goal.spread.low, goal.spread.high) if goal.spread else (goal.value, goal.value)
    most = _MOST_REACH * abs(goal.value)
    return [[min(most, goal.value - low)], [min(most, high - goal.value)]]


def pareto_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The two objectives with words; None where there is one, or a single configuration."""
    front = answer.front
    if front is None or len(front.points) < 2:
        return None
    names = names_of(answer)
    short = {each: names.names[each] for each in front.trials if len(names.names[each]) <= _SHORT}
    texts = [
        f"{names.row_name(point.trial)} {three_digits(point.first.value)} {front.first.unit} with "
        f"{three_digits(point.second.value)} {front.second.unit}"
        for point in front.points
        if point.in_front
    ]
    return drawn(
        lambda figure: legend_below(figure, draw_pareto(front, names, figure.add_subplot()), 1),
        2.8,
        lambda figure: plane_of(front).name_points(short, names, figure.axes[0]),
        name="pareto",
        title="Two objectives",
        caption=(
            f"{front.second.label} against {front.first.label} ({front.first.better}; "
            f"{front.second.better}), with {percent(answer.plan.measuring.confidence)} intervals. "
            "The line joins the configurations that no other is shown to beat."
        ),
        alt=f"The front {names.by}: {'; '.join(texts)}",
    )
