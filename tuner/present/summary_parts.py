"""What a summary is made of: lines, tables and code, which are printed now or kept in a file.

No pandas and no Optuna here: a summary that was kept is printed without waiting for them.
"""

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tuner.study.folder import StudyFolder

Part = dict[str, Any]
"""One part as JSON: `line` with its `style`, `table`, or `code` with its `language`."""

_GAP = 2
"""Characters beside a column: what stands between two, or one at each edge of the table."""
_LONGEST_VALUE = 20
"""Characters of a value that is not broken for the sake of metrics."""
_COLUMN = ("header", "justify", "no_wrap", "min_width", "ratio", "overflow")


def line(text: str, style: str = "") -> Part:
    """A line of any length, which is never cut; empty for a gap."""
    return {"line": text, "style": style}


def code(text: str, language: str) -> Part:
    """Lines for pasting."""
    return {"code": text, "language": language}


def table(shown: Table, spare: Sequence[int] = ()) -> Part:
    """A table whose cells are text.

    Args:
        shown: The table.
        spare: The places of the columns that are left out where a screen is too narrow for all,
            the last one first.
    """
    columns = [list(column.cells) for column in shown.columns]
    return {
        "table": {
            "title": shown.title,
            "collapse_padding": shown.collapse_padding,
            "columns": [
                {name: getattr(column, name) for name in _COLUMN} for column in shown.columns
            ],
            "rows": [
                {
                    "cells": [str(cells[place]) for cells in columns],
                    "style": str(row.style or ""),
                }
                for place, row in enumerate(shown.rows)
            ],
            "spare": [*spare],
        }
    }


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print parts one below the other."""
    for part in parts:
        if "table" in part:
            console.print(_table(part["table"], console.width))
        elif "code" in part:
            # Never cut at the edge of a narrow terminal: these lines are for pasting.
            syntax = Syntax("", part["language"], theme="ansi_light", background_color="default")
            indented = textwrap.indent(part["code"], "    ")
            console.print(syntax.highlight(indented), soft_wrap=True)
        else:
            console.print(Text(part["line"], style=part["style"]), soft_wrap=True)


def _table(kept: dict[str, Any], width: int) -> Table:
    shown = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=kept["collapse_padding"],
        title=kept["title"],
        title_justify="left",
    )
    widths = _widths(kept, width)
    has_room = bool(kept.get("spare")) and _needed(widths) <= width
    for place in widths:
        column = dict(kept["columns"][place])
        is_whole = all(len(row["cells"][place]) <= widths[place] for row in kept["rows"])
        if has_room and is_whole:
            # Else rich breaks it where another has words to wrap. What is longer would be cut.
            column |= {"min_width": widths[place], "no_wrap": True}
        shown.add_column(**column)
    for row in kept["rows"]:
        shown.add_row(*(row["cells"][place] for place in widths), style=row["style"] or None)
    return shown


def _widths(kept: dict[str, Any], width: int) -> dict[int, int]:
    """The characters of each column that is shown; spare ones are not where there is no room."""
    widths = {
        place: _widest(column, [row["cells"][place] for row in kept["rows"]])
        for place, column in enumerate(kept["columns"])
    }
    for place in reversed(kept.get("spare", ())):
        if _needed(widths) > width:
            del widths[place]
    return widths


def _needed(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * len(widths)


def _widest(column: dict[str, Any], cells: Sequence[str]) -> int:
    """The width at which a column has line breaks between words only, or in very long values."""
    header, separator = column["header"].split("\n"), "\n" if column["no_wrap"] else None
    words = [len(part) for cell in cells for part in cell.split(separator)]
    if column["overflow"] == "fold":
        words = [min(each, _LONGEST_VALUE) for each in words]
    return max([*map(len, header), *words])


def files_line(folder: StudyFolder) -> str:
    """Where the report is, and the names of the other files of the study."""
    near = os.path.relpath(folder.root)
    root = folder.root.resolve() if near.startswith("..") else Path(near)
    others = (
        folder.recommended,
        folder.trials_csv,
        folder.figures,
        folder.traces,
        folder.failures,
        folder.database,
    )
    names = ", ".join(path.name for path in others if path.exists())
    report = f"Report: {root / folder.report.name}\n" if folder.report.exists() else ""
    return f"{report}In {root}: {names}"
