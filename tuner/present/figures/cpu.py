"""The figure of what speed costs: the CPUs used against the objective."""

import string
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tuner.present.figures.kit.axis import plain_axis
from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.looks import LOOKS
from tuner.present.figures.kit.text_placement import place_texts
from tuner.present.figures.kit.theme import OTHER, SERIES
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.metrics import CPUS_USED
from tuner.text import three_digits

_SHORT = 8
"""Names of so many letters stand beside their points; longer ones in a key."""
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
    def stairs(self) -> list[tuple[float, float]]:
        """The corners of the line through the front, which joins its points along the axes."""
        front = self.front
        corners = [(front[0].value, front[0].cpus)]
        for point in front[1:]:
            corners += [(point.value, corners[-1][1]), (point.value, point.cpus)]
        return corners

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

    def beaten(pair: tuple[float, float]) -> bool:
        return any(other != pair and other[0] <= pair[0] and other[1] <= pair[1] for other in pairs)

    points = [
        CpuPoint(row.trial, contenders.get(row.trial), row.value, pair[1], not beaten(pair))
        for row, pair in zip(known, pairs, strict=True)
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
    (stairs,) = axes.plot(
        [value for value, _ in shown.stairs], [cpus for _, cpus in shown.stairs],
        color=SERIES[0].light, linewidth=1.2, linestyle="-", zorder=2,
        label="nothing is better in both",
    )  # fmt: skip
    axes.plot(
        [point.value for point in front if not point.contender],
        [point.cpus for point in front if not point.contender],
        marker="o", markersize=6, color=SERIES[0].light, linestyle="none", zorder=3,
    )  # fmt: skip
    handles: list[Artist] = []
    for point in shown.points:
        if point.contender:
            look = LOOKS[point.contender]
            (mark,) = axes.plot(
                point.value, point.cpus, marker=look.marker, markersize=look.size + 4,
                color=look.colour.light, linestyle="none", zorder=4,
                markerfacecolor=look.fill, label=entry_name(names.legend_name(point.trial)),
            )  # fmt: skip
            handles.append(mark)
    plain_axis(axes, "x", 5)
    plain_axis(axes, "y", 5)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel(CPUS_USED.heading)
    return [*handles, stairs]


def _keys(shown: Cpu, names: ConfigNames) -> dict[int, str]:
    """The text beside each named point, by trial: its name, or a letter where names are long.

    Contenders with long names are in the legend, and need no letter.
    """
    short = {point.trial: names.name(point.trial) for point in shown.named}
    if all(len(name) <= _SHORT for name in short.values()):
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
    keys = _keys(shown, names)
    (axes,) = figure.axes
    texts = [
        axes.annotate(
            keys[point.trial], (point.value, point.cpus), xytext=(0, 0), fontsize=SMALL,
            textcoords="offset points", weight="bold" if point.contender else "normal", zorder=5,
        )
        for point in shown.named
        if point.trial in keys
    ]  # fmt: skip
    for text in texts:
        text.set_in_layout(False)
    points = [(point.value, point.cpus) for point in shown.points]
    place_texts(axes, texts, points, shown.stairs)


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
