"""The server: token, name of the host, methods, limits and headers."""

import contextlib
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.inspect.view.conftest import ask, serving
from tgp.errors import InputError, StoreError
from tgp.inspect.view import ViewServer
from tgp.inspect.view import server as server_module

PAGES = [
    "",
    "graphs",
    "graphs.json",
    "graph?id=3",
    "graph.json?id=3",
    "report.css",
    "report.js",
    "view.css",
    "view.js",
    "icon.svg",
]


def raw(server, request):
    """Send bytes and return everything that the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
    return found


def test_the_address_is_local_and_has_a_token(server):
    assert server.url == f"http://127.0.0.1:{server.port}/{server.token}/"
    assert len(server.token) >= 32
    assert server._server.socket.getsockname()[0] == "127.0.0.1"


def test_servers_have_different_tokens(store, server):
    with serving(store) as other:
        assert other.token != server.token and other.port != server.port
        assert ask(other, "", token=server.token)[0] == 403


@pytest.mark.parametrize("page", PAGES)
def test_every_page_needs_the_token(server, page):
    status, _, body = ask(server, page)
    assert status == 200 and body
    for wrong in (
        "",
        "x",
        server.token[:-1],
        server.token + "x",
        server.token.swapcase(),
        "%C3%A9",
    ):
        status, headers, body = ask(server, page, token=wrong)
        assert status == 403 and b"graclus" not in body and server.token.encode() not in body
        assert "Set-Cookie" not in headers and "Location" not in headers


def test_headers_of_every_answer(server):
    for answer in (
        ask(server, ""),
        ask(server, "graph?id=99999"),
        ask(server, "", token="x"),
        ask(server, "", "POST"),
    ):
        headers = answer[1]
        policy = dict(
            part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";")
        )
        assert (
            policy.pop("default-src") == policy.pop("base-uri") == policy.pop("frame-ancestors") == "'none'"
        )
        assert {*policy.values()} == {"'self'"}, "nothing inline, no other host"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "hosts", [[], ["evil.test"], ["evil.test:{port}"], ["127.0.0.1"], ["127.0.0.1:1"], ["127.0.0.1:{port}", "evil.test"], ["127.0.0.1.evil.test:{port}"], ["[::1]:{port}"], [""]]
)  # fmt: skip
def test_requests_for_another_host_are_refused(server, hosts):
    """A web page whose name resolves to 127.0.0.1 could read the answers (DNS rebinding)."""
    headers = [("Host", host.format(port=server.port)) for host in hosts]
    status, _, body = ask(server, "graphs.json", headers=headers)
    assert status == 421 and b"graclus" not in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_names_of_this_machine_are_accepted(server, host):
    assert ask(server, "graphs.json", headers=[("Host", f"{host}:{server.port}")])[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_only_get_and_head(server, method):
    status, headers, _ = ask(server, "graphs.json", method)
    assert status == 405 and headers["Allow"] == "GET, HEAD"


def test_head_has_no_body(server):
    status, headers, body = ask(server, "graphs.json", "HEAD")
    assert status == 200 and body == b""
    assert int(headers["Content-Length"]) == len(ask(server, "graphs.json")[2])


@pytest.mark.parametrize(
    "target",
    ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "static/view.js", "templates/graph.html.jinja", "manifest.json", "shard-00000.graphs.h5", "/etc/passwd", "report.css/..", "%72eport.css", "graph/../report.css", "..", "server.py", "\\..\\", "report.css%00"],
)  # fmt: skip
def test_no_address_is_a_path(server, target):
    status, _, body = ask(server, target)
    assert status == 404 and b"root:" not in body


@pytest.mark.parametrize(
    "request_line",
    ["GET http://127.0.0.1:{port}/{token}/ HTTP/1.1", "GET {token}/ HTTP/1.1", "GET *{token} HTTP/1.1", "GET /{token}/", "GET", "\x16\x03\x01 \x00", "GET /{token}/ HTTP/9.9", "GET / HTTP/1.1"],
)  # fmt: skip
def test_other_forms_of_requests_get_nothing(server, request_line):
    line = request_line.format(port=server.port, token=server.token)
    answer = raw(server, f"{line}\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode("latin1"))
    assert b"200 OK" not in answer or request_line == "GET /{token}/"
    assert b"Traceback" not in answer


def test_the_slash_at_the_end_may_be_missing(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"GET /{server.token} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 303 and answer.headers["Location"] == f"/{server.token}/"


def test_long_requests_are_refused(server):
    line = f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    long = b"X: " + b"a" * 1000 + b"\r\n"
    assert b"200 OK" in raw(server, line.encode() + long * 20 + b"\r\n")
    for more in (b"X: " + b"a" * (1 << 20), b"X: a\r\n" * 10_000, b"X: a\r\n" * 200, long * 90):
        with contextlib.suppress(ConnectionError):  # closed before everything was sent
            assert b"200 OK" not in raw(server, line.encode() + more + b"\r\n\r\n")
    assert ask(server, "")[0] == 200


def test_slow_requests_are_ended(server, monkeypatch):
    monkeypatch.setattr(server_module, "REQUEST_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(1000) == b"", "the server gives up first"
    # Bytes that arrive one after the other do not extend the time.
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        for _ in range(1000):
            try:
                connection.sendall(b"G")
            except ConnectionError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the server read a thousand slow bytes")


def test_the_number_of_connections_is_limited(store, monkeypatch):
    monkeypatch.setattr(server_module, "CONNECTIONS", 2)
    with serving(store) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            for _ in range(100):  # the two connections may not have a thread yet
                ask(server, "view.css")
                time.sleep(0.05)
        for connection in idle:
            connection.close()
        for _ in range(1000):
            try:
                assert ask(server, "view.css")[0] == 200
                break
            except (ConnectionError, http.client.BadStatusLine):
                time.sleep(0.02)
        else:
            pytest.fail("closed connections still count")


def test_a_one_time_address_works_once(store):
    with serving(store) as server:
        address = server.one_time_url()
        assert server.token not in address, "other users see the command line of the browser"
        ticket = address.rpartition("/")[2]
        assert ask(server, "x", token="open")[0] == 403
        assert ask(server, ticket, token="open")[0] == 403, "one wrong guess ends it"
        ticket = server.one_time_url().rpartition("/")[2]
        status, headers, _ = ask(server, ticket, token="open")
        assert status == 303 and headers["Location"] == f"/{server.token}/"
        assert ask(server, ticket, token="open")[0] == 403


def test_a_one_time_address_expires(store, monkeypatch):
    monkeypatch.setattr(server_module, "TICKET_SECONDS", -1.0)
    with serving(store) as server:
        ticket = server.one_time_url().rpartition("/")[2]
        assert ask(server, ticket, token="open")[0] == 403


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_concurrent_requests_get_the_same_answers(tmp_path, profile):
    from tests.inspect.conftest import build

    path = build(tmp_path / "s", "graclus*2", "kmis", shard_size=5_000, profile=profile)
    targets = [
        page
        for i in range(12)
        for page in (f"graph.json?id={i}", f"graph?id={i}", f"graphs.json?q=nodes>{i}&sort=-cut")
    ]
    with serving(path) as server, ThreadPoolExecutor(8) as pool:
        together = [*pool.map(lambda target: ask(server, target)[::2], targets)]
    with serving(path) as server:
        alone = [ask(server, target)[::2] for target in targets]
    assert together == alone and {status for status, _ in alone} == {200}


def test_a_busy_port_is_a_user_error(server, store):
    with pytest.raises(InputError, match=f"cannot listen on port {server.port}"):
        ViewServer(store, server.port)


def test_a_missing_store_is_reported_before_the_server_starts(tmp_path):
    with pytest.raises(StoreError, match="no such directory"):
        ViewServer(tmp_path / "none")


def test_a_closed_server_does_not_answer(store):
    with serving(store) as server:
        assert ask(server, "")[0] == 200
    with pytest.raises(ConnectionError):
        ask(server, "")


def test_too_many_values(server):
    assert ask(server, "graphs?" + "&".join(f"a{i}=1" for i in range(50)))[0] == 400
    assert json.loads(ask(server, "graphs.json?q=" + "1" * 2000)[2])["error"]
