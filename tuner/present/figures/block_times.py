"""The figure of every world that counts, by block: it shows drift over time, and outliers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tuner.present.figures.kit.axis import margin_of, plain_log_axis
from tuner.present.figures.kit.config_names import names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import entry_name, legend_above
from tuner.present.figures.kit.plane import LOOKS
from tuner.present.figures.kit.theme import OTHER
from tuner.study.answer import Contender, StudyAnswer
from tuner.text import plural, three_digits

_FENCE = 3.0
"""A world so many times the middle half's width away from it is an outlier: Tukey's far out."""
_NARROWEST = math.log(1.05)
"""The middle half counts as at least this wide: where worlds hardly differ, none is an outlier."""

_FEW = 20
"""A line of more worlds has smaller marks."""


class BlockPoint(NamedTuple):
    """One world."""

    block: int
    value: float


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The worlds by block; values outside of `low` to `high` are drawn at the edge."""

    y_label: str
    leading: Mapping[Contender, tuple[BlockPoint, ...]]
    """The worlds of each contender, in order."""
    names: Mapping[Contender, str]
    others: tuple[BlockPoint, ...]
    other_configs: int
    failed: int
    """How many of all configurations failed after these worlds."""
    low: float
    high: float

    @property
    def points(self) -> list[BlockPoint]:
        """All worlds."""
        return [*self.others, *(point for line in self.leading.values() for point in line)]

    @property
    def last(self) -> int:
        """The last block, counted from 1."""
        return max(point.block for point in self.points) + 1

    @property
    def outside(self) -> int:
        """How many worlds are beyond the scale."""
        return sum(not self.low <= point.value <= self.high for point in self.points)


def blocks(answer: StudyAnswer) -> Blocks | None:
    """Every observation of the study; None if there are none."""
    if not answer.observations:
        return None
    names = names_of(answer)
    leading: dict[Contender, list[BlockPoint]] = {}
    others: dict[int, list[BlockPoint]] = {}
    for seen in answer.observations:
        point = BlockPoint(seen.block, seen.value)
        contender = names.contenders.get(seen.trial)
        if contender is None:
            others.setdefault(seen.trial, []).append(point)
        else:
            leading.setdefault(contender, []).append(point)
    rest = [point for points in others.values() for point in points]
    trials = {seen.trial for seen in answer.observations}
    low, high = _scale([*leading.values(), rest])
    return Blocks(
        y_label=f"{answer.objective.short_heading}\n(log scale)",
        leading={each: tuple(sorted(leading[each])) for each in LOOKS if each in leading},
        names={
            contender: names.legend_name(trial) for trial, contender in names.contenders.items()
        },
        others=tuple(rest),
        other_configs=len(others),
        failed=sum(row.trial in trials and row.failure is not None for row in answer.rows),
        low=low,
        high=high,
    )


def _scale(groups: Sequence[Sequence[BlockPoint]]) -> tuple[float, float]:
    """From where to where to draw: all values of each group but its outliers, and some margin."""
    ends: list[float] = []
    for group in groups:
        values = np.array([point.value for point in group if point.value > 0])
        if not len(values):
            continue
        logs = np.log(values)
        first, third = np.quantile(logs, [0.25, 0.75])
        fence = _FENCE * max(third - first, _NARROWEST)
        inside = values[(logs >= first - fence) & (logs <= third + fence)]
        ends += [float(inside.min()), float(inside.max())]
    if not ends:
        return 0.1, 10.0
    margin = margin_of(min(ends), max(ends))
    return min(ends) / margin, max(ends) * margin


def draw_blocks(shown: Blocks, axes: Axes) -> None:
    """Lines for the contenders, grey marks for the others, arrows for what is beyond the edges."""
    plain_log_axis(axes, "y", shown.low, shown.high)
    handles: list[Artist] = []
    for contender, points in shown.leading.items():
        look = LOOKS[contender]
        size = look.size if len(points) <= _FEW else 0.7 * look.size
        inside = [p.value if shown.low <= p.value <= shown.high else math.nan for p in points]
        handles += axes.plot(
            [p.block + 1 for p in points], inside, marker=look.marker, markersize=size,
            color=look.colour.light, markerfacecolor=look.fill,
            linestyle=look.line, linewidth=1.1, label=entry_name(shown.names[contender]), zorder=4,
        )  # fmt: skip
        _draw_outside(points, shown, look.colour.light, 6.0, axes)
    handles += _draw_others(shown, axes)
    axes.set_xlim(0.4, shown.last + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.set_xlabel("block")
    axes.set_ylabel(shown.y_label)
    legend_above(axes, handles, lines_between=0.3)


def _draw_others(shown: Blocks, axes: Axes) -> list[Line2D]:
    """A short dash for each world, all of them one path: there can be thousands."""
    inside = [p for p in shown.others if shown.low <= p.value <= shown.high]
    if not shown.others:
        return []
    _draw_outside(shown.others, shown, OTHER.light, 4.0, axes)
    return axes.plot(
            [x for p in inside for x in (p.block + 0.75, p.block + 1.25, math.nan)],
            [y for p in inside for y in (p.value, p.value, math.nan)],
            color=OTHER.light, linewidth=1.0, solid_capstyle="butt", zorder=3,
            label=plural(shown.other_configs, "other configuration"),
        )  # fmt: skip


def _draw_outside(
    points: Iterable[BlockPoint], shown: Blocks, colour: str, size: float, axes: Axes
) -> None:
    """Arrows at the edge where worlds are beyond it."""
    above = sorted({p.block + 1 for p in points if p.value > shown.high})
    below = sorted({p.block + 1 for p in points if p.value < shown.low})
    for found, edge, marker in ((above, 1.0, "^"), (below, 0.0, "v")):
        if found:
            axes.plot(
                found, [edge] * len(found), marker=marker, markersize=size, color=colour,
                linestyle="none", transform=axes.get_xaxis_transform(), clip_on=False, zorder=5,
            )  # fmt: skip


def blocks_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The worlds by block, with words; None where nothing was measured."""
    shown = blocks(answer)
    if shown is None:
        return None
    caption = (
        f"Each mark is one world: its {answer.objective.label}, in the block in which it ran. A "
        "slope that all lines share is drift of the machine, which does not affect comparisons "
        "within blocks."
    )
    if any(len({p.block for p in line}) < len(line) for line in shown.leading.values()):
        caption += " A block has the baseline twice: what lies between is noise alone."
    if shown.failed:
        caption += f" {plural(shown.failed, 'configuration')} shown here failed later."
    if shown.outside:
        verb = "is" if shown.outside == 1 else "are"
        caption += f" {plural(shown.outside, 'outlier')} {verb} drawn as arrows at the edge."
    texts = []
    for contender, points in shown.leading.items():
        values = [point.value for point in points]
        texts.append(
            f"{shown.names[contender]}, {plural(len(values), 'world')} from "
            f"{three_digits(min(values))} to {three_digits(max(values))} {answer.objective.unit}"
        )
    if shown.others:
        texts.append(f"{plural(len(shown.others), 'world')} of the other configurations")
    words = Words(
        name="blocks", title="Every world by block", caption=caption, alt="; ".join(texts)
    )
    return drawn(words, 2.8, lambda figure: draw_blocks(shown, figure.add_subplot()))
