"""Pages of one headless Chromium, on which nothing may go wrong."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    WebSocket,
    expect,
    sync_playwright,
)

from tests.browser.chromium import launched
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
def page(profile: BrowserContext) -> Iterator[Page]:
    """A new page; errors, failed requests, and requests to other hosts fail the test."""
    page = profile.new_page()
    troubles: list[str] = []

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(f"console error: {message.text} ({message.location.get('url')})")

    def requested(what: Request | WebSocket) -> None:
        if not stays_home(what.url):
            troubles.append(f"request leaves this machine: {what.url}")

    def failed(request: Request) -> None:
        troubles.append(f"failed request: {request.url} ({request.failure})")

    def answered(response: Response) -> None:
        if response.status >= 400:
            troubles.append(f"failed request: {response.url} ({response.status})")

    page.on("console", logged)
    page.on("pageerror", lambda error: troubles.append(f"uncaught error: {error.message}"))
    page.on("request", requested)
    page.on("websocket", requested)
    page.on("requestfailed", failed)
    page.on("response", answered)
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
