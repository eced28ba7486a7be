"""Web servers that break rules, for the tests of remote stores.

A server serves the files of a store honestly, except for one file. The function of a kind sends the reply for that file.
"""

import contextlib
import functools
import gzip
import socketserver
import threading
from dataclasses import dataclass

MANIFEST, SHARD = "manifest.json", "shard-00000.graphs.h5"
ENDLESS = 400 << 20
"""Number of bytes after which an endless reply ends, so that a client without limits does not fill the memory."""

_BLOCK = bytes(1 << 16)


class Exchange:
    """One request and its connection.

    Attributes:
        path: Path of the request after the name of the store.
        body: Honest content of the file, or ``None`` if there is no such file.
        number: Number of earlier GET requests for the same path.
    """

    def __init__(self, server, connection, method, path, headers):
        self.server = server
        self.connection = connection
        self.method = method
        self.path = path
        self.headers = headers
        self.body = server.files.get(path)
        self.number = server.count(path)

    def send(self, data):
        self.connection.sendall(data)
        self.server.sent += len(data)

    def reply(self, body=b"", status="200 OK", **headers):
        """Send a reply. A header that is ``None`` is left out."""
        headers = {"Content_Length": len(body), "Connection": "close"} | headers
        lines = [f"{k.replace('_', '-')}: {v}" for k, v in headers.items() if v is not None]
        self.send("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1"))
        if self.method != "HEAD":
            self.send(body)

    def repeat(self, data):
        """Send the same bytes again and again."""
        data = data * (1 + len(_BLOCK) // len(data))
        for _ in range(ENDLESS // len(data)):
            self.send(data)

    def drip(self, data):
        """Send one byte at a time."""
        for byte in data:
            self.send(bytes([byte]))
            if self.server.stopped.wait(0.02):
                return

    def honest(self):
        if self.body is None:
            self.reply(b"no such file", "404 Not Found")
        else:
            self.reply(self.body)


class _Handler(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                block = self.request.recv(4096)
                if not block:
                    return
                head += block
                if not head[:1].isalpha():  # TLS
                    self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    return
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            self.server.answer(self.request, method, target, headers)


class Server(socketserver.ThreadingTCPServer):
    """Server of the files of one store on a free port of this computer.

    Args:
        files: Content of each file by name.
        kind: Function that answers the requests for ``target``.
        target: Name of the file, or a function that returns True for the requests.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 50

    def __init__(self, files, kind=Exchange.honest, target=SHARD):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.kind = kind
        self.target = target
        self.requests = []
        self.sent = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/store"

    def count(self, path):
        return sum(method == "GET" and name == path for method, name, _ in self.requests)

    def answer(self, connection, method, target, headers):
        path = target.split("?")[0].removeprefix("/store").lstrip("/")
        exchange = Exchange(self, connection, method, path, headers)
        self.requests.append((method, path, headers))
        chosen = self.target(exchange) if callable(self.target) else path == self.target
        (self.kind if chosen else Exchange.honest)(exchange)

    def handle_error(self, request, client_address):
        pass  # the client has closed the connection

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


# Kinds of replies -------------------------------------------------------------------------------


def endless_body(e):
    e.reply(b"", Content_Length=None)
    e.repeat(_BLOCK)


def endless_json(e):
    e.reply(b"[", Content_Length=None)
    e.repeat(b"[],")


def endless_announced_body(e):
    e.reply(b"", Content_Length=1 << 50)
    e.repeat(_BLOCK)


def endless_partial_reply(e):
    e.reply(b"", "206 Partial Content", Content_Length=None, Content_Range="bytes 0-9/10")
    e.repeat(_BLOCK)


def ten_byte_ranges(e):
    size = len(e.body)
    e.reply(e.body[:10], "206 Partial Content", Content_Range=f"bytes 0-9/{size}", Accept_Ranges="bytes")


def endless_chunks(e):
    e.reply(b"", Content_Length=None, Transfer_Encoding="chunked")
    e.repeat(b"10000\r\n" + _BLOCK + b"\r\n")


def tiny_chunks_with_long_extensions(e):
    e.reply(b"", Content_Length=None, Transfer_Encoding="chunked")
    e.repeat(b"1;" + b"x" * 20_000 + b"\r\na\r\n")


def one_endless_chunk(e):
    e.reply(b"7fffffffffffffff\r\n", Content_Length=None, Transfer_Encoding="chunked")
    e.repeat(_BLOCK)


def endless_trailer(e):
    head = f"{len(e.body):x}\r\n".encode()
    e.reply(head + e.body + b"\r\n0\r\n", Content_Length=None, Transfer_Encoding="chunked")
    e.repeat(b"X-More: " + b"x" * 1000 + b"\r\n")


def broken_chunk_size(e):
    e.reply(b"zz\r\n" + e.body, Content_Length=None, Transfer_Encoding="chunked")


def gzip_bomb(e):
    e.reply(_compressed_zeros(), Content_Encoding="gzip")


@functools.cache
def _compressed_zeros():
    return gzip.compress(bytes(200 << 20), 1)


def short_content_length(e):
    e.reply(e.body, Content_Length=len(e.body) - 10)


def long_content_length(e):
    e.reply(e.body, Content_Length=len(e.body) + 10)


def cut_body(e):
    e.reply(e.body[:-10], Content_Length=len(e.body))


def cut_chunks(e):
    head = f"{len(e.body):x}\r\n".encode()
    e.reply(head + e.body[:-10], Content_Length=None, Transfer_Encoding="chunked")


def other_bytes(e):
    middle = len(e.body) // 2
    e.reply(e.body[:middle] + bytes([e.body[middle] ^ 1]) + e.body[middle + 1 :])


def html_page(e):
    e.reply(b"<html>please log in</html>", Content_Type="text/html")


def redirect_loop(e):
    e.reply(b"", "302 Found", Location=f"/store/{e.path}")


def redirect_chain(e):
    e.reply(b"", "307 Temporary Redirect", Location=f"/store/{e.path}?{len(e.server.requests)}")


def redirect_to_file(e):
    e.reply(b"", "302 Found", Location="file:///etc/hostname")


def redirect_to_ftp(e):
    e.reply(b"", "301 Moved Permanently", Location="ftp://127.0.0.1:9/x")


def redirect_to_data(e):
    e.reply(b"", "302 Found", Location="data:text/plain,hello")


def redirect_to_other_host(e):
    e.reply(b"", "302 Found", Location=f"http://localhost:{e.server.server_address[1]}/store/other")


def redirect_to_other_port(e):
    e.reply(b"", "302 Found", Location=f"//127.0.0.1:{e.server.other_port}/store/{e.path}")


def redirect_without_location(e):
    e.reply(b"", "302 Found")


def redirect_to_nonsense(e):
    e.reply(b"", "302 Found", Location="http://[\x1b[31m/ \x00\r")


def redirect_with_endless_body(e):
    e.reply(b"", "302 Found", Location=f"/store/{e.path}", Content_Length=None)
    e.repeat(_BLOCK)


def dripping_body(e):
    e.reply(b"") if e.method == "HEAD" else e.reply(b"", Content_Length=len(e.body))
    e.drip(e.body)


def dripping_headers(e):
    e.send(b"HTTP/1.1 200 OK\r\n")
    e.drip(b"X-Header: x\r\n" * 10_000)


def dripping_chunk_size(e):
    e.reply(b"", Content_Length=None, Transfer_Encoding="chunked")
    e.drip(b"0" * 60_000)


def silence(e):
    e.server.stopped.wait(60)


def silence_after_headers(e):
    e.reply(b"", Content_Length=len(e.body))
    e.server.stopped.wait(60)


def other_protocol(e):
    e.send(b"SSH-2.0-OpenSSH_9.0\r\n")


def escape_sequences(e):
    e.send(b"HTTP/1.1 \x1b]0;evil\x07\x1b[2J\r\n\r\n")


def escape_sequences_in_reason(e):
    e.reply(b"", "418 \x1b]0;evil\x07\x1b[2J")


def endless_status_line(e):
    e.repeat(b"HTTP/1.1 ")


def endless_headers(e):
    e.send(b"HTTP/1.1 200 OK\r\n")
    e.repeat(b"X-Header: x\r\n")


def endless_continue(e):
    e.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")


def closed_connection(e):
    e.connection.close()


def server_error(e):
    e.reply(b"", "503 Service Unavailable")


def too_many_requests(e):
    e.reply(b"", "429 Too Many Requests", Retry_After="86400")


def too_many_requests_for_ever(e):
    e.reply(b"", "429 Too Many Requests", Retry_After="9" * 6000)


def too_many_requests_until_a_date(e):
    e.reply(b"", "429 Too Many Requests", Retry_After="Fri, 31 Dec 9999 23:59:59 GMT")


def missing(e):
    e.reply(b"", "404 Not Found")


def forbidden(e):
    e.reply(b"", "403 Forbidden")


def no_content(e):
    e.reply(b"", "204 No Content", Content_Length=None)


def not_modified(e):
    e.reply(b"", "304 Not Modified")


# Servers that can be read -----------------------------------------------------------------------


def without_content_length(e):
    e.reply(e.body, Content_Length=None)


def wrong_content_length_text(e):
    e.reply(e.body, Content_Length="many")


def in_chunks(e):
    half = len(e.body) // 2
    chunks = b"".join(f"{len(b):x}\r\n".encode() + b + b"\r\n" for b in (e.body[:half], e.body[half:]))
    e.reply(chunks + b"0\r\n\r\n", Content_Length=None, Transfer_Encoding="chunked")


def moved(e):
    e.honest() if e.path.startswith("moved/") else e.reply(b"", "301 x", Location=f"/store/moved/{e.path}")


def without_ranges_and_head(e):
    if e.method == "HEAD":
        e.reply(b"", "405 Method Not Allowed")
    else:
        e.reply(e.body, Accept_Ranges="none")


@dataclass(frozen=True)
class FailsFirst:
    """Reply of another kind to the first requests, then the file."""

    kind: object
    times: int

    def __call__(self, e):
        (self.kind if e.number < self.times else Exchange.honest)(e)
