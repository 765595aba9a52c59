"""What a summary is made of: lines, tables and code, which are printed now or kept in a file.

No pandas and no Optuna here: a summary that was kept is printed without waiting for them.
"""

import textwrap
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

Part = dict[str, Any]
"""One part as JSON: `line` with its `style`, `table`, or `code` with its `language`."""

_COLUMN = ("header", "justify", "no_wrap", "min_width", "ratio", "overflow")


def line(text: str, style: str = "") -> Part:
    """A line of any length, which is never cut; empty for a gap."""
    return {"line": text, "style": style}


def code(text: str, language: str) -> Part:
    """Lines for pasting."""
    return {"code": text, "language": language}


def table(shown: Table) -> Part:
    """A table whose cells are text."""
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
        }
    }


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print parts one below the other."""
    for part in parts:
        if "table" in part:
            console.print(_table(part["table"]))
        elif "code" in part:
            # Never cut at the edge of a narrow terminal: these lines are for pasting.
            syntax = Syntax("", part["language"], theme="ansi_light", background_color="default")
            indented = textwrap.indent(part["code"], "    ")
            console.print(syntax.highlight(indented), soft_wrap=True)
        else:
            console.print(Text(part["line"], style=part["style"]), soft_wrap=True)


def _table(kept: dict[str, Any]) -> Table:
    shown = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=kept["collapse_padding"],
        title=kept["title"],
        title_justify="left",
    )
    for column in kept["columns"]:
        shown.add_column(**column)
    for row in kept["rows"]:
        shown.add_row(*row["cells"], style=row["style"] or None)
    return shown
