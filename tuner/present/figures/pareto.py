"""The figure of two objectives: every configuration with its intervals, and the front."""

import textwrap
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tuner.decide.statistics import Interval
from tuner.present.figures.kit.axis import plane_axis
from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_below
from tuner.present.figures.kit.plane import SHORT_NAME, Plane
from tuner.present.figures.kit.theme import OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.front import Front, FrontPoint, Goal
from tuner.text import percent, three_digits

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


def plane_of(front: Front) -> Plane:
    """Both objectives of each point, the first to the right and the second upwards."""
    at = {each.trial: (each.first.value, each.second.value) for each in front.points}
    return Plane(at, front.trials)


def _reach(goal: Goal) -> tuple[float, float]:
    found = goal.spread or Interval(goal.value, goal.value, goal.value)
    most = _MOST_REACH * abs(goal.value)
    return min(most, goal.value - found.low), min(most, found.high - goal.value)


def draw_pareto(front: Front, names: ConfigNames, axes: Axes) -> list[Artist]:
    """Draw the points with their intervals, and the front; returns the entries of a legend."""
    axes.margins(0.12)
    for cross in crosses(front):
        point = cross.point
        colour = (SERIES[0] if point.in_front else OTHER).light
        at = point.first.value, point.second.value
        axes.errorbar(
            *at, xerr=[[cross.x[0]], [cross.x[1]]], yerr=[[cross.y[0]], [cross.y[1]]],
            color=colour, linewidth=0.8, marker="o", markersize=5 if point.in_front else 3.5,
        )  # fmt: skip
    plane = plane_of(front)
    handles = plane.draw_contenders(names, axes)
    line = plane.draw_front("no other is shown better", axes)
    plane_axis(axes, "x", 5)
    plane_axis(axes, "y", 5)
    axes.set_xlabel(front.first.heading)
    axes.set_ylabel(textwrap.fill(front.second.heading, _LABEL_WIDTH))
    return [*handles, line]


def _draw(front: Front, names: ConfigNames, figure: Figure) -> None:
    legend_below(figure, draw_pareto(front, names, figure.add_subplot()), 1)


def _name_points(front: Front, names: ConfigNames, figure: Figure) -> None:
    """Write short names beside the points of the front, where there is room."""
    texts = {trial: names.name(trial) for trial in front.trials}
    short = {trial: text for trial, text in texts.items() if len(text) <= SHORT_NAME}
    plane_of(front).name_points(short, names, figure.axes[0])


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
