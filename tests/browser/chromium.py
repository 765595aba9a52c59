"""A headless Chromium, Debian's by preference."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, because tests run as root in containers; no requests of the browser's own.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """The browser's path; a RuntimeError without one, for pages have to be looked at."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError("needs Chromium: apt-get install chromium, or set CHROMIUM")
    return found


def launched(playwright: Playwright) -> Browser:
    """A new browser, which the caller closes."""
    return playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
