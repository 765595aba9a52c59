"""Pages of one headless Chromium, whose errors and requests are recorded."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import launched
from tests.browser.watching import PageWatch
from tests.cheap_studies import no_waiting_for_the_disk

__all__ = ["no_waiting_for_the_disk"]  # for the studies that the pages are of


# A page that is slow, on a machine that does something else, is not wrong.
PATIENCE_MS = 60_000


# Not for the session: while Playwright runs, no other test can have an asyncio loop of its own.
@pytest.fixture(scope="package")
def profile() -> Iterator[BrowserContext]:
    """One Chromium and one profile for all tests here: what pages share is loaded once."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = launched(playwright)
        context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        context.set_default_timeout(PATIENCE_MS)
        yield context
        chromium.close()


@pytest.fixture
def page_watch(profile: BrowserContext) -> Iterator[PageWatch]:
    """A new page, and what goes wrong on it."""
    page = profile.new_page()
    yield PageWatch(page)
    page.close()


@pytest.fixture
def page(page_watch: PageWatch) -> Iterator[Page]:
    """A new page; the test fails if anything goes wrong on it."""
    yield page_watch.page
    page_watch.assert_no_trouble()
