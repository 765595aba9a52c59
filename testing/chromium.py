"""A headless Chromium, Debian's by preference."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The browser's path; a RuntimeError without one, for pages have to be looked at."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError("needs Chromium: apt-get install chromium, or set CHROMIUM")
    return found


def launched(playwright: Playwright) -> Browser:
    """A new browser, which the caller closes."""
    # Playwright adds that there is no sandbox, for tests run as root, and no request of its own.
    return playwright.chromium.launch(executable_path=chromium(), args=["--disable-gpu"])
