"""The console that everything is printed on: text is shown there, and never acts."""

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tuner.text import printable


class Terminal(Console):
    """A console for text of any origin: names, messages and paths may hold control characters.

    What is not plain text is escaped before it is laid out, and what another renderable makes of it
    once more after it. Square brackets and `:words:` are no markup.

    Args:
        stderr: Whether to print to stderr instead of stdout.
        file: Where to print instead.
        width: The width in characters; None: that of the terminal.
        more: Further arguments of rich's console.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        file: TextIO | None = None,
        width: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(stderr=stderr, file=file, width=width, markup=False, emoji=False, **more)

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
