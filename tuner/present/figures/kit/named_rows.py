"""Names in figures: rows that are named, legends beside the axes, long names in short lines."""

import itertools
import math
import textwrap
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container as Drawn
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from tuner.present.configurations import ConfigNames
from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.theme import INK, MUTED
from tuner.present.text_table import cut_in_middle
from tuner.study.rows import TrialRow
from tuner.text import plural

_MOST_ROWS, _MOST_LONG_ROWS = 16, 10
"""The most rows that a figure has room for; the same for long names."""
_LONG = 40
"""Names of more letters than this are long."""
_BESIDE = 15
"""Names of so many letters stand beside their rows, longer ones above them."""
_LINE, _ENTRY = 56, 50
"""Letters that fit on a line of the report's width, and beside the handle of a legend's entry."""
_TEXT_IN, _GAP_IN = 0.165, 0.1
"""Inches of a line of text, and from one row to the next."""

Entry = Artist | Drawn
"""What a legend can show."""
T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Named rows from the top down; the y of their axes is in inches."""

    names: tuple[str, ...]
    bar_in: float = 0.14
    """The height of what is drawn in a row."""
    leading: tuple[bool, ...] = ()
    """Which names are dark, where the others are paler."""

    @property
    def above(self) -> bool:
        """Whether the names are too long to stand beside the rows."""
        return any(len(name) > _BESIDE for name in self.names)

    @property
    def lines(self) -> list[str]:
        """The names, the long ones in two lines."""
        return wrapped_apart(self.names, _LINE)

    @property
    def heights_in(self) -> list[float]:
        """The height of each row with its name."""
        if not self.above:
            return [self.bar_in + 0.11] * len(self.names)
        return [_TEXT_IN * (text.count("\n") + 1) + self.bar_in + _GAP_IN for text in self.lines]

    @property
    def height_in(self) -> float:
        """Inches of all rows."""
        return sum(self.heights_in)

    @property
    def at(self) -> list[float]:
        """The y of the middle of each row's drawing."""
        gap = _GAP_IN if self.above else 0.055
        return [bottom - gap - self.bar_in / 2 for bottom in itertools.accumulate(self.heights_in)]

    def heading_lines(self, label: str | None) -> float:
        """Lines of text that `draw` writes over the axes."""
        return 1.6 if label and not self.above else 0.3

    def draw(self, axes: Axes, label: str | None) -> None:
        """Name the rows, values of `label`."""
        leading = self.leading if any(self.leading) else [True] * len(self.names)
        colours = [(INK if is_leading else MUTED).light for is_leading in leading]
        axes.grid(axis="y", visible=False)
        axes.set_ylim(self.height_in, 0)
        if self.above:
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            for at, text, colour in zip(self.at, self.lines, colours, strict=True):
                axes.annotate(
                    text, (0, at - self.bar_in / 2), xycoords=("axes fraction", "data"),
                    xytext=(0, 1), textcoords="offset points", va="bottom", fontsize=SMALL,
                    color=colour, annotation_clip=False, zorder=7,
                ).set_in_layout(False)  # fmt: skip
            return
        axes.set_yticks(self.at, self.names)
        for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
            tick.set_color(colour)
        axes.tick_params(axis="y", length=0)
        if label:
            axes.annotate(
                label, (0.01, 1), xycoords=("figure fraction", "axes fraction"),
                xytext=(0, 2), textcoords="offset points", fontsize=SMALL,
            )  # fmt: skip


def rows_of(names: ConfigNames, trials: Collection[int]) -> Rows:
    """A row per trial, of which the contenders stand out."""
    leading = tuple(trial in names.contenders for trial in trials)
    return Rows(tuple(map(names.row_name, trials)), leading=leading)


def shown_rows(names: ConfigNames, rows: Sequence[TrialRow]) -> list[TrialRow]:
    """Of these rows the contenders and the fastest others, in their order."""
    trials = {row.trial: names.names[row.trial] for row in rows}
    kept = with_room(trials, names.contenders)
    return [row for row in rows if row.trial in kept]


def with_room(names: Mapping[T, str], leading: Container[T]) -> list[T]:
    """What a figure has room for, of things with names: the leading ones, and the first others."""
    most = _MOST_LONG_ROWS if any(len(name) > _LONG for name in names.values()) else _MOST_ROWS
    others = [name for name in names if name not in leading]
    kept = others[: max(0, most - (len(names) - len(others)))]
    return [name for name in names if name in leading or name in kept]


def left_out(shown: int, of: int) -> str:
    """` Shown are 16 of 60 configurations: ...`; nothing where all are shown."""
    said = f" Shown are {shown} of {plural(of, 'configuration')}: the baseline, and the best."
    return said if shown < of else ""


def entry_name(name: str, width: int = _ENTRY) -> str:
    """The name of a legend's entry in lines of so many letters."""
    return wrapped_apart([name], width)[0]


def entry_names(names: Iterable[str]) -> dict[str, str]:
    """`entry_name` of each name, by the name; names that differ look different."""
    known = [*dict.fromkeys(names)]
    return dict(zip(known, wrapped_apart(known, _ENTRY), strict=True))


def legend_above(
    axes: Axes, handles: Sequence[Entry], columns: int = 1, lines_between: float = 0.3
) -> None:
    """A legend over the axes, so many lines of text above them, at the left edge of lone axes."""
    if not handles:
        return
    alone = len(axes.figure.axes) == 1
    across = axes.figure.transSubfigure if alone else axes.transAxes
    axes.legend(
        handles=_row_by_row(handles, columns), loc="lower left", ncols=columns, columnspacing=1.2,
        bbox_to_anchor=(0.02 if alone else 0.0, 1.0), borderaxespad=lines_between,
        bbox_transform=blended_transform_factory(across, axes.transAxes),
    )  # fmt: skip


def legend_below(figure: Figure, handles: Sequence[Entry], columns: int) -> None:
    """A legend at the foot of the figure."""
    if handles:
        figure.legend(
            handles=_row_by_row(handles, columns), loc="outside lower left", ncols=columns,
            columnspacing=1.2,
        )  # fmt: skip


def _row_by_row(handles: Sequence[Entry], columns: int) -> list[Entry]:
    """The order in which matplotlib, which fills column by column, shows the entries row by row."""
    return [handle for first in range(columns) for handle in handles[first::columns]]


def wrapped(name: str, width: int, most: int = 2) -> str:
    """The name in lines of so many letters, cut where it is longer than `most` of them."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: width - 1]}…"]
    return "\n".join(lines)


def wrapped_apart(names: Sequence[str], width: int) -> list[str]:
    """The names in two lines at most, cut in the middle; names that differ look different."""
    for kept in (1.0, 0.6, 0.3, 0.0):
        texts = [_cut(name, width, math.floor(kept * 2 * width)) for name in names]
        if len(set(texts)) == len(set(names)):
            return texts
    # They differ in their middles alone, which are too long to show.
    numbers = {name: f" ({number})" for number, name in enumerate(dict.fromkeys(names), start=1)}
    room = max(1, 2 * width - max(map(len, numbers.values())) - 2)
    return [_folded(f"{name[:room]}…{numbers[name]}", width) for name in names]


def _cut(name: str, width: int, head: int) -> str:
    """The name in two lines, of which at least `head` letters of the beginning are kept."""
    if head >= 2 * width or len(textwrap.wrap(name, width, break_on_hyphens=False)) <= 2:
        return wrapped(name, width)
    return _folded(cut_in_middle(name, 2 * width, 2 * width - head - 1), width)


def _folded(text: str, width: int) -> str:
    """The text in full lines, whatever it breaks."""
    return "\n".join(text[at : at + width].strip() for at in range(0, len(text), width))
