"""A terminal, or a file in its place, whose text a test can read."""

from collections.abc import Callable
from io import StringIO
from typing import Any

from tuner.present.terminal import Terminal


class Screen:
    """`console` prints; `text` is what arrived."""

    def __init__(self, *, terminal: bool = False, width: int = 120) -> None:
        self._file = StringIO()
        self.console = Terminal(
            file=self._file,
            force_terminal=terminal,
            width=width,
            color_system=None,
            # TERM=dumb in the environment of the tests would change what is printed.
            _environ={"TERM": "xterm"},
        )

    @property
    def text(self) -> str:
        return self._file.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def printed(show: Callable[..., None], what: Any, *more: Any, width: int = 80, **how: Any) -> str:
    """What `show(what, console, ...)` prints to a file of this width."""
    screen = Screen(width=width)
    show(what, screen.console, *more, **how)
    return screen.text
