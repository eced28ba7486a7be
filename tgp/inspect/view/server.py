"""Serve the viewer over HTTP to browsers of this machine.

The server listens on 127.0.0.1 only. Every address contains a random token, and the ``Host`` header must name the server
itself, so neither other users of the machine nor web pages in the same browser can read the store. Requests cannot change
anything.
"""

from __future__ import annotations

import errno
import hmac
import io
import secrets
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from tgp.errors import InputError
from tgp.inspect.view.application import Response, StoreApplication
from tgp.store.locations import Location

__all__ = ["HOST", "ViewServer"]

HOST = "127.0.0.1"

REQUEST_BYTES = 32 << 10
"""Largest size of a request with all its headers."""

REQUEST_SECONDS = 10.0
"""Time in which a request must be complete."""

REPLY_SECONDS = 60.0
"""Time in which a client must read the answer."""

CONNECTIONS = 64
"""Largest number of connections at the same time."""

TICKET_SECONDS = 60.0
"""Time in which the browser must open the first page."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address contains the token
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class ViewServer:
    """Web server for one store.

    Args:
        location: directory or URL of the store.
        port: port to listen on; a free one if ``None``.

    Attributes:
        port: port of the server.
        url: address of the first page. It contains the token.

    Raises:
        InputError: if the port cannot be used.
        StoreError: if the store is missing or damaged.
    """

    def __init__(self, location: Location, port: int | None = None) -> None:
        self.application = StoreApplication(location)
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = _Server((HOST, port or 0), _Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise InputError(
                f"cannot listen on port {port}: {error.strerror}",
                field="port",
                hint="choose another port, or none: a free one is used then",
            ) from error
        self.port: int = self._server.server_address[1]
        self.url = f"http://{HOST}:{self.port}/{self.token}/"
        self._ticket: tuple[str, float] | None = None
        self._server.view = self

    def __enter__(self) -> ViewServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self) -> None:
        """Answer requests until :meth:`close` is called in another thread, or an exception such as an interrupt."""
        self._server.serve_forever()

    def close(self) -> None:
        """Stop the server and wait until no request reads the store."""
        self._server.server_close()
        # A thread that reads a file while the interpreter ends could crash it.
        self.application.close(timeout=5.0)

    def shutdown(self) -> None:
        """End :meth:`serve` from another thread."""
        self._server.shutdown()

    def one_time_url(self) -> str:
        """Return an address that leads to the first page once, and only within a minute.

        Every user of the machine can read the command line of a browser, so the address in it must not contain the token.
        """
        ticket = secrets.token_urlsafe(24)
        self._ticket = ticket, time.monotonic() + TICKET_SECONDS
        return f"http://{HOST}:{self.port}/open/{ticket}"

    def redeem(self, ticket: str) -> bool:
        """Return True if a ticket of :meth:`one_time_url` is valid, and make it invalid."""
        expected, self._ticket = self._ticket, None
        return expected is not None and time.monotonic() < expected[1] and _equal(ticket, expected[0])


def _equal(given: str, expected: str) -> bool:
    """Compare secrets in a time that does not depend on their content."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class _Server(ThreadingHTTPServer):
    """Server with a limited number of connections."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # on Windows, another program could listen on the same port
    view: ViewServer

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread of its own, or close the connection if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request (runs in a thread)."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that break or are too slow. The application handles all other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _BoundedSocket(io.RawIOBase):
    """Stream of the bytes of one request, with a limit of bytes and of time."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self._left = REQUEST_BYTES
        self._end = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self._end - time.monotonic()
        if remaining <= 0 or not self._left:
            raise TimeoutError("the request is too slow or too long")
        self._connection.settimeout(remaining)
        count = self._connection.recv_into(buffer, min(len(buffer), self._left))
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection, which has one request."""

    server: _Server
    server_version = "tgp"
    sys_version = ""

    def setup(self) -> None:
        """Read the request through a stream with limits."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_BoundedSocket(self.connection))

    def log_message(self, *_: Any) -> None:
        """Write no log. The terminal shows the address only."""

    def parse_request(self) -> bool:
        """Parse the request line and the headers, and refuse other methods and other names of the server."""
        if not super().parse_request():
            return False
        if self.command not in ("GET", "HEAD"):
            self._send_error(405, "This server answers GET and HEAD only.", {"Allow": "GET, HEAD"})
            return False
        port = self.server.view.port
        if self.headers.get_all("Host", []) not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
            self._send_error(421, "This server is for browsers of the same machine only.")
            return False
        return True

    def do_GET(self) -> None:
        """Answer a request."""
        view, (path, _, query) = self.server.view, self.path.partition("?")
        folder, _, page = path.removeprefix("/").partition("/")
        if folder == "open":
            if view.redeem(page):
                self._send(Response(303, "text/plain", b"", f"/{view.token}/"))
            else:
                self._send_error(403, "This link works once, for a minute.", hint=_COPY)
        elif not path.startswith("/") or not _equal(folder, view.token):
            self._send_error(403, "The address has no token, or a wrong one.", hint=_COPY)
        elif path == f"/{view.token}":
            self._send(Response(303, "text/plain", b"", f"/{view.token}/"))
        else:
            try:
                values = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=20))
            except ValueError:
                self._send_error(400, "The address has too many values.")
                return
            self._send(view.application.respond(page, values))

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that cannot be parsed (called by the base class)."""
        self._send_error(int(code), message or "The request cannot be read.")

    def _send_error(
        self, status: int, text: str, headers: dict[str, str] | None = None, *, hint: str | None = None
    ) -> None:
        # This answer may go to a stranger, so it must not contain anything about the store.
        body = f"{text}\n{hint or ''}\n".encode("utf-8", "replace")
        self._send(Response(status, "text/plain; charset=utf-8", body), headers or {})

    def _send(self, response: Response, headers: dict[str, str] | None = None) -> None:
        self.connection.settimeout(REPLY_SECONDS)
        self.close_connection = True
        self.send_response(response.status)
        own = {"Content-Type": response.content_type, "Content-Length": str(len(response.body))}
        own |= {} if response.location is None else {"Location": response.location}
        for name, value in (_HEADERS | own | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)


_COPY = "Open the address that 'tgp view' printed, with everything after the port."
