"""Tables of numbers as lines of text, for rows with names as long as those of calls.

Where the names leave no room for the numbers, each name has a line of its own, above its numbers: a
name is never cut, and a row of numbers is never broken.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tuner.text import decimal, one_line

_GAP = "  "
_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
_LARGEST = 1e4
"""From here on a number is given in the next larger unit."""


class Column(NamedTuple):
    """Cells under a heading, which may have several lines."""

    heading: str
    cells: Sequence[str]


def named_rows(name: str, names: Sequence[str], columns: Sequence[Column], width: int) -> list[str]:
    """The lines of a table without its empty columns.

    Args:
        name: The heading of the names.
        names: The name of each row.
        columns: The numbers of all rows, by column.
        width: The most characters of a line, unless a name or a row of numbers is longer.
    """
    names = [*map(one_line, names)]
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
    """Columns of times, all in the unit that suits the largest.

    Args:
        table: A frame with times in microseconds.
        headings: The heading of each column, by its name in the frame.
    """
    largest = float(table[list(headings)].max().max())
    unit, us = next((each for each in _UNITS if largest / each[1] < _LARGEST), _UNITS[-1])
    return [
        Column(f"{heading}\n({unit})", [decimal(value / us) for value in table[column]])
        for column, heading in headings.items()
    ]


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
