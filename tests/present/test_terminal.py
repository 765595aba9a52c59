"""Text of any origin is shown, and never acts."""

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tests.present.screen import Screen
from tuner.present.progress_display import LiveProgress
from tuner.text import printable

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\udc80 [red]:smile:[/nothing]"


@pytest.mark.parametrize("terminal", [False, True])
def test_text_is_escaped_wherever_it_stands(terminal: bool) -> None:
    screen = Screen(terminal=terminal, width=200)
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(Text(HOSTILE, style="bold"))
    for each in (HOSTILE, Text(HOSTILE, style="red"), table, Panel(Text.assemble("a", HOSTILE))):
        screen.console.print(each)
    # Rich drops BEL; everything else is there to be seen.
    seen = r"\x1b]0;owned\x1b[2J\x9b31m\u202e\udc80 [red]:smile:[/nothing]"
    assert screen.text.replace(r"\x07", "").count(seen) == 6
    assert printable(screen.text) == screen.text


def test_what_rich_sends_itself_still_acts() -> None:
    screen = Screen(terminal=True)
    with LiveProgress(screen.console) as progress:
        progress.on_event(HOSTILE)
    assert "\x1b[?25l" in screen.text
    assert "]0;owned" in screen.text
    assert "\x1b]0" not in screen.text
    assert "\x9b" not in screen.text
