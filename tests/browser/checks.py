"""Checks of any page: what a person, a keyboard or a phone would find wrong with it.

All of them look at a page as it is; `page.emulate_media(color_scheme="dark")` shows its dark side.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

PHONE_WIDTH = 390
_SCRIPT = Path(__file__).with_name("checks.js").read_text()


def low_contrast_texts(page: Page) -> list[str]:
    """The visible texts, of HTML and of inline SVG, whose contrast (of WCAG) is below 4.5.

    What lies behind a text is what is painted at the middle of each of its lines.
    """
    return list(_ask(page, "lowContrastTexts"))


def assert_no_horizontal_scroll(page: Page, width: int = PHONE_WIDTH) -> None:
    """Fails where the page is wider than a screen of this width; what scrolls in itself is not."""
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 844})
    too_wide = _ask(page, "tooWide")
    if before is not None:
        page.set_viewport_size(before)
    assert too_wide == [], "\n".join(too_wide)


def unreachable_links(page: Page) -> list[str]:
    """The visible links, buttons and summaries that the Tab key does not come to."""
    presses = 2 * int(_ask(page, "beginAtTheTop")) + 20
    rests = 0
    for _ in range(presses):
        page.keyboard.press("Tab")
        # Past the last one the focus is on nothing in the page, and then on the first one again.
        rests = 0 if _ask(page, "noteFocus") else rests + 1
        if rests > 2:
            break
    return list(_ask(page, "notReached"))


def empty_figures(page: Page) -> list[str]:
    """The figures and pictures that cannot be seen, have no size, or show nothing.

    What is folded away in a `details` is not judged.
    """
    return list(_ask(page, "emptyFigures"))


def _ask(page: Page, check: str) -> Any:
    return page.evaluate(f"{_SCRIPT}.{check}()")
