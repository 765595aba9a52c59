"""Checks of any page: contrast, width, keyboard, figures, and those of axe-core.

They check the page in its present colours; `page.emulate_media(color_scheme="dark")` changes these.
"""

import sys
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, ViewportSize

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PHONE = ViewportSize(width=390, height=844)
_SCRIPT = Path(__file__).with_name("checks.js").read_text()
_AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
_VIOLATIONS = """async () => {
  // Colours that are still fading are not those that people read.
  document.getAnimations().forEach((each) => each.finish());
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map((n) => n.html)}`);
}"""


def assert_readable(page: Page) -> None:
    """Texts have contrast in both schemes, axe-core finds nothing, and a phone is wide enough."""
    if not _AXE.exists():
        raise RuntimeError("needs axe-core: `make axe` installs it")
    # Evaluated, not added as an element: a page may forbid scripts that are not its own.
    page.evaluate(_AXE.read_text())
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert _ask(page, "lowContrastTexts") == []
        # What axe-core calls serious or critical.
        assert page.evaluate(_VIOLATIONS) == []
    before = page.viewport_size
    page.set_viewport_size(PHONE)
    assert _ask(page, "tooWide") == []
    if before is not None:
        page.set_viewport_size(before)


def empty_figures(page: Page) -> list[str]:
    """The figures that show nothing; the content of a closed `details` is not checked."""
    return list(_ask(page, "emptyFigures"))


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


def _ask(page: Page, check: str) -> Any:
    return page.evaluate(f"{_SCRIPT}.{check}()")
