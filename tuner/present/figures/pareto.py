"""The figure of two objectives: every configuration with its intervals, and the front."""

import textwrap
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tuner.decide.statistics import Interval
from tuner.present.figures.kit.axis import plain_axis
from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.looks import LOOKS
from tuner.present.figures.kit.text_placement import place_texts
from tuner.present.figures.kit.theme import OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.front import Front, FrontPoint, Goal
from tuner.text import percent, three_digits

_SHORT = 8
"""Names of so many letters stand beside their points."""
# A longer label of the axis is folded: it would be as high as the figure.
_LABEL_WIDTH = 28
# An interval that reaches further than this is cut off: a point of few blocks hides no other.
_MOST_REACH = 1.0


@dataclass(frozen=True)
class Cross:
    """A point, and how far its intervals reach to the left, the right, down and up."""

    point: FrontPoint
    x: tuple[float, float]
    y: tuple[float, float]


def crosses(front: Front) -> list[Cross]:
    """The points with their intervals, the best by the first objective first."""
    return [Cross(each, _reach(each.first), _reach(each.second)) for each in front.points]


def stairs(front: Front) -> list[tuple[float, float]]:
    """The corners of the line through the front, which joins its points along the axes."""
    points = [(p.first.value, p.second.value) for p in front.points if p.in_front]
    corners = points[:1]
    for x, y in points[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return corners


def _reach(goal: Goal) -> tuple[float, float]:
    found = goal.spread or Interval(goal.value, goal.value, goal.value)
    most = _MOST_REACH * abs(goal.value)
    return min(most, goal.value - found.low), min(most, found.high - goal.value)


def draw_pareto(front: Front, names: ConfigNames, axes: Axes) -> list[Artist]:
    """Draw the points with their intervals, and the front; returns the entries of a legend."""
    axes.margins(0.12)
    handles: list[Artist] = []
    for cross in crosses(front):
        point = cross.point
        colour = (SERIES[0] if point.in_front else OTHER).light
        at = point.first.value, point.second.value
        axes.errorbar(
            *at, xerr=[[cross.x[0]], [cross.x[1]]], yerr=[[cross.y[0]], [cross.y[1]]],
            color=colour, linewidth=0.8, marker="o", markersize=5 if point.in_front else 3.5,
        )  # fmt: skip
        contender = names.contenders.get(point.trial)
        if contender:
            look = LOOKS[contender]
            (mark,) = axes.plot(
                *at, marker=look.marker, markersize=look.size + 4, color=look.colour.light,
                linestyle="none", zorder=4, markerfacecolor=look.fill,
                label=entry_name(names.legend_name(point.trial)),
            )  # fmt: skip
            handles.append(mark)
    corners = stairs(front)
    (line,) = axes.plot(
        [x for x, _ in corners], [y for _, y in corners], color=SERIES[0].light, linewidth=1.2,
        zorder=1, label="no other is shown better",
    )  # fmt: skip
    plain_axis(axes, "x", 5)
    plain_axis(axes, "y", 5)
    axes.set_xlabel(front.first.heading)
    axes.set_ylabel(textwrap.fill(front.second.heading, _LABEL_WIDTH))
    return [*handles, line]


def _draw(front: Front, names: ConfigNames, figure: Figure) -> None:
    legend_below(figure, draw_pareto(front, names, figure.add_subplot()), 1)


def _name_points(front: Front, names: ConfigNames, figure: Figure) -> None:
    """Write short names beside the points of the front, where there is room."""
    (axes,) = figure.axes
    named = [p for p in front.points if p.in_front and len(names.name(p.trial)) <= _SHORT]
    texts = [
        axes.annotate(
            names.name(point.trial), (point.first.value, point.second.value), xytext=(0, 0),
            fontsize=SMALL, textcoords="offset points", zorder=5,
        )
        for point in named
    ]  # fmt: skip
    for text in texts:
        text.set_in_layout(False)
    points = [(point.first.value, point.second.value) for point in front.points]
    place_texts(axes, texts, points, stairs(front))


def pareto_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The two objectives with words; None where there is one, or a single configuration."""
    front = answer.front
    if front is None or len(front.points) < 2:
        return None
    names = names_of(answer)
    texts = [
        f"{names.row_name(point.trial)} {three_digits(point.first.value)} {front.first.unit} with "
        f"{three_digits(point.second.value)} {front.second.unit}"
        for point in front.points
        if point.in_front
    ]
    words = Words(
        name="pareto",
        title="Two objectives",
        caption=(
            f"{front.second.label} against {front.first.label} ({front.first.better}; "
            f"{front.second.better}), with {percent(answer.plan.measuring.confidence)} intervals. "
            "The line joins the configurations that no other is shown to beat."
        ),
        alt=f"The front {names.by}: {'; '.join(texts)}",
    )
    return drawn(
        words, 2.8, lambda figure: _draw(front, names, figure),
        lambda figure: _name_points(front, names, figure),
    )  # fmt: skip
