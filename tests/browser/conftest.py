"""Pages of one headless Chromium, whose errors and requests are recorded."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import launched
from tests.browser.watching import PageWatch
from tests.cheap_studies import no_waiting_for_the_disk

__all__ = ["no_waiting_for_the_disk"]  # for the studies that the pages are of


# Not for the session: while Playwright runs, no other test can have an asyncio loop of its own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests here."""
    with sync_playwright() as playwright:
        chromium = launched(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def page_watch(browser: Browser) -> Iterator[PageWatch]:
    """A new page in a profile of its own, and what goes wrong on it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    yield PageWatch(context.new_page())
    context.close()


@pytest.fixture
def page(page_watch: PageWatch) -> Iterator[Page]:
    """A new page; the test fails if anything goes wrong on it."""
    yield page_watch.page
    page_watch.assert_no_trouble()
