"""The figure of every world that counts, by block: it shows drift over time, and outliers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tuner.present.configurations import names_of
from tuner.present.figures.kit.axis import margin_of, plain_log_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import Entry, entry_name, legend_above
from tuner.present.figures.kit.theme import LOOKS, OTHER
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.rows import Observation
from tuner.text import plural, three_digits

_FENCE = 3.0
"""A world so many times the middle half's width away from it is an outlier: Tukey's far out."""
_NARROWEST = math.log(1.05)
"""The middle half counts as at least this wide: where worlds hardly differ, none is an outlier."""
_FEW = 20
"""A line of more worlds has smaller marks."""


@dataclass(frozen=True)
class Blocks:
    """The worlds by block; values outside of `low` to `high` are drawn at the edge."""

    leading: Mapping[Contender, Sequence[Observation]]
    """The worlds of each contender, in order."""
    others: Sequence[Observation]
    low: float
    high: float

    @property
    def outside(self) -> int:
        """How many worlds are beyond the scale."""
        groups = [self.others, *self.leading.values()]
        return sum(not self.low <= world.value <= self.high for group in groups for world in group)


def blocks(answer: StudyAnswer) -> Blocks | None:
    """Every observation of the study; None if there are none."""
    if not answer.observations:
        return None
    contenders = names_of(answer).contenders
    worlds: dict[Contender | None, list[Observation]] = {}
    for seen in answer.observations:
        worlds.setdefault(contenders.get(seen.trial), []).append(seen)
    leading = {look: worlds[look] for look in LOOKS if look in worlds}
    others = worlds.get(None, [])
    return Blocks(leading, others, *_scale([*leading.values(), others]))


def _scale(groups: Sequence[Sequence[Observation]]) -> tuple[float, float]:
    """From where to where to draw: all values of each group but its outliers, and some margin."""
    ends: list[float] = []
    for group in groups:
        values = np.array([world.value for world in group if world.value > 0])
        if len(values):
            logs = np.log(values)
            first, third = np.quantile(logs, [0.25, 0.75])
            fence = _FENCE * max(third - first, _NARROWEST)
            inside = values[(logs >= first - fence) & (logs <= third + fence)]
            ends += [float(inside.min()), float(inside.max())]
    if not ends:
        return 0.1, 10.0
    margin = margin_of(min(ends), max(ends))
    return min(ends) / margin, max(ends) * margin


def draw_blocks(answer: StudyAnswer, shown: Blocks, axes: Axes) -> None:
    """Lines for the contenders, grey marks for the others, arrows for what is beyond the edges."""
    plain_log_axis(axes, "y", shown.low, shown.high)
    handles: list[Entry] = []
    names = names_of(answer)
    for contender, worlds in shown.leading.items():
        look = LOOKS[contender]
        handles += axes.plot(
            [world.block + 1 for world in worlds],
            [w.value if shown.low <= w.value <= shown.high else math.nan for w in worlds],
            marker=look.marker, markersize=look.size if len(worlds) <= _FEW else 0.7 * look.size,
            color=look.colour.light, markerfacecolor=look.fill, linestyle=look.line, linewidth=1.1,
            label=entry_name(names.legend_name(worlds[0].trial)), zorder=4,
        )  # fmt: skip
        _draw_outside(worlds, shown, look.colour.light, 6.0, axes)
    if shown.others:
        # A short dash for each world, all of them one path: there can be thousands.
        inside = [w for w in shown.others if shown.low <= w.value <= shown.high]
        _draw_outside(shown.others, shown, OTHER.light, 4.0, axes)
        others = len({world.trial for world in shown.others})
        handles += axes.plot(
            [x for w in inside for x in (w.block + 0.75, w.block + 1.25, math.nan)],
            [y for w in inside for y in (w.value, w.value, math.nan)],
            color=OTHER.light, linewidth=1.0, solid_capstyle="butt", zorder=3,
            label=plural(others, "other configuration"),
        )  # fmt: skip
    last = max(seen.block for seen in answer.observations) + 1
    axes.set_xlim(0.4, last + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.set_xlabel("block")
    axes.set_ylabel(f"{answer.objective.short_heading}\n(log scale)")
    legend_above(axes, handles)


def _draw_outside(
    worlds: Sequence[Observation], shown: Blocks, colour: str, size: float, axes: Axes
) -> None:
    """Arrows at the edge where worlds are beyond it."""
    above = sorted({world.block + 1 for world in worlds if world.value > shown.high})
    below = sorted({world.block + 1 for world in worlds if world.value < shown.low})
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
    if any(len({w.block for w in line}) < len(line) for line in shown.leading.values()):
        caption += " A block has the baseline twice: what lies between is noise alone."
    trials = {seen.trial for seen in answer.observations}
    if failed := sum(row.trial in trials and row.failure is not None for row in answer.rows):
        caption += f" {plural(failed, 'configuration')} shown here failed later."
    if shown.outside:
        verb = "is" if shown.outside == 1 else "are"
        caption += f" {plural(shown.outside, 'outlier')} {verb} drawn as arrows at the edge."
    names, unit, texts = names_of(answer), answer.objective.unit, []
    for worlds in shown.leading.values():
        values = [world.value for world in worlds]
        ends = f"{three_digits(min(values))} to {three_digits(max(values))} {unit}"
        name = names.legend_name(worlds[0].trial)
        texts.append(f"{name}, {plural(len(values), 'world')} from {ends}")
    if shown.others:
        texts.append(f"{plural(len(shown.others), 'world')} of the other configurations")
    return drawn(
        lambda figure: draw_blocks(answer, shown, figure.add_subplot()), 2.8,
        name="blocks", title="Every world by block", caption=caption, alt="; ".join(texts),
    )  # fmt: skip
