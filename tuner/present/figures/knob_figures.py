"""The figures of several knobs: two of them as a grid, and how much each of them matters."""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from tuner.plan.config import Dimension, values_of, varying
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS
from tuner.present.configurations import grid_of, varying_dimensions
from tuner.present.figures.kit import theme
from tuner.present.figures.kit.axis import LEAST_FACTOR
from tuner.present.figures.kit.canvas import SMALL, DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import Rows, legend_above, wrapped_apart
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.rows import TrialRow
from tuner.text import first_of, three_digits, whole_percent

_MOST_COLUMNS = 8
"""More values than this become rows, if the other knob has fewer values."""
_CELL_IN = 0.34
_MOST_TOLD = 12
"""The most cells that the alternative text names."""
_ROOM = 6
"""In more columns than this the cells are narrow."""
_SHORT_KINDS = {
    "deadlocked": "dead-\nlock", "timed-out": "time-\nout", "crashed": "crash",
    "init-failed": "init", "wrong-answer": "wrong", "trace-failed": "trace",
}  # fmt: skip
"""The kinds of failure, for narrow cells."""
_LINES: dict[Contender, Literal["-", ":"]] = {"baseline": ":", "best": "-", "challenger": "-"}

Place = tuple[int, int]
"""Column and row."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The objective by two dimensions; a place of the grid without a configuration has no cell."""

    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Mapping[Place, TrialRow]

    def shade(self, value: float) -> theme.Colour:
        """The colour of a cell, darker for more, on a log scale that spans `LEAST_FACTOR`."""
        values = [row.value for row in self.cells.values() if _has_value(row)]
        low, high = math.log(min(values)), math.log(max(values))
        part = (math.log(value) - low) / max(high - low, math.log(LEAST_FACTOR))
        return theme.HEAT[round(part * (len(theme.HEAT) - 1))]


def text_on(shade: theme.Colour) -> theme.Colour:
    """The colour of a text on a cell of this shade: nearly black or nearly white."""
    return theme.ON_DARK_CELL if shade in theme.HEAT[4:] else theme.ON_LIGHT_CELL


def _has_value(row: TrialRow) -> bool:
    """Whether it did not fail, even if it was measured before that."""
    return row.is_measured and row.value > 0


def heat_map(answer: StudyAnswer) -> HeatMap | None:
    """The grid; None unless exactly two dimensions vary between the measured configurations."""
    subject = answer.plan.subject
    if len(dimensions := varying_dimensions(answer)) != 2:
        return None
    rows = _in_the_plane(answer, dimensions)
    by_trial = [row.config for row in sorted(rows, key=lambda row: row.trial)]
    found = {each: values_of(by_trial, each, subject) for each in dimensions}
    x, y = sorted(found, key=lambda dimension: dimension.knob != NUM_WORKER_THREADS.name)
    if len(found[x]) > _MOST_COLUMNS and len(found[y]) < len(found[x]):
        x, y = y, x
    cells: dict[Place, TrialRow] = {}
    for row in rows:
        column, line = (found[each].index(row.config.value_of(each, subject)) for each in (x, y))
        cells.setdefault((column, line), row)
    columns, lines = (tuple(map(KNOBS[each.knob].format, found[each])) for each in (x, y))
    return HeatMap(x_label=str(x), y_label=str(y), columns=columns, rows=lines, cells=cells)


def _in_the_plane(answer: StudyAnswer, plane: Container[Dimension]) -> list[TrialRow]:
    """The rows whose other dimensions have a value that was measured; the measured rows first."""
    subject = answer.plan.subject
    every = varying([row.config for row in answer.rows], subject)
    measured = [row.config for row in answer.rows if row.is_measured]
    outside = {each: values_of(measured, each, subject) for each in every if each not in plane}
    kept = [
        row
        for row in answer.rows
        if all(row.config.value_of(each, subject) in known for each, known in outside.items())
    ]
    return sorted(kept, key=lambda row: not row.is_measured)


def draw_heat_map(shown: HeatMap, contenders: Mapping[Contender, int], axes: Axes) -> None:
    """The cells with their numbers or failures, the contenders outlined."""
    for place, row in shown.cells.items():
        shade = shown.shade(row.value) if _has_value(row) else theme.NO_VALUE
        _draw_square(place, axes, facecolor=shade.light, edgecolor=theme.SPINE.light, linewidth=0.6)
        colour = text_on(shade) if _has_value(row) else theme.INK
        text = _text(row, narrow=len(shown.columns) > _ROOM)
        axes.text(*place, text, ha="center", va="center", fontsize=SMALL, color=colour.light)
    at = {row.trial: place for place, row in shown.cells.items()}
    outlined = {each: at[trial] for each, trial in contenders.items() if trial in at}
    for contender, place in outlined.items():
        # A dark line on a broader light one, to be seen on every cell.
        for colour, width, line in (
            (theme.ON_DARK_CELL, 4.5, "-"), (theme.ON_LIGHT_CELL, 2.2, _LINES[contender])
        ):  # fmt: skip
            _draw_square(
                place, axes, facecolor="none", linewidth=width, edgecolor=colour.light,
                linestyle=line, zorder=3, clip_on=False,
            )  # fmt: skip
    axes.set_xlim(-0.55, len(shown.columns) - 0.45)
    axes.set_ylim(len(shown.rows) - 0.45, -0.55)
    names = [name.replace("+", "+\n") if len(name) > 8 else name for name in shown.columns]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(shown.rows)), wrapped_apart(shown.rows, 14))
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel(shown.y_label)
    handles = [
        Patch(facecolor="none", edgecolor=theme.INK.light, linewidth=2, linestyle=line, label=each)
        for each, line in _LINES.items() if each in outlined
    ]  # fmt: skip
    legend_above(axes, handles, columns=len(handles), lines_between=0.6)


def _draw_square(place: Place, axes: Axes, **look: object) -> None:
    column, row = place
    axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, **look))  # type: ignore[arg-type]


def _text(row: TrialRow, *, narrow: bool) -> str:
    """Three digits, trailing zeros too, so that all numbers look alike; or the kind of failure."""
    if _has_value(row):
        if row.value >= 99.95:
            return three_digits(row.value)
        # Rounded first: 9.999 has one digit less behind the point than it seems.
        return f"{row.value:.{2 - math.floor(math.log10(float(f'{row.value:.2e}')))}f}"
    if row.failure is None:
        return "–"  # noqa: RUF001
    return _SHORT_KINDS.get(row.outcome, row.outcome) if narrow else row.outcome.replace("-", "-\n")


def heat_map_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The grid with words; None where there is no grid."""
    shown = heat_map(answer)
    if shown is None:
        return None
    contenders = {trial: f" ({contender})" for contender, trial in answer.contenders.items()}
    texts = []
    for (x, y), row in shown.cells.items():
        what = row.outcome if row.failure is not None else "not measured"
        if _has_value(row):
            what = f"{three_digits(row.value)} {answer.objective.unit}"
        at = f"{shown.x_label}={shown.columns[x]}, {shown.y_label}={shown.rows[y]}"
        texts.append(f"{at}: {what}{contenders.get(row.trial, '')}")
    caption = (
        f"The {answer.objective.heading} for each pair of values: the darker a cell, the "
        "larger its number, on a log scale."
    )
    if any(row.failure for row in shown.cells.values()):
        caption += " A cell with a word is a configuration that failed."
    if len(shown.cells) < len(shown.columns) * len(shown.rows):
        caption += " A pair without a cell is not in the search space."
    return drawn(
        lambda figure: draw_heat_map(shown, answer.contenders, figure.add_subplot()),
        0.7 + _CELL_IN * len(shown.rows),
        name="heat_map",
        title="The two knobs together",
        caption=caption,
        alt=first_of(texts, _MOST_TOLD, separator="; "),
    )


REST = "interactions and noise"


def importance(answer: StudyAnswer) -> dict[str, float] | None:
    """The share of each knob, the largest first, and the rest; None unless two vary and matter."""
    shares = {str(each): share for each, share in grid_of(answer).shares.items()}
    if len(shares) < 2 or not any(shares.values()):
        return None
    return {**shares, REST: max(0.0, 1.0 - sum(shares.values()))}


def draw_importance(shares: Mapping[str, float], axes: Axes) -> None:
    """A bar per share."""
    rows = Rows(tuple(shares))
    for at, (name, share) in zip(rows.at, shares.items(), strict=True):
        colour, hatch = (theme.OFF_CPU, "////") if name == REST else (theme.SERIES[0], None)
        axes.barh(
            at, 100 * share, rows.bar_in, edgecolor=theme.INK.light, linewidth=0.6,
            facecolor=colour.light, hatch=hatch,
        )  # fmt: skip
        axes.annotate(
            whole_percent(share), (100 * share, at), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=SMALL,
        )  # fmt: skip
    rows.draw(axes, None)
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("share of the differences explained (%)")


def importance_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The shares with words; None where there is nothing to show."""
    shares = importance(answer)
    if shares is None:
        return None
    return drawn(
        lambda figure: draw_importance(shares, figure.add_subplot()),
        0.65 + Rows(tuple(shares)).height_in,
        name="importance",
        title="Which knobs matter",
        caption=(
            f"The share of the variance of log({answer.objective.label}) between the "
            f"{len(answer.levels)} measured configurations that each knob explains alone. The rest "
            "is how knobs act together, and noise. Configurations are compared with the baseline "
            "within blocks."
        ),
        alt=", ".join(f"{name} {whole_percent(share)}" for name, share in shares.items()),
    )
