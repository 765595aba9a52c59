"""The figure of what speed costs: CPU cores against the objective."""

import math
import string
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import LOOKS, Cast, Role, cast_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.text_placement import place_texts
from tuner.present.figures.kit.theme import OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.text import three_digits

_SHORT = 8
"""Names of so many letters stand beside their points; longer ones in a key."""
_MOST_KEYS = 6


class CpuPoint(NamedTuple):
    """One settings: its objective, and the CPU cores that all ranks used."""

    label: str
    role: Role | None
    value: float
    cpu_cores: float
    in_front: bool
    """Whether no other settings is as good in both and better in one."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """All settings that count, the fastest first."""

    x_label: str
    points: tuple[CpuPoint, ...]

    @property
    def front(self) -> list[CpuPoint]:
        """The Pareto front, the fastest first."""
        return [point for point in self.points if point.in_front]

    @property
    def stairs(self) -> list[tuple[float, float]]:
        """The corners of the line that parts what can be had from what cannot."""
        front = self.front
        corners = [(front[0].value, front[0].cpu_cores)]
        for point in front[1:]:
            corners += [(point.value, corners[-1][1]), (point.value, point.cpu_cores)]
        return corners

    @property
    def named(self) -> list[CpuPoint]:
        """What is named in the figure: what has a role, and of the front what there is room for."""
        first = [point for point in self.points if point.role]
        return [*first, *(point for point in self.front if not point.role)][:_MOST_KEYS]


def cpu(answer: StudyAnswer) -> Cpu | None:
    """CPU cores by objective; None where they are not known of two settings."""
    roles = cast_of(answer).roles
    known = [row for row in answer.rows if row.counts and not math.isnan(row.cpu_cores)]
    if len(known) < 2:
        return None
    pairs = [(row.value, row.cpu_cores) for row in known]

    def beaten(pair: tuple[float, float]) -> bool:
        return any(other != pair and other[0] <= pair[0] and other[1] <= pair[1] for other in pairs)

    points = [
        CpuPoint(row.label, roles.get(row.label), *pair, not beaten(pair))
        for row, pair in zip(known, pairs, strict=True)
    ]
    return Cpu(
        x_label=f"{answer.objective.label} ({answer.objective.unit})",
        points=tuple(sorted(points, key=lambda point: (point.value, point.cpu_cores))),
    )


def draw_cpu(shown: Cpu, cast: Cast, axes: Axes) -> list[Artist]:
    """The points, the front as stairs, names beside points; returns the entries of a legend."""
    axes.margins(0.12)
    others = [point for point in shown.points if not point.role]
    axes.plot(
        [point.value for point in others], [point.cpu_cores for point in others], marker="o",
        markersize=4, color=OTHER.light, linestyle="none",
    )  # fmt: skip
    front = shown.front
    (stairs,) = axes.plot(
        [value for value, _ in shown.stairs], [cores for _, cores in shown.stairs],
        color=SERIES[0].light, linewidth=1.2, linestyle="-", zorder=2,
        label="nothing is better in both",
    )  # fmt: skip
    axes.plot(
        [point.value for point in front if not point.role],
        [point.cpu_cores for point in front if not point.role],
        marker="o", markersize=6, color=SERIES[0].light, linestyle="none", zorder=3,
    )  # fmt: skip
    handles: list[Artist] = []
    for point in shown.points:
        if point.role:
            look = LOOKS[point.role]
            (mark,) = axes.plot(
                point.value, point.cpu_cores, marker=look.marker, markersize=look.size + 4,
                color=look.colour.light, linestyle="none", zorder=4,
                markerfacecolor="none" if look.hollow else look.colour.light,
                label=entry_name(cast.legend_name(point.label)),
            )  # fmt: skip
            handles.append(mark)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel("CPU cores used")
    return [*handles, stairs]


def _keys(shown: Cpu, cast: Cast) -> dict[str, str]:
    """What stands beside each named point, by label: its name, or a letter where that is long.

    Long names of what has a role are in the legend, and need no letter.
    """
    names = {point.label: cast.name(point.label) for point in shown.named}
    if all(len(name) <= _SHORT for name in names.values()):
        return names
    front = [point.label for point in shown.named if not point.role]
    return dict(zip(front, string.ascii_uppercase, strict=False))


def _draw(shown: Cpu, cast: Cast, figure: Figure) -> None:
    handles = draw_cpu(shown, cast, figure.add_subplot())
    for label, key in _keys(shown, cast).items():
        if key != cast.name(label):
            entry = entry_name(f"{key}: {cast.name(label)}")
            handles.append(Line2D([], [], linestyle="none", label=entry))
    legend_below(figure, handles, 1)


def _name_points(shown: Cpu, cast: Cast, figure: Figure) -> None:
    """Write the names beside their points, where there is room."""
    keys = _keys(shown, cast)
    (axes,) = figure.axes
    texts = [
        axes.annotate(
            keys[point.label], (point.value, point.cpu_cores), xytext=(0, 0), fontsize=SMALL,
            textcoords="offset points", weight="bold" if point.role else "normal", zorder=5,
        )
        for point in shown.named
        if point.label in keys
    ]  # fmt: skip
    for text in texts:
        text.set_in_layout(False)
    points = [(point.value, point.cpu_cores) for point in shown.points]
    place_texts(axes, texts, points, shown.stairs)


def cpu_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """CPU cores by objective with words; None where they are not known."""
    shown = cpu(answer)
    if shown is None:
        return None
    cast = cast_of(answer)
    unit = answer.objective.unit
    texts = [
        f"{cast.row_name(point.label)} {three_digits(point.value)} {unit} with "
        f"{three_digits(point.cpu_cores)} cores"
        for point in shown.named
    ]
    words = Words(
        name="cpu",
        title="What speed costs",
        caption=(
            f"The CPU cores that all ranks used, against the {answer.objective.label}; less is "
            "better in both. The line joins the settings that none other beats in both at once."
        ),
        alt=f"CPU cores {cast.by}: {'; '.join(texts)}",
    )
    return drawn(
        words, 2.6, lambda figure: _draw(shown, cast, figure),
        lambda figure: _name_points(shown, cast, figure),
    )  # fmt: skip
