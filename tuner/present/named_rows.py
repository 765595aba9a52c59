"""Tables of numbers by name as lines of text, for names as long as those of calls are.

Where the names leave no room for the numbers, each stands on a line of its own above them: a name
is never cut, and a row of numbers never broken.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tuner.text import three_digits

_GAP = "  "
_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
_LARGEST = 1e4
"""From here on a number is given in the next larger unit."""


class Column(NamedTuple):
    """Cells under a heading, which may have several lines."""

    heading: str
    cells: Sequence[str]


def named_rows(name: str, names: Sequence[str], columns: Sequence[Column], width: int) -> list[str]:
    """The lines of a table, the names under the heading `name`, empty columns left out.

    They are no longer than `width` unless a name or a row of numbers alone is.
    """
    top, rows = _justified([column for column in columns if any(column.cells)])
    longest = max(map(len, [name, *names]))
    if longest + len(top[0]) <= width:
        beside = [""] * (len(top) - 1) + [name]
        heading = [f"{text:<{longest}}{line}" for text, line in zip(beside, top, strict=True)]
        body = [f"{text:<{longest}}{line}" for text, line in zip(names, rows, strict=True)]
    else:
        heading = [name, *(_GAP + line for line in top)]
        body = [
            line for pair in zip(names, rows, strict=True) for line in (pair[0], _GAP + pair[1])
        ]
    rule = "─" * min(width, max(map(len, heading + body)))
    return [*(line.rstrip() for line in heading), rule, *body]


def time_columns(table: pd.DataFrame, headings: Mapping[str, str]) -> list[Column]:
    """Columns of microseconds by their names in the frame, in the one unit that suits them all."""
    largest = float(table[list(headings)].max().max())
    unit, us = next((each for each in _UNITS if largest / each[1] < _LARGEST), _UNITS[-1])
    return [
        Column(f"{heading}\n({unit})", [decimal(value / us) for value in table[column]])
        for column, heading in headings.items()
    ]


def decimal(value: float) -> str:
    """Three digits, none of them beyond the thousandths; nothing where the number is unknown."""
    return three_digits(round(value, 3))


def percent(share: float) -> str:
    """A share of 1 as a percentage, to the tenth; nothing where it is unknown."""
    return f"{digits} %" if (digits := three_digits(round(100 * share, 1))) else ""


def _justified(columns: Sequence[Column]) -> tuple[list[str], list[str]]:
    """The lines of the headings, and those of the cells."""
    headings = [column.heading.split("\n") for column in columns]
    high = max(map(len, headings))
    filled = [[""] * (high - len(heading)) + heading for heading in headings]
    widths = [max(map(len, [*top, *c.cells])) for top, c in zip(filled, columns, strict=True)]
    lines = [*zip(*filled, strict=True), *zip(*(c.cells for c in columns), strict=True)]
    text = [
        "".join(f"{_GAP}{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return text[:high], text[high:]
