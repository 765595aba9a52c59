"""The console that everything is printed on, and the parts of a summary, printed now or kept.

No pandas and no Optuna here: a summary that was kept is printed without waiting for them.
"""

import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tuner.present.text_table import Column, text_table
from tuner.text import command, printable

if TYPE_CHECKING:
    from tuner.study.folder import StudyFolder

Part = dict[str, Any]
"""One part as JSON: `line`, `paragraph`, `table`, or `code` with its `language`."""


class Terminal(Console):
    """A console, made as rich's, for text of any origin: it may hold control characters.

    What is not plain text is escaped before it is laid out, and what another renderable makes of it
    once more after it. Square brackets and `:words:` are no markup.
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
            # Control segments are rich's own, such as that which moves the cursor.
            is_own = segment.control is not None
            yield segment if is_own else segment._replace(text=printable(segment.text))


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


def paragraph(text: str, style: str = "") -> Part:
    """Sentences, folded where the screen ends."""
    return {"paragraph": text, "style": style}


def table(columns: Sequence[Column], styles: Sequence[str] = (), more: str = "") -> Part:
    """A table: a style per row, or none, and what is said below it of further rows."""
    return {"table": [[*each] for each in columns], "styles": [*styles], "more": more}


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print parts one below the other."""
    for part in parts:
        if "table" in part:
            _print_table(part, console)
        elif "code" in part:
            # Late: it takes time to import.
            from rich.syntax import Syntax

            # Never cut at the edge of a narrow terminal: these are for pasting. A gap follows.
            syntax = Syntax("", part["language"], theme="ansi_light", background_color="default")
            indented = textwrap.indent(part["code"], "    ")
            console.print(syntax.highlight(indented), soft_wrap=True)
        else:
            text = _text_of(part, console.width)
            console.print(Text(text, style=part["style"]), soft_wrap=True)


def _text_of(part: Part, width: int) -> str:
    """The text of a line, or of a paragraph in lines of which none begins with ` %`."""
    if "line" in part:
        return str(part["line"])
    kept = part["paragraph"].replace(" %", "\u00a0%")
    lines = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\u00a0%", " %")


def height_of(part: Part, width: int) -> int:
    """How many lines of a screen a part takes that is no table."""
    if "code" in part:
        return int(part["code"].count("\n")) + 2  # a gap follows
    lines = _text_of(part, width).split("\n")
    return sum(max(1, math.ceil(cell_len(line) / width)) for line in lines)


def _print_table(part: Part, console: Console) -> None:
    lines = text_table([Column(*each) for each in part["table"]], console.width)
    styles = [""] * (len(lines) - len(part["styles"])) + part["styles"]
    for text, style in zip(lines, styles, strict=True):
        console.print(Text(text, style=style), soft_wrap=True)
    if part["more"]:
        console.print(Text(part["more"]))


class Summary(NamedTuple):
    """An answer as it is printed, on one screen and whole."""

    brief: list[Part]
    whole: list[Part]

    def print(
        self, console: Console, folder: "StudyFolder", storage: str | None = None,
        *, whole: bool = False,
    ) -> None:  # fmt: skip
        """Print one of the forms, and where the study's files are."""
        parts = self.whole if whole else self.brief
        last = files_line(folder) if whole else page_line(folder, storage)
        print_parts([*parts, last], console)


def files_line(folder: "StudyFolder") -> Part:
    """Where the report is, and the names of the other files of the study."""
    root = _near(folder)
    others = (
        folder.recommended, folder.trials_csv, folder.figures, folder.traces, folder.failures,
        folder.database,
    )  # fmt: skip
    names = ", ".join(path.name for path in others if path.exists()) or "nothing"
    report = f"Report: {root / folder.report.name}\n" if folder.report.exists() else ""
    return line(f"{report}In {root}: {names}")


def page_line(folder: "StudyFolder", storage: str | None = None) -> Part:
    """Where the page is, and the command that shows all of the answer."""
    root = _near(folder)
    flags = [] if storage is None else ["--storage", storage]
    study = root.name if root.parent == Path("studies") else str(root)
    page = f"Page: {root / folder.report.name}. " if folder.report.exists() else ""
    return line(f"{page}More: {command('show', study, *flags, '--all')}")


def _near(folder: "StudyFolder") -> Path:
    """The folder as it is named from here."""
    near = os.path.relpath(folder.root)
    return folder.root.resolve() if near.startswith("..") else Path(near)
