"""Checks of any page: contrast, width, keyboard, figures.

They check the page in its present colours; `page.emulate_media(color_scheme="dark")` changes these.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

PHONE_WIDTH = 390
_SCRIPT = Path(__file__).with_name("checks.js").read_text()


def low_contrast_texts(page: Page) -> list[str]:
    """The visible texts, of HTML and of inline SVG, whose contrast (of WCAG) is below 4.5.

    The background of a text is what is painted at the middle of each of its lines.
    """
    return list(_ask(page, "lowContrastTexts"))


def assert_no_horizontal_scroll(page: Page, width: int = PHONE_WIDTH) -> None:
    """Fails if the page is wider than a screen of this width; a box that scrolls may be wider."""
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 844})
    too_wide = _ask(page, "tooWide")
    if before is not None:
        page.set_viewport_size(before)
    assert too_wide == [], "\n".join(too_wide)


def unreachable_links(page: Page) -> list[str]:
    """The visible links, buttons and summaries that the Tab key does not reach."""
    presses = 2 * int(_ask(page, "beginAtTheTop")) + 20
    rests = 0
    for _ in range(presses):
        page.keyboard.press("Tab")
        # After the last one the focus leaves the page, and then returns to the first one.
        rests = 0 if _ask(page, "noteFocus") else rests + 1
        if rests > 2:
            break
    return list(_ask(page, "notReached"))


def empty_figures(page: Page) -> list[str]:
    """The figures and pictures that cannot be seen, have no size, or show nothing.

    The content of a closed `details` is not checked.
    """
    return list(_ask(page, "emptyFigures"))


def _ask(page: Page, check: str) -> Any:
    return page.evaluate(f"{_SCRIPT}.{check}()")
