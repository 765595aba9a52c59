"""Pages of one headless Chromium, on which nothing may go wrong."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Request, WebSocket, expect, sync_playwright

from testing.cheap_studies import no_waiting_for_the_disk
from testing.chromium import launched

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
def page(profile: BrowserContext) -> Iterator[Page]:
    """A new page; errors, failed requests, and requests to other hosts fail the test."""
    page = profile.new_page()
    troubles: list[str] = []

    def note(trouble: str, *, is_one: bool = True) -> None:
        troubles.extend([trouble] * is_one)

    def requested(what: Request | WebSocket) -> None:
        note(f"request leaves this machine: {what.url}", is_one=not stays_home(what.url))

    page.on("console", lambda said: note(f"console: {said}", is_one=said.type == "error"))
    page.on("pageerror", lambda error: note(f"uncaught error: {error.message}"))
    page.on("request", requested)
    page.on("websocket", requested)
    page.on("requestfailed", lambda each: note(f"failed request: {each.url} ({each.failure})"))
    page.on("response", lambda each: note(f"{each.status}: {each.url}", is_one=each.status >= 400))
    yield page
    found = list(troubles)
    page.close()
    assert found == []


def stays_home(url: str) -> bool:
    """Whether a URL leads to a file, to the page itself, or to this machine's loopback."""
    parts = urlsplit(url)
    if parts.scheme in ("file", "data", "blob", "about"):
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
