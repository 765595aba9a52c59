"""The figure of what speed costs: the CPUs used against the objective."""

import string
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tuner.decide.verdict import undominated
from tuner.present.figures.kit.axis import plane_axis
from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.plane import SHORT_NAME, Plane
from tuner.present.figures.kit.theme import OTHER, SERIES
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.metrics import CPUS_USED
from tuner.text import three_digits

_MOST_KEYS = 6


class CpuPoint(NamedTuple):
    """One configuration: its objective, and the CPUs that all ranks used."""

    trial: int
    contender: Contender | None
    value: float
    cpus: float
    in_front: bool
    """Whether no other configuration is as good in both and better in one."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """All measured configurations, the fastest first."""

    x_label: str
    points: tuple[CpuPoint, ...]

    @property
    def front(self) -> list[CpuPoint]:
        """The Pareto front, the fastest first."""
        return [point for point in self.points if point.in_front]

    @property
    def plane(self) -> Plane:
        """The objective of each point to the right, its CPUs upwards."""
        at = {point.trial: (point.value, point.cpus) for point in self.points}
        return Plane(at, [point.trial for point in self.front])

    @property
    def named(self) -> list[CpuPoint]:
        """The points with names in the figure: contenders, and as many of the front as fit."""
        first = [point for point in self.points if point.contender]
        return [*first, *(point for point in self.front if not point.contender)][:_MOST_KEYS]


def cpu(answer: StudyAnswer) -> Cpu | None:
    """CPUs used by objective; None where they are not known of two configurations."""
    contenders = names_of(answer).contenders
    known = [row for row in answer.rows if row.is_measured and CPUS_USED.name in row.metrics]
    if len(known) < 2:
        return None
    cost = answer.objective.cost
    pairs = [(cost(row.value), row.metric(CPUS_USED)) for row in known]

    points = [
        CpuPoint(row.trial, contenders.get(row.trial), row.value, cpus, in_front)
        for row, (_, cpus), in_front in zip(known, pairs, undominated(pairs), strict=True)
    ]
    return Cpu(
        x_label=answer.objective.short_heading,
        points=tuple(sorted(points, key=lambda point: (cost(point.value), point.cpus))),
    )


def draw_cpu(shown: Cpu, names: ConfigNames, axes: Axes) -> list[Artist]:
    """Draw the points, and a line through the front; returns the entries of a legend."""
    axes.margins(0.12)
    others = [point for point in shown.points if not point.contender]
    axes.plot(
        [point.value for point in others], [point.cpus for point in others], marker="o",
        markersize=4, color=OTHER.light, linestyle="none",
    )  # fmt: skip
    front = shown.front
    axes.plot(
        [point.value for point in front if not point.contender],
        [point.cpus for point in front if not point.contender],
        marker="o", markersize=6, color=SERIES[0].light, linestyle="none", zorder=3,
    )  # fmt: skip
    handles = shown.plane.draw_contenders(names, axes)
    line = shown.plane.draw_front("nothing is better in both", axes)
    plane_axis(axes, "x", 5)
    plane_axis(axes, "y", 5)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel(CPUS_USED.heading)
    return [*handles, line]


def _keys(shown: Cpu, names: ConfigNames) -> dict[int, str]:
    """The text beside each named point, by trial: its name, or a letter where names are long.

    Contenders with long names are in the legend, and need no letter.
    """
    short = {point.trial: names.name(point.trial) for point in shown.named}
    if all(len(name) <= SHORT_NAME for name in short.values()):
        return short
    front = [point.trial for point in shown.named if not point.contender]
    return dict(zip(front, string.ascii_uppercase, strict=False))


def _draw(shown: Cpu, names: ConfigNames, figure: Figure) -> None:
    handles = draw_cpu(shown, names, figure.add_subplot())
    for trial, key in _keys(shown, names).items():
        if key != names.name(trial):
            entry = entry_name(f"{key}: {names.name(trial)}")
            handles.append(Line2D([], [], linestyle="none", label=entry))
    legend_below(figure, handles, 1)


def _name_points(shown: Cpu, names: ConfigNames, figure: Figure) -> None:
    """Write the names beside their points, where there is room."""
    shown.plane.name_points(_keys(shown, names), names, figure.axes[0])


def cpu_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """CPUs used by objective with words; None where they are not known."""
    shown = cpu(answer)
    if shown is None:
        return None
    names = names_of(answer)
    unit = answer.objective.unit
    texts = [
        f"{names.row_name(point.trial)} {three_digits(point.value)} {unit} with "
        f"{three_digits(point.cpus)} CPUs"
        for point in shown.named
    ]
    words = Words(
        name="cpu",
        title="What speed costs",
        caption=(
            f"CPUs used: CPU seconds of all ranks per wall second, against the "
            f"{answer.objective.label} ({answer.objective.better}); fewer CPUs are better. The "
            "line joins the configurations that no other beats in both."
        ),
        alt=f"CPUs used {names.by}: {'; '.join(texts)}",
    )
    return drawn(
        words, 2.6, lambda figure: _draw(shown, names, figure),
        lambda figure: _name_points(shown, names, figure),
    )  # fmt: skip
