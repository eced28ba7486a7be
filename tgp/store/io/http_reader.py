"""Download files over HTTP with limits on time, memory and number of bytes.

It uses ``urllib``, which applies the proxies and certificates of the environment. A file is read with one plain ``GET``
request. The reply is never read as a whole: each read from the socket waits at most until the deadline of the transfer,
also within the status line, the headers, and the chunked encoding.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import io
import itertools
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from tgp.errors import InputError, StoreError, StoreMissingError
from tgp.store.io.transfer import ADVICE, InterruptedTransferError, Meter, TransferLimits, too_large
from tgp.text import inert_text

__all__ = ["HttpReader"]

MAX_REDIRECTS = 5
MAX_ADDRESSES = 8
"""Number of addresses of a host that are tried."""

_BLOCK = 1 << 20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = "/%:@!$&'()*+,;=~-._"
_PORTS = {"http": 80, "https": 443}


class HttpReader:
    """Reader of the files below one URL.

    Args:
        url: URL of a directory with ``http`` or ``https``. It may contain a user name, a password and a query. The query is
            appended to the URL of each file.
        limits: Limits of the transfers.
        headers: More headers of each request.
        auth: User name and password. The default are those of the URL.
        redirect_hosts: Names of other hosts to which the server may redirect. The default are those in
            ``$TGP_REDIRECT_HOSTS``, separated by commas. Redirects from ``https`` to ``https`` at a domain name are
            always allowed. ``headers`` and ``auth`` are sent to the host of the URL only.

    Raises:
        StoreError: If the URL is not valid.
    """

    def __init__(
        self,
        url: str,
        limits: TransferLimits,
        *,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        redirect_hosts: Iterable[str] | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018  # raises ValueError if it is not a number
        except ValueError as error:
            raise StoreError(f"wrong URL: {error}", hint=ADVICE) from None
        if not parts.hostname:
            raise StoreError("wrong URL: expected the name of a host after '://', got none", hint=ADVICE)
        if auth is None and parts.username is not None:
            auth = unquote(parts.username), unquote(parts.password or "")
        self.limits = limits
        self._base = _without_user(parts)
        self.location = self._base._replace(query="").geturl().rstrip("/")
        self._headers = {str(k): str(v) for k, v in (headers or {}).items()}
        if auth is not None:
            token = base64.b64encode(":".join(_check_auth(auth)).encode()).decode()
            self._headers.setdefault("Authorization", f"Basic {token}")
        if redirect_hosts is None:
            redirect_hosts = os.environ.get("TGP_REDIRECT_HOSTS", "").split(",")
        self._hosts = frozenset(host.strip().lower() for host in redirect_hosts if host.strip())

    def copy(self, name: str, limit: int, write: Callable[[memoryview], Any], *, fresh: bool = False) -> int:
        """Copy a file in blocks.

        Args:
            name: Name of the file below the URL.
            limit: Largest number of bytes.
            write: Function that stores a block. The block keeps its bytes until the call after the next one.
            fresh: Ask caches between the server and this computer for the current content.

        Returns:
            Number of bytes.

        Raises:
            StoreMissingError: If there is no such file.
            StoreDamagedError: If it has more than ``limit`` bytes.
            InterruptedTransferError: If another attempt may succeed.
            StoreError: If the server cannot be used.
        """
        where = f"{self.location}/{name}"
        meter = Meter(self.limits, where, limit)
        with _convert_errors(where):
            response = self._open(name, meter, fresh)
        with contextlib.closing(response):
            announced = _check_reply(response, where)
            if announced is not None and announced > limit:
                raise too_large(where, limit, announced)
            count = 0
            blocks = itertools.cycle([memoryview(bytearray(min(_BLOCK, limit + 1))) for _ in range(2)])
            for block in blocks:
                with _convert_errors(where):
                    found = response.readinto(block[: limit + 1 - count])
                if not found:
                    break
                count += found
                if count > limit:
                    raise too_large(where, limit)
                write(block[:found])
        if announced is not None and count < announced:
            raise InterruptedTransferError(
                f"{where} is incomplete: expected {announced} bytes, got {count} before the connection was closed",
                path=where,
            )
        return count

    def _open(self, name: str, meter: Meter, fresh: bool) -> http.client.HTTPResponse:
        """Send the request, follow redirects, and return the reply."""
        path = f"{self._base.path.rstrip('/')}/{quote(name)}"
        target = self._base._replace(path=path)
        for _ in range(MAX_REDIRECTS + 1):
            response = self._request(target, meter, fresh)
            if response.status not in _REDIRECTS:
                return response
            response.close()
            target = self._redirected(target, response.headers.get("Location"), meter.where)
        raise StoreError(
            f"{meter.where} cannot be read: expected at most {MAX_REDIRECTS} redirects, got more",
            path=meter.where,
            hint=ADVICE,
        )

    def _request(self, target: SplitResult, meter: Meter, fresh: bool) -> http.client.HTTPResponse:
        headers = {"Accept-Encoding": "identity", "User-Agent": "tgp"}
        if fresh:
            headers |= {"Cache-Control": "no-cache", "Pragma": "no-cache"}
        if _origin(target) == _origin(self._base) or self._is_upgrade(self._base, target):
            headers |= self._headers
        # No handler of errors and redirects: those of urllib read the whole body of such a reply.
        opener = urllib.request.OpenerDirector()
        for handler in (urllib.request.ProxyHandler(), _Handler(meter)):
            opener.add_handler(handler)
        request = urllib.request.Request(target.geturl(), headers=headers)
        response: http.client.HTTPResponse = opener.open(request, timeout=meter.wait())
        return response

    def _redirected(self, target: SplitResult, location: str | None, where: str) -> SplitResult:
        """Return the URL of a redirect after checking that it is allowed."""
        found = urlsplit(urljoin(target.geturl(), quote(location or "", safe=_SAFE + "?#[]")))
        allowed = (
            _origin(found) == _origin(target)
            or self._is_upgrade(target, found)
            or (target.scheme == "https" and _is_named_https(found))
        )
        if (found.hostname or "").lower() in self._hosts and found.scheme in ("http", "https"):
            allowed = allowed or found.scheme == target.scheme or found.scheme == "https"
        if location is None or not allowed:
            shown = "no location" if location is None else f"{found.scheme}://{found.hostname or ''}"
            raise StoreError(
                f"{where} cannot be read: expected a redirect to the same host or https, got {inert_text(shown[:200])}",
                path=where,
                hint="use the final address of the store, or list the host in TGP_REDIRECT_HOSTS if you trust it",
            )
        return _without_user(found)

    @staticmethod
    def _is_upgrade(before: SplitResult, after: SplitResult) -> bool:
        """Return True if a redirect leads from ``http`` to ``https`` at the same host and the usual ports."""
        same = (before.hostname or "").lower() == (after.hostname or "").lower()
        return same and _origin(before)[::2] == ("http", 80) and _origin(after)[::2] == ("https", 443)


def _is_named_https(url: SplitResult) -> bool:
    """Return True if a URL uses ``https`` at the usual port of a host with a domain name, not an address."""
    host = (url.hostname or "").lower()
    last = host.rpartition(".")[2]
    is_name = "." in host and ":" not in host and not last.isdigit()
    return is_name and last not in ("local", "internal", "localhost") and _origin(url)[::2] == ("https", 443)


def _origin(url: SplitResult) -> tuple[str, str, int]:
    port = url.port or _PORTS.get(url.scheme, 0)
    return url.scheme, (url.hostname or "").lower(), port


def _without_user(url: SplitResult) -> SplitResult:
    """Return a URL without user name, password and fragment, with other characters than those of URLs encoded."""
    host = url.netloc.rpartition("@")[2]
    return url._replace(
        netloc=host, path=quote(url.path, safe=_SAFE), query=quote(url.query, safe=_SAFE + "?"), fragment=""
    )


def _check_auth(auth: Any) -> tuple[str, str]:
    """Return user name and password of a pair. ``aiohttp.BasicAuth`` is a pair with an encoding."""
    if isinstance(auth, (tuple, list)) and len(auth) >= 2 and all(isinstance(a, str) for a in auth[:2]):
        return auth[0], auth[1]
    raise InputError(
        f"wrong auth: expected a user name and a password, got {type(auth).__name__}", field="auth"
    )


def _check_reply(response: http.client.HTTPResponse, where: str) -> int | None:
    """Check status and encoding of a reply, and return the announced number of bytes, if there is one."""
    status = response.status
    if status in (404, 410):
        raise StoreMissingError(f"{where} does not exist", path=where)
    if status == 429 or status >= 500:
        wait = _retry_after(response.headers.get("Retry-After"))
        raise InterruptedTransferError(
            f"{where} cannot be read: expected HTTP status 200, got {status}",
            path=where,
            hint=f"the server asks to wait for {wait:.0f} s" if wait else ADVICE,
            wait=wait,
        )
    if status != 200:
        raise StoreError(
            f"{where} cannot be read: expected HTTP status 200, got {status}", path=where, hint=ADVICE
        )
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise StoreError(
            f"{where} cannot be read: expected no content encoding, got {inert_text(encoding[:200])}",
            path=where,
            hint="switch the compression of this file off at the server",
        )
    return response.length


def _retry_after(value: str | None) -> float:
    """Return the seconds of a ``Retry-After`` header. An invalid one counts as absent."""
    if value is None:
        return 0.0
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:12]) if len(value) <= 12 else float("inf")
    try:
        return max(0.0, parsedate_to_datetime(value[:100]).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0


@contextlib.contextmanager
def _convert_errors(where: str) -> Iterator[None]:
    """Convert the errors of a connection into those of a store."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause: Any = error
        while isinstance(cause, urllib.error.URLError) and isinstance(cause.reason, Exception):
            cause = cause.reason
        if isinstance(cause, StoreError):
            raise cause from None
        text = f"{where} cannot be read: {inert_text(str(cause)[:200]) or type(cause).__name__}"
        kind = InterruptedTransferError if _may_succeed_later(cause) else StoreError
        raise kind(text, path=where, hint=ADVICE) from error


def _may_succeed_later(error: Exception) -> bool:
    """Return True for broken connections, False for wrong names, wrong certificates and replies that are not HTTP."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if isinstance(error, ssl.SSLError):
        return isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    return isinstance(error, (OSError, http.client.IncompleteRead))


# Connections ------------------------------------------------------------------------------------


class _MeteredSocketFile(io.RawIOBase):
    """File object of a socket that measures a transfer and waits no longer than its limits allow."""

    def __init__(self, connection: socket.socket, meter: Meter) -> None:
        self._raw: Any = connection.makefile("rb", buffering=0)
        self._connection = connection
        self._meter = meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._meter.wait())
        try:
            count = int(self._raw.readinto(buffer))
        except TimeoutError:
            self._meter.wait()  # raises the error of a slow transfer if its deadline has passed
            raise TimeoutError(f"no answer for {self._meter.limits.timeout:g} s") from None
        self._meter.add(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _MeteredSocket:
    """Socket for ``HTTPResponse``, which only calls ``makefile``."""

    def __init__(self, connection: socket.socket, meter: Meter) -> None:
        self._connection = connection
        self._meter = meter

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_MeteredSocketFile(self._connection, self._meter), 1 << 16)


def _connect(meter: Meter, address: tuple[str, int], *_: Any) -> socket.socket:
    """Connect to the first address of a host that answers. All attempts together stay within the deadline."""
    found: OSError = ConnectionError("the host has no address")
    for family, kind, protocol, _name, place in socket.getaddrinfo(*address, 0, socket.SOCK_STREAM)[
        :MAX_ADDRESSES
    ]:
        connection = None
        try:
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(meter.wait())
            connection.connect(place)
            return connection
        except StoreError:
            if connection is not None:
                connection.close()
            raise
        except OSError as error:
            found = error
            if connection is not None:
                connection.close()
    raise found


class _MeteredConnection(http.client.HTTPConnection):
    """HTTP connection with a meter."""

    def __init__(self, *arguments: Any, meter: Meter, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _measure(self, meter)


class _MeteredTlsConnection(http.client.HTTPSConnection):
    """HTTPS connection with a meter."""

    def __init__(self, *arguments: Any, meter: Meter, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _measure(self, meter)


def _measure(connection: Any, meter: Meter) -> None:
    """Let a connection open its socket and read its replies within the limits of a transfer."""

    def respond(sock: socket.socket, *arguments: Any, **options: Any) -> http.client.HTTPResponse:
        metered: Any = _MeteredSocket(sock, meter)
        return http.client.HTTPResponse(metered, *arguments, **options)

    connection.response_class = respond
    connection._create_connection = functools.partial(_connect, meter)


class _Handler(urllib.request.AbstractHTTPHandler):
    """Handler of both protocols. The one for TLS of urllib would load all certificates for every request."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connection: Any = functools.partial(_MeteredConnection, meter=self._meter)
        return self.do_open(connection, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connection: Any = functools.partial(_MeteredTlsConnection, meter=self._meter, context=_tls_context())
        return self.do_open(connection, req)

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Return the settings of TLS with the certificates of the system or of ``$SSL_CERT_FILE``."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
