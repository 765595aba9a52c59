"""axe-core's checks of a page: what keeps people from using it."""

import sys
from pathlib import Path

from playwright.sync_api import Page

SCRIPT = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
_VIOLATIONS = """async () => {
  // Colours that are still fading are not those that people read.
  document.getAnimations().forEach((each) => each.finish());
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map((n) => n.html)}`);
}"""


def serious_findings(page: Page) -> list[str]:
    """What axe-core calls serious or critical; a RuntimeError where it is not installed."""
    if not SCRIPT.exists():
        raise RuntimeError("needs axe-core: `make axe` installs it")
    # Evaluated, not added as an element: a page may forbid scripts that are not its own.
    page.evaluate(SCRIPT.read_text())
    return list(page.evaluate(_VIOLATIONS))
