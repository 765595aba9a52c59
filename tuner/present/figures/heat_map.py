"""The figure of two knobs: a grid with the objective in each cell."""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from tuner.plan.config import Dimension, values_of, varying
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, Value
from tuner.present.figures.kit.axis import LEAST_FACTOR
from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import names_of, varying_dimensions
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_above
from tuner.present.figures.kit.row_names import wrapped_apart
from tuner.present.figures.kit.theme import (
    HEAT,
    INK,
    NO_VALUE,
    ON_DARK_CELL,
    ON_LIGHT_CELL,
    SPINE,
    Colour,
    contrast,
)
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.rows import TrialRow
from tuner.text import first_of, three_digits

_MOST_COLUMNS = 8
"""More values than this become rows, if the other knob has fewer values."""
_CELL_IN = 0.34
_MOST_TOLD = 12
"""The most cells that the alternative text names."""
_SHORT_KINDS = {
    "deadlocked": "dead-\nlock",
    "timed-out": "time-\nout",
    "crashed": "crash",
    "init-failed": "init",
    "wrong-answer": "wrong",
    "trace-failed": "trace",
}
"""The kinds of failure, for narrow cells."""
_ROOM = 6
"""In more columns than this the cells are narrow."""


class Cell(NamedTuple):
    """One configuration of the grid."""

    trial: int
    value: float | None
    """None where it failed, even if it was measured before that."""
    failure: str | None
    contender: Contender | None


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The objective by two dimensions; a place of the grid without a configuration has no cell."""

    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Mapping[tuple[int, int], Cell]
    """By column and row."""

    def shade(self, value: float) -> Colour:
        """The colour of a value's cell: the more time, the darker, on a log scale.

        The colours span at least `LEAST_FACTOR`: values that differ by noise look alike.
        """
        values = [cell.value for cell in self.cells.values() if cell.value]
        low, high = math.log(min(values)), math.log(max(values))
        part = (math.log(value) - low) / max(high - low, math.log(LEAST_FACTOR))
        return HEAT[round(part * (len(HEAT) - 1))]


def text_on(shade: Colour) -> Colour:
    """The colour of a text on a cell of this shade: nearly black or nearly white."""
    return max(
        (ON_LIGHT_CELL, ON_DARK_CELL), key=lambda colour: contrast(colour.light, shade.light)
    )


def heat_map(answer: StudyAnswer) -> HeatMap | None:
    """The grid; None unless exactly two dimensions vary between the measured configurations."""
    workload = answer.plan.subject
    if len(dimensions := varying_dimensions(answer)) != 2:
        return None
    rows = _in_the_plane(answer, dimensions)
    by_trial = [row.config for row in sorted(rows, key=lambda row: row.trial)]
    found = {each: values_of(by_trial, each, workload) for each in dimensions}
    x, y = sorted(found, key=lambda dimension: dimension.knob != NUM_WORKER_THREADS.name)
    if len(found[x]) > _MOST_COLUMNS and len(found[y]) < len(found[x]):
        x, y = y, x
    contenders = names_of(answer).contenders
    cells: dict[tuple[int, int], Cell] = {}
    for row in rows:
        column, line = (found[each].index(row.config.value_of(each, workload)) for each in (x, y))
        cell = Cell(
            row.trial,
            row.value if row.is_measured and row.value > 0 else None,
            None if row.failure is None else row.outcome,
            contenders.get(row.trial),
        )
        cells.setdefault((column, line), cell)
    return HeatMap(
        x_label=str(x),
        y_label=str(y),
        columns=_written(x, found[x]),
        rows=_written(y, found[y]),
        cells=cells,
    )


def _in_the_plane(answer: StudyAnswer, plane: Container[Dimension]) -> list[TrialRow]:
    """The rows whose other dimensions have a value that was measured; the measured rows first."""
    workload = answer.plan.subject
    measured = [row.config for row in answer.rows if row.is_measured]
    outside = [
        (each, set(values_of(measured, each, workload)))
        for each in varying([row.config for row in answer.rows], workload)
        if each not in plane
    ]
    kept = [
        row
        for row in answer.rows
        if all(row.config.value_of(each, workload) in values for each, values in outside)
    ]
    return sorted(kept, key=lambda row: not row.is_measured)


def _written(dimension: Dimension, values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(KNOBS[dimension.knob].format(value) for value in values)


def draw_heat_map(shown: HeatMap, axes: Axes) -> None:
    """The cells with their numbers or failures, the contenders outlined."""
    for (column, row), cell in shown.cells.items():
        _draw_cell(cell, column, row, len(shown.columns) > _ROOM, shown, axes)
    for (column, row), cell in shown.cells.items():
        if cell.contender:
            _outline(cell.contender, column, row, axes)
    axes.set_xlim(-0.55, len(shown.columns) - 0.45)
    axes.set_ylim(len(shown.rows) - 0.45, -0.55)
    axes.set_xticks(range(len(shown.columns)), [_two_lines(name) for name in shown.columns])
    axes.set_yticks(range(len(shown.rows)), wrapped_apart(shown.rows, 14))
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel(shown.y_label)
    outlined = {cell.contender for cell in shown.cells.values()}
    handles = [
        Patch(facecolor="none", edgecolor=INK.light, linewidth=2, linestyle=line, label=contender)
        for contender, line in _LINES.items() if contender in outlined
    ]  # fmt: skip
    legend_above(axes, handles, columns=len(handles), lines_between=0.6)


_LINES: dict[Contender, Literal["-", ":"]] = {"baseline": ":", "best": "-", "challenger": "-"}


def _draw_cell(cell: Cell, column: int, row: int, narrow: bool, shown: HeatMap, axes: Axes) -> None:
    shade = NO_VALUE if cell.value is None else shown.shade(cell.value)
    axes.add_patch(
        Rectangle(
            (column - 0.47, row - 0.47), 0.94, 0.94, facecolor=shade.light,
            edgecolor=SPINE.light, linewidth=0.6,
        )
    )  # fmt: skip
    if cell.value is not None:
        text, colour = _number(cell.value), text_on(shade)
    elif cell.failure is not None:
        kind = _SHORT_KINDS.get(cell.failure, cell.failure) if narrow else cell.failure
        text, colour = kind.replace("-", "-\n") if not narrow else kind, INK
    else:
        text, colour = "–", INK  # noqa: RUF001
    axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=colour.light)


def _number(value: float) -> str:
    """Three digits, trailing zeros too, so that the numbers of all cells look alike."""
    if value >= 99.95:
        return three_digits(value)
    # Rounded first: 9.999 has one digit less behind the point than it seems.
    return f"{value:.{2 - math.floor(math.log10(float(f'{value:.2e}')))}f}"


def _outline(contender: Contender, column: int, row: int, axes: Axes) -> None:
    """A dark line on a broader light one, to be seen on every cell."""
    outlines: tuple[tuple[Colour, float, Literal["-", ":"]], ...] = (
        (ON_DARK_CELL, 4.5, "-"),
        (ON_LIGHT_CELL, 2.2, _LINES[contender]),
    )
    for colour, width, line in outlines:
        axes.add_patch(
            Rectangle(
                (column - 0.47, row - 0.47), 0.94, 0.94, facecolor="none", linewidth=width,
                edgecolor=colour.light, linestyle=line, zorder=3, clip_on=False,
            )
        )  # fmt: skip


def _two_lines(name: str) -> str:
    return name.replace("+", "+\n") if len(name) > 8 else name


def heat_map_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The grid with words; None where there is no grid."""
    shown = heat_map(answer)
    if shown is None:
        return None
    unit = answer.objective.unit
    texts = [
        f"{shown.x_label}={shown.columns[column]}, {shown.y_label}={shown.rows[row]}: "
        + (f"{three_digits(cell.value)} {unit}" if cell.value else cell.failure or "not measured")
        + (f" ({cell.contender})" if cell.contender else "")
        for (column, row), cell in shown.cells.items()
    ]
    caption = (
        f"The {answer.objective.heading} for each pair of values: the darker a cell, the "
        "larger its number, on a log scale."
    )
    if any(cell.failure for cell in shown.cells.values()):
        caption += " A cell with a word is a configuration that failed."
    if len(shown.cells) < len(shown.columns) * len(shown.rows):
        caption += " A pair without a cell is not in the search space."
    words = Words(
        name="heat_map", title="The two knobs together", caption=caption,
        alt=first_of(texts, _MOST_TOLD, separator="; "),
    )  # fmt: skip
    height = 0.7 + _CELL_IN * len(shown.rows)
    return drawn(words, height, lambda figure: draw_heat_map(shown, figure.add_subplot()))
