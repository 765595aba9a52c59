"""Records what goes wrong on a page: console errors, failed requests, requests to other hosts."""

import ipaddress
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, Response, WebSocket


class PageWatch:
    """A page with a list of its troubles: errors, failed requests, requests to other hosts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.troubles: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._add("uncaught error", error.message))
        page.on("request", self._on_request)
        page.on("requestfailed", self._on_failed)
        page.on("response", self._on_response)
        page.on("websocket", self._on_websocket)

    def assert_no_trouble(self) -> None:
        """Fails with every trouble so far."""
        assert self.troubles == [], "\n".join(self.troubles)

    def _add(self, kind: str, what: str) -> None:
        self.troubles.append(f"{kind}: {what}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._add("console error", f"{message.text} ({message.location.get('url')})")

    def _on_request(self, request: Request) -> None:
        if not stays_home(request.url):
            self._add("request leaves this machine", request.url)

    def _on_failed(self, request: Request) -> None:
        self._add("failed request", f"{request.url} ({request.failure})")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._add("failed request", f"{response.url} ({response.status})")

    def _on_websocket(self, socket: WebSocket) -> None:
        if not stays_home(socket.url):
            self._add("request leaves this machine", socket.url)


def stays_home(url: str) -> bool:
    """Whether a URL leads to a file, to the page itself, or to this machine's loopback."""
    parts = urlsplit(url)
    if parts.scheme in ("file", "data", "blob", "about"):
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
