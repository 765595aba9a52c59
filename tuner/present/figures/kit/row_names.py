"""Figures with a row per configuration: which are shown, and how the rows are named."""

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import ConfigNames
from tuner.present.figures.kit.theme import INK, MUTED
from tuner.study.rows import TrialRow
from tuner.text import plural

MOST_ROWS = 16
MOST_LONG_ROWS = 10
"""The most rows that a figure has room for; the same for long names."""
_LONG = 40
"""Names of more letters than this are long."""

_BESIDE = 15
"""Names of so many letters stand beside their rows, longer ones above them."""
_LINE = 56
"""Letters that fit on a line of the report's width."""
_TEXT_IN, _GAP_IN = 0.165, 0.1
"""Inches of a line of text, and from one row to the next."""


@dataclass(frozen=True)
class Rows:
    """Named rows from the top down; the y of their axes is in inches."""

    names: tuple[str, ...]
    bar_in: float = 0.14
    """The height of what is drawn in a row."""

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

    def draw(self, axes: Axes, label: str | None, emphasised: Iterable[int] = ()) -> None:
        """Name the rows of the axes.

        Args:
            axes: Where the rows are drawn.
            label: What the names are values of.
            emphasised: The rows whose names stand out; none: all of them.
        """
        leading = set(emphasised) or set(range(len(self.names)))
        if self.above:
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            for place, (at, text) in enumerate(zip(self.at, self.lines, strict=True)):
                axes.annotate(
                    text, (0, at - self.bar_in / 2), xycoords=("axes fraction", "data"),
                    xytext=(0, 1), textcoords="offset points", va="bottom", fontsize=SMALL,
                    color=(INK if place in leading else MUTED).light, annotation_clip=False,
                    zorder=7,
                ).set_in_layout(False)  # fmt: skip
        else:
            axes.set_yticks(self.at, self.names)
            for place, tick in enumerate(axes.get_yticklabels()):
                tick.set_color((INK if place in leading else MUTED).light)
            axes.tick_params(axis="y", length=0)
            if label:
                axes.annotate(
                    label, (0.01, 1), xycoords=("figure fraction", "axes fraction"),
                    xytext=(0, 2), textcoords="offset points", fontsize=SMALL,
                )  # fmt: skip
        axes.grid(axis="y", visible=False)
        axes.set_ylim(self.height_in, 0)


def shown_rows(names: ConfigNames, rows: Sequence[TrialRow]) -> list[TrialRow]:
    """Of these rows the contenders and the fastest others, in their order."""
    most = most_rows(names.name(row.trial) for row in rows)
    leading = {row.trial for row in rows if row.trial in names.contenders}
    others = [row.trial for row in rows if row.trial not in leading]
    kept = leading.union(others[: max(0, most - len(leading))])
    return [row for row in rows if row.trial in kept]


def most_rows(names: Iterable[str]) -> int:
    """How many rows with such names a figure has room for."""
    return MOST_LONG_ROWS if any(len(name) > _LONG for name in names) else MOST_ROWS


def left_out(shown: int, of: int) -> str:
    """` Shown are 16 of 60 configurations: ...`; nothing where all are shown."""
    if shown == of:
        return ""
    return f" Shown are {shown} of {plural(of, 'configuration')}: the baseline, and the best."


def wrapped(name: str, width: int, most: int = 2) -> str:
    """The name in lines of so many letters, cut where it is longer than `most` of them."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: width - 1]}…"]
    return "\n".join(lines)


def wrapped_apart(names: Sequence[str], width: int, most: int = 2) -> list[str]:
    """`wrapped` names, of which no two look alike where the names differ.

    Where their ends tell them apart these are kept, and the middle is cut.
    """
    letters = width * most
    for kept in (1.0, 0.6, 0.3, 0.0):
        texts = [_cut(name, width, most, math.floor(kept * letters)) for name in names]
        if len(set(texts)) == len(set(names)):
            return texts
    # They differ in their middles alone, which are too long to show.
    numbers = {name: f" ({number})" for number, name in enumerate(dict.fromkeys(names), start=1)}
    room = letters - max(map(len, numbers.values())) - most
    return [_folded(f"{name[: max(1, room)]}…{numbers[name]}", width) for name in names]


def _cut(name: str, width: int, most: int, head: int) -> str:
    """The name in lines, of which at least `head` letters of the beginning are kept."""
    if head >= width * most or len(textwrap.wrap(name, width, break_on_hyphens=False)) <= most:
        return wrapped(name, width, most)
    tail = width * most - head - 1
    return _folded(f"{name[:head]}…{name[-tail:]}", width)


def _folded(text: str, width: int) -> str:
    """The text in full lines, whatever it breaks."""
    return "\n".join(text[at : at + width].strip() for at in range(0, len(text), width))
