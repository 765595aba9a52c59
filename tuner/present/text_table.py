"""Tables as lines of text: headings of at most two lines, and numbers that are never broken."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

GAP = "  "
_BREAKS = re.compile(r"(?<=[_.])| ")
_LEAST_NAME = 12
"""Characters that are kept of a name that is shortened."""
_TAILS = (1 / 2, 2 / 3, 1 / 3, 4 / 5, 1 / 5)
"""The share of a shortened name that its end is: the first with which all names stay different."""


class Column(NamedTuple):
    """A column of text cells below one heading."""

    heading: str
    cells: Sequence[str]
    is_name: bool = False
    """Whether its cells stand at the left; the first column's may be shortened in the middle."""


def shown_of(there_are: int, most: int) -> int:
    """How many rows to show, of which a line says how many more there are: one has its place."""
    return there_are if there_are <= most + 1 else most


def rows_left_out(shown: int, there_are: int) -> list[str]:
    """A line below a table that shows so many rows of all; none where it shows them all."""
    more = f"{shown} of {there_are} rows; --row-limit 0 shows all"
    return [more] if shown < there_are else []


def text_table(columns: Sequence[Column], width: int) -> list[str]:
    """The lines of a table: its heading, a rule, a line per row.

    Where it is wider than `width` characters headings are folded, then names cut, and no more.
    """
    headings = [[column.heading] for column in columns]
    by_gain = sorted(range(len(columns)), key=lambda place: -_gain(columns[place]))
    for place in by_gain:
        if _total(headings, columns) <= width or _gain(columns[place]) <= 0:
            break
        headings[place] = _folded(columns[place].heading)
    first, excess = columns[0], _total(headings, columns) - width
    most = max(map(cell_len, first.cells), default=0) - excess
    if excess > 0 and first.is_name and most >= _LEAST_NAME:
        columns = [first._replace(cells=shortened_names(first.cells, most)), *columns[1:]]
    high = max(map(len, headings))
    filled = [
        _filled([*[""] * (high - len(lines)), *lines], column)
        for lines, column in zip(headings, columns, strict=True)
    ]
    lines = [GAP.join(line).rstrip() for line in zip(*filled, strict=True)]
    rule = "─" * min(width, max(map(cell_len, lines)))
    return [*lines[:high], rule, *lines[high:]]


def _gain(column: Column) -> int:
    """How much narrower the column gets if its heading has two lines."""
    one, two = (_width(lines, column) for lines in ([column.heading], _folded(column.heading)))
    return one - two


def _folded(heading: str) -> list[str]:
    """The heading in two lines, as alike in length as its words permit."""
    places = [found.span() for found in _BREAKS.finditer(heading) if found.start() > 0]
    halves = [[heading[:start], heading[end:]] for start, end in places if heading[end:]]
    return min(halves, key=lambda two: max(map(cell_len, two)), default=[heading])


def _total(headings: Sequence[Sequence[str]], columns: Sequence[Column]) -> int:
    widths = map(_width, headings, columns)
    return sum(widths) + len(GAP) * (len(columns) - 1)


def _width(heading: Sequence[str], column: Column) -> int:
    return max(map(cell_len, [*heading, *column.cells]))


def _filled(heading: Sequence[str], column: Column) -> list[str]:
    width, texts = _width(heading, column), [*heading, *column.cells]
    gaps = [" " * (width - cell_len(text)) for text in texts]
    pairs = zip(texts, gaps, strict=True)
    return [f"{text}{gap}" if column.is_name else f"{gap}{text}" for text, gap in pairs]


def shortened_names(names: Sequence[str], most: int) -> list[str]:
    """The names with at most so many characters, cut in the middle, and as different as before."""
    for tail in _TAILS:
        found = [cut_in_middle(name, most, round(tail * (most - 1))) for name in names]
        if len({*found}) == len({*names}):
            return found
    return [*names]


def cut_in_middle(name: str, most: int, tail: int) -> str:
    """The name with at most so many characters, of which the last `tail` are its end's."""
    return name if len(name) <= most else f"{name[: most - tail - 1]}…{name[len(name) - tail :]}"
