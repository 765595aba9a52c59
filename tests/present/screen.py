"""A terminal, or a file in its place, whose text a test can read."""

from io import StringIO

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
