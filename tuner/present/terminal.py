"""The console that everything is printed on, and the parts of a summary, printed now or kept.

No pandas and no Optuna here: a summary that was kept is printed without waiting for them.
"""

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tuner.text import printable

if TYPE_CHECKING:
    from rich.table import Table

    from tuner.study.folder import StudyFolder

Part = dict[str, Any]
"""One part as JSON: `line` with its `style`, `table`, or `code` with its `language`."""

_GAP = 2
"""Characters beside a column: what stands between two, or one at each edge of the table."""
_LONGEST_VALUE = 20
"""Characters of a value that is not broken for the sake of metrics."""


class Terminal(Console):
    """A console for text of any origin: names, messages and paths may hold control characters.

    What is not plain text is escaped before it is laid out, and what another renderable makes of it
    once more after it. Square brackets and `:words:` are no markup.

    Args:
        how: Arguments of rich's console, such as `stderr`, `file` and `width`.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, **how)

    def on_broken_pipe(self) -> None:
        """Pass it on: a search has something to keep before it ends."""
        raise BrokenPipeError

    def render_str(self, text: str, **how: Any) -> Text:
        """See `rich.console.Console`."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `rich.console.Console`."""
        for segment in super().render(_escaped(renderable), options):
            text = segment.text
            # Control segments are rich's own, such as that which moves the cursor.
            if segment.control is None and (shown := printable(text)) != text:
                yield Segment(shown, segment.style)
            else:
                yield segment


def _escaped(renderable: RenderableType) -> RenderableType:
    """The renderable; text that has to be escaped loses the styles of its parts."""
    if not isinstance(renderable, Text):
        return renderable
    shown = printable(renderable.plain)
    if shown == renderable.plain:
        return renderable
    copy = renderable.blank_copy(shown)
    copy.stylize(renderable.style)
    return copy


def line(text: str, style: str = "") -> Part:
    """A line of any length, which is never cut; empty for a gap."""
    return {"line": text, "style": style}


def code(text: str, language: str) -> Part:
    """Lines for pasting."""
    return {"code": text, "language": language}


def column(header: str, justify: str = "left", **how: Any) -> dict[str, Any]:
    """A column of a table; `how` are arguments of `rich.table.Table.add_column`."""
    usual = {"no_wrap": False, "min_width": None, "ratio": None, "overflow": "ellipsis"}
    return {"header": header, "justify": justify, **usual, **how}


def table(
    columns: Sequence[Mapping[str, Any]],
    rows: Iterable[tuple[Sequence[str], str]],
    *,
    title: str | None = None,
    collapse_padding: bool = False,
    spare: Sequence[int] = (),
) -> Part:
    """A table of columns from `column`, and of the cells and the style of each row.

    The columns at the `spare` places are left out where a screen is too narrow, the last first.
    """
    return {
        "table": {
            "title": title,
            "collapse_padding": collapse_padding,
            "columns": [*columns],
            "rows": [{"cells": [*cells], "style": style} for cells, style in rows],
            "spare": [*spare],
        }
    }


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print parts one below the other."""
    for part in parts:
        if "table" in part:
            console.print(_table(part["table"], console.width))
        elif "code" in part:
            # Late: it takes time to import.
            from rich.syntax import Syntax

            # Never cut at the edge of a narrow terminal: these lines are for pasting.
            syntax = Syntax("", part["language"], theme="ansi_light", background_color="default")
            indented = textwrap.indent(part["code"], "    ")
            console.print(syntax.highlight(indented), soft_wrap=True)
        else:
            console.print(Text(part["line"], style=part["style"]), soft_wrap=True)


def _table(kept: dict[str, Any], width: int) -> "Table":
    # Late: an error or a progress line needs no tables.
    from rich import box
    from rich.table import Table

    shown = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=kept["collapse_padding"],
        title=kept["title"],
        title_justify="left",
    )
    cells = [row["cells"] for row in kept["rows"]]
    widths = {
        place: _widest(column, [row[place] for row in cells])
        for place, column in enumerate(kept["columns"])
    }
    for place in reversed(kept.get("spare", ())):
        if _needed(widths) > width:
            del widths[place]
    has_room = bool(kept.get("spare")) and _needed(widths) <= width
    for place, needed in widths.items():
        how = dict(kept["columns"][place])
        if has_room and all(len(row[place]) <= needed for row in cells):
            # Else rich breaks it where another has words to wrap. What is longer would be cut.
            how |= {"min_width": needed, "no_wrap": True}
        shown.add_column(**how)
    for row in kept["rows"]:
        shown.add_row(*(row["cells"][place] for place in widths), style=row["style"] or None)
    return shown


def _needed(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * len(widths)


def _widest(how: Mapping[str, Any], cells: Sequence[str]) -> int:
    """The width at which a column has line breaks between words only, or in very long values."""
    words = [len(part) for cell in cells for part in cell.split("\n" if how["no_wrap"] else None)]
    if how["overflow"] == "fold":
        words = [min(each, _LONGEST_VALUE) for each in words]
    return max([*map(len, how["header"].split("\n")), *words])


def files_line(folder: "StudyFolder") -> Part:
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
    return line(f"{report}In {root}: {names}")
