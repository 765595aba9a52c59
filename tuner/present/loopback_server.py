"""A web server that only this machine can reach."""

import socketserver
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tuner.errors import UsageError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HOST = "127.0.0.1"
USUAL_PORT = 8080


class _Handler(WSGIRequestHandler):
    """Answers requests without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """A thread per connection: browsers open connections on which they send nothing."""

    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service for this host, which can be slow.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        # A browser that has closed its page takes no answer.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(application: "WSGIApplication", port: int | None) -> Iterator[str]:
    """Serve an application on this machine's loopback inside a `with` block.

    Yields its address, without a slash at the end. Without a `port` it is 8080, or a free port
    where 8080 is taken. UsageError if the port cannot be used.
    """
    try:
        server = _Server((HOST, USUAL_PORT if port is None else port), _Handler)
    except OSError as error:
        if port is not None:
            raise UsageError(f"cannot listen on port {port}: {error.strerror}") from None
        server = _Server((HOST, 0), _Handler)
    server.set_app(_for_this_machine(application))
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _for_this_machine(application: "WSGIApplication") -> "WSGIApplication":
    """The application, for requests that name the loopback as their host, from its own pages.

    So a page of another site cannot reach it by a name of its own that leads here (DNS rebinding),
    and cannot send it forms, nor can a page of another server of this machine.
    """

    def answer(request: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        host = request.get("HTTP_HOST", HOST)
        is_own = request.get("HTTP_ORIGIN") in (None, f"http://{host}")
        if is_own and host.partition(":")[0] in (HOST, "localhost"):
            return application(request, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"Only for this machine."]

    return answer
