"""Remote stores on web servers that are broken or hostile: each one leads to an error of the store or to the right data."""

import base64
import dataclasses
import random
import socket
import threading
from urllib.parse import urlsplit

import pytest

from tests.reference.refusals import bounded
from tests.store import http_servers as kinds
from tests.store.http_servers import MANIFEST, SHARD, FailsFirst, Server
from tgp.errors import InputError, StoreDamagedError, StoreError, StoreFullError, StoreMissingError
from tgp.store import StoreReader, verify_store
from tgp.store.format import constants as fmt
from tgp.store.io.http_reader import HttpReader
from tgp.store.io.remote import RemoteFiles
from tgp.store.io.transfer import TransferLimits
from tgp.testing.stores import build_store, random_table

PATIENT = {"timeout": 60.0, "allowance": 300.0, "retries": 2, "backoff": 0.01}
"""Limits that hold on a busy computer, for servers that answer at once."""

BOTH = (MANIFEST, SHARD)
RETRIED = 3
"""Number of requests for a file whose transfer is always interrupted."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "TGP_REDIRECT_HOSTS"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Content of each file of a store by its name."""
    path = tmp_path_factory.mktemp("served") / "store"
    build_store(path, random_table(40, seed=1, weighted=True))
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def read_all(files):
    """Read all input graphs of a store and return their number of nodes."""
    return StoreReader(files).gather_graphs(range(40)).num_nodes


def check_refused(server, cache, expected, *, match=None, **limits):
    """Check that reading fails with one line that names the file, with little memory, and without files in the cache."""
    files = RemoteFiles(server.url, cache, limits=TransferLimits(**(PATIENT | limits)))
    with bounded(200), pytest.raises(StoreError, match=match) as caught:  # a manifest may have 64 MiB
        read_all(files)
    message = str(caught.value)
    assert type(caught.value) is expected, repr(caught.value)
    assert message.isprintable() and len(message) < 600
    assert server.url in message
    assert not [p for p in cache.rglob("*") if p.name.startswith(".tmp-") or p.name == SHARD]
    return files


REFUSED = [
    (kinds.endless_body, BOTH, StoreDamagedError),
    (kinds.endless_json, (MANIFEST,), StoreDamagedError),
    (kinds.endless_announced_body, BOTH, StoreDamagedError),
    (kinds.endless_partial_reply, BOTH, StoreError),
    (kinds.ten_byte_ranges, BOTH, StoreError),
    (kinds.endless_chunks, BOTH, StoreDamagedError),
    (kinds.tiny_chunks_with_long_extensions, (SHARD,), StoreDamagedError),
    (kinds.one_endless_chunk, BOTH, StoreDamagedError),
    (kinds.endless_trailer, (SHARD,), StoreDamagedError),
    (kinds.broken_chunk_size, BOTH, StoreError),
    (kinds.gzip_bomb, BOTH, StoreError),
    (kinds.short_content_length, BOTH, StoreDamagedError),
    (kinds.long_content_length, (SHARD,), StoreDamagedError),
    (kinds.long_content_length, (MANIFEST,), StoreError),
    (kinds.cut_body, BOTH, StoreError),
    (kinds.cut_chunks, BOTH, StoreError),
    (kinds.other_bytes, BOTH, StoreDamagedError),
    (kinds.html_page, BOTH, StoreDamagedError),
    (kinds.redirect_loop, BOTH, StoreError),
    (kinds.redirect_chain, BOTH, StoreError),
    (kinds.redirect_to_file, BOTH, StoreError),
    (kinds.redirect_to_ftp, BOTH, StoreError),
    (kinds.redirect_to_data, BOTH, StoreError),
    (kinds.redirect_to_other_host, BOTH, StoreError),
    (kinds.redirect_without_location, BOTH, StoreError),
    (kinds.redirect_to_nonsense, BOTH, StoreError),
    (kinds.redirect_with_endless_body, BOTH, StoreError),
    (kinds.other_protocol, BOTH, StoreError),
    (kinds.escape_sequences, BOTH, StoreError),
    (kinds.escape_sequences_in_reason, BOTH, StoreError),
    (kinds.endless_status_line, BOTH, StoreError),
    (kinds.endless_headers, BOTH, StoreError),
    (kinds.endless_continue, (SHARD,), StoreDamagedError),
    (kinds.closed_connection, BOTH, StoreError),
    (kinds.server_error, BOTH, StoreError),
    (kinds.too_many_requests, BOTH, StoreError),
    (kinds.too_many_requests_for_ever, BOTH, StoreError),
    (kinds.too_many_requests_until_a_date, BOTH, StoreError),
    (kinds.missing, BOTH, StoreMissingError),
    (kinds.forbidden, BOTH, StoreError),
    (kinds.no_content, BOTH, StoreError),
    (kinds.not_modified, BOTH, StoreError),
]
CELLS = [(kind, target, expected) for kind, targets, expected in REFUSED for target in targets]


@pytest.mark.parametrize(
    ("kind", "target", "expected"), CELLS, ids=[f"{k.__name__}-{t.split('.')[0]}" for k, t, _ in CELLS]
)
def test_a_hostile_reply_is_refused(kind, target, expected, content, tmp_path):
    with Server(content, kind, target) as server:
        files = check_refused_somewhere(server, tmp_path, expected, target)
        # One repetition for wrong bytes, and what the buffers of the sockets hold.
        limit = len(content[SHARD]) if target == SHARD else fmt.MAX_MANIFEST_BYTES
        assert server.sent < 2 * (2 * limit + (24 << 20))
        server.kind = kinds.Exchange.honest  # the same object works as soon as the server does
        assert read_all(files) > 0


def check_refused_somewhere(server, cache, expected, target):
    """Check a refusal. The reader reports a missing or damaged manifest in words of its own."""
    if target == MANIFEST and expected in (StoreMissingError, StoreDamagedError):
        files = RemoteFiles(server.url, cache, limits=TransferLimits(**PATIENT))
        with bounded(200), pytest.raises(expected, match=r"127\.0\.0\.1"):  # a manifest may have 64 MiB
            read_all(files)
        return files
    return check_refused(server, cache, expected)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("kind", [kinds.dripping_body, kinds.dripping_headers, kinds.dripping_chunk_size])
def test_a_slow_reply_ends_at_the_deadline(kind, target, content, tmp_path):
    with Server(content, kind, target) as server:
        files = RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT))
        if target == SHARD:
            StoreReader(files)  # the manifest is read without haste
        files._source.limits = TransferLimits(timeout=60, allowance=0.2, minimum_rate=1e6)
        with bounded(), pytest.raises(StoreError, match="too slowly") as caught:
            files.read(MANIFEST, 1 << 20) if target == MANIFEST else files.open(SHARD)
        assert f"{server.url}/{target}" in str(caught.value)
        assert server.count(target) == 1  # a slow server is not asked again
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("kind", [kinds.silence, kinds.silence_after_headers])
def test_a_silent_server_ends_at_the_timeout(kind, target, content, tmp_path):
    with Server(content, kind, target) as server:
        files = RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT))
        if target == SHARD:
            StoreReader(files)
        files._source.limits = TransferLimits(timeout=0.1, allowance=300)
        with bounded(), pytest.raises(StoreError, match=r"no answer for 0\.1 s \(tried 3 times\)"):
            files.read(MANIFEST, 1 << 20) if target == MANIFEST else files.open(SHARD)
        assert server.count(target) == RETRIED
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_port_without_a_server(tmp_path):
    with socket.socket() as closed:  # a bound socket that does not listen refuses connections
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/store"
        with pytest.raises(StoreError, match=rf"{url}/manifest.json cannot be read.*tried 3 times"):
            read_all(RemoteFiles(url, tmp_path, limits=TransferLimits(**PATIENT)))


READABLE = [
    kinds.without_content_length,
    kinds.wrong_content_length_text,
    kinds.in_chunks,
    kinds.moved,
    kinds.without_ranges_and_head,
    FailsFirst(kinds.closed_connection, 2),
    FailsFirst(kinds.server_error, 2),
    FailsFirst(kinds.cut_body, 2),
    FailsFirst(kinds.cut_chunks, 2),
    FailsFirst(lambda e: e.reply(b"", "429 Too Many Requests", Retry_After="0"), 2),
    FailsFirst(lambda e: e.reply(b"", "503 x", Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"), 1),
    FailsFirst(lambda e: e.reply(b"", "503 x", Retry_After="soon"), 1),
]


@pytest.mark.parametrize("kind", READABLE)
def test_a_broken_server_that_can_be_read(kind, content, tmp_path):
    files = content | {f"moved/{name}": data for name, data in content.items()}
    with Server(files, kind, lambda e: e.body is not None) as server:
        remote = RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT))
        with bounded():
            assert read_all(remote) > 0
            assert verify_store(remote) == []


@pytest.mark.parametrize("kind", [kinds.Exchange.honest, kinds.without_ranges_and_head])
def test_a_large_file_from_a_server_without_ranges(kind, tmp_path):
    path = tmp_path / "store"
    build_store(path, random_table(1000, features=200), 1)
    content = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    assert len(content[SHARD]) > 10 << 20
    with Server(content, kind) as server:
        reader = StoreReader(RemoteFiles(server.url, tmp_path / "cache"))
        assert reader.gather_graphs([999]).num_graphs == 1


@pytest.mark.parametrize(
    "kind", [FailsFirst(kinds.other_bytes, 1), FailsFirst(kinds.short_content_length, 1)]
)
def test_a_proxy_with_an_old_file_is_asked_for_the_current_one(kind, content, tmp_path):
    with Server(content, kind) as server:
        assert read_all(RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT))) > 0
        asked = [headers.get("cache-control") for _, path, headers in server.requests if path == SHARD]
        assert asked == [None, "no-cache"]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (kinds.missing, 1),
        (kinds.forbidden, 1),
        (kinds.too_many_requests, 1),
        (kinds.other_protocol, 1),
        (kinds.other_bytes, 2),
        (kinds.endless_body, 2),
        (kinds.server_error, RETRIED),
        (kinds.closed_connection, RETRIED),
        (kinds.cut_body, RETRIED),
        (kinds.redirect_loop, 6),
    ],
)
def test_number_of_requests(kind, count, content, tmp_path):
    with Server(content, kind) as server:
        with pytest.raises(StoreError):
            read_all(RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT)))
        assert server.count(SHARD) == count


def test_pauses_between_attempts_double(content, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr("tgp.store.io.transfer.time.sleep", pauses.append)
    limits = TransferLimits(retries=4, backoff=0.5)
    with (
        Server(content, kinds.server_error, MANIFEST) as server,
        pytest.raises(StoreError, match="tried 5 times"),
    ):
        RemoteFiles(server.url, tmp_path, limits=limits).read(MANIFEST, 1 << 20)
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    pauses.clear()
    wait = FailsFirst(lambda e: e.reply(b"", "503 x", Retry_After="7"), 1)
    with Server(content, wait, MANIFEST) as server:
        RemoteFiles(server.url, tmp_path, limits=limits).read(MANIFEST, 1 << 20)
    assert pauses == [7.0]


def test_one_request_for_each_file(content, tmp_path):
    """No index page, no HEAD and no ranges are requested, whatever the server would answer to them."""

    def is_unusual(e):
        return e.method != "GET" or e.body is None or "range" in e.headers

    with Server(content, kinds.endless_body, is_unusual) as server:
        reader = StoreReader(RemoteFiles(server.url, tmp_path))
        reader.gather_graphs(range(40))
        reader.gather_levels(range(40), next(iter(reader.hierarchies)))
        asked = sorted((method, path) for method, path, _ in server.requests)
        shards = [name for name in content if name.endswith(".h5")]
        assert asked == sorted(("GET", name) for name in [MANIFEST, *shards])
        server.requests.clear()
        assert verify_store(RemoteFiles(server.url, tmp_path)) == []
        assert not [path for _, path, _ in server.requests if path.endswith(".h5")]


def test_replies_with_random_heads(content, tmp_path):
    """Change random bytes of the head of a reply: the result is the file or an error of the store."""
    rng = random.Random(0)
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(content[MANIFEST])
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(content[MANIFEST])
    outcomes = set()

    def reply(e):
        head, tail = rng.choice([(plain, b""), (chunked, b"\r\n0\r\n\r\n")])
        head = bytearray(head)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(head))
            head[place : place + rng.randint(0, 2)] = bytes(
                rng.choices(b"\r\n :;0159-+azAZ\x00\x1b\xff", k=rng.randint(0, 2))
            )
        e.send(bytes(head) + e.body + tail)

    with Server(content, reply, MANIFEST) as server, bounded():
        files = RemoteFiles(server.url, tmp_path, limits=TransferLimits(**(PATIENT | {"retries": 0})))
        for _ in range(200):
            try:
                outcomes.add(files.read(MANIFEST, 1 << 20) == content[MANIFEST])
            except StoreError as error:
                assert str(error).isprintable() and server.url in str(error)
                outcomes.add(type(error))
    assert {True, StoreError} <= outcomes


# Redirects, credentials and proxies -------------------------------------------------------------


def test_a_redirect_to_another_port_is_not_followed(content, tmp_path):
    with Server(content) as other, Server(content, kinds.redirect_to_other_port) as server:
        server.other_port = other.server_address[1]
        check_refused(server, tmp_path, StoreError, match=r"same host or https, got http://127\.0\.0\.1")
        assert other.requests == []


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_redirect_to_a_listed_host_is_followed_without_credentials(content, tmp_path, monkeypatch, how):
    options = {"redirect_hosts": ["127.0.0.1"]} if how == "option" else {}
    if how == "environment":
        monkeypatch.setenv("TGP_REDIRECT_HOSTS", "example.org, 127.0.0.1")
    with Server(content) as other, Server(content, kinds.redirect_to_other_port) as server:
        server.other_port = other.server_address[1]
        url = server.url.replace("//", "//user:secret@")
        assert read_all(RemoteFiles(url, tmp_path, headers={"X-Token": "secret"}, **options)) > 0
        for _, _, headers in server.requests:
            assert headers["authorization"] == "Basic " + base64.b64encode(b"user:secret").decode()
            assert headers["x-token"] == "secret"
        assert len(other.requests) == 1
        assert "secret" not in str(other.requests) and "authorization" not in other.requests[0][2]


@pytest.mark.parametrize("kind", [kinds.forbidden, kinds.missing, kinds.other_bytes, kinds.server_error])
@pytest.mark.parametrize("target", BOTH)
def test_errors_do_not_contain_credentials(kind, target, content, tmp_path):
    with Server(content, kind, target) as server:
        url = server.url.replace("//", "//user:s%40cret@") + "?token=hidden"
        files = RemoteFiles(url, tmp_path, limits=TransferLimits(**PATIENT))
        with pytest.raises(StoreError) as caught:
            read_all(files)
        error = caught.value
        while error is not None:
            shown = f"{error} {getattr(error, 'path', '')} {getattr(error, 'hint', '')}"
            assert not any(word in shown for word in ("cret", "user", "hidden"))
            error = error.__cause__
        assert files.location == server.url


def test_user_names_queries_and_options(content, tmp_path):
    names = content | {f"a b/{name}": data for name, data in content.items()}
    with Server(names, lambda e: e.honest()) as server:
        files = RemoteFiles(f"{server.url}?token=1", tmp_path, auth=("user", "pä:ss"))
        assert read_all(files) > 0
        sent = {headers["authorization"] for _, _, headers in server.requests}
        assert sent == {"Basic " + base64.b64encode("user:pä:ss".encode()).decode()}
        with pytest.raises(
            InputError, match="expected one of auth, headers, redirect_hosts, got client_kwargs"
        ):
            RemoteFiles(server.url, tmp_path, client_kwargs={})
        with pytest.raises(InputError, match="auth"):
            RemoteFiles(server.url, tmp_path, auth="user:password")
    for url in ("http://", "http:///store", "http://host:port/store", "http://[::1/store"):
        with pytest.raises(StoreError, match="wrong URL"):
            RemoteFiles(url, tmp_path)
    for name, value in (("timeout", 0), ("retries", 1.5), ("retries", -1), ("allowance", float("nan"))):
        with pytest.raises(InputError, match=name):
            TransferLimits(**{name: value})


def test_proxies_of_the_environment_are_used(content, tmp_path, monkeypatch):
    with Server(content) as server:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/store"))
        server.answer = lambda c, m, t, h: Server.answer(
            server, c, m, t.removeprefix("http://store.invalid"), h
        )
        assert read_all(RemoteFiles("http://store.invalid/store", tmp_path)) > 0


def test_a_server_without_tls_is_reported(content, tmp_path):
    with Server(content) as server:
        url = server.url.replace("http", "https")
        with pytest.raises(StoreError, match=r"https://127\.0\.0\.1.*SSL"):
            RemoteFiles(url, tmp_path, limits=TransferLimits(**PATIENT)).read(MANIFEST, 1 << 20)
        assert server.requests == []


# Cache ------------------------------------------------------------------------------------------


def test_a_size_that_no_disk_has_is_refused_before_the_download(content, tmp_path):
    with Server(content) as server:
        reader = StoreReader(RemoteFiles(server.url, tmp_path))
        record = reader.manifest.shards["graphs"][0]
        reader.files.expect([type(record)(**(vars(record) | {"size": 1 << 60}))])
        with pytest.raises(StoreFullError, match="too little space"):
            reader.files.open(SHARD)
        assert server.count(SHARD) == 0


@pytest.mark.parametrize("damage", ["truncated", "longer", "link"])
def test_a_copy_of_another_size_is_downloaded_again(damage, content, tmp_path):
    with Server(content) as server:
        read_all(RemoteFiles(server.url, tmp_path))
        (copy,) = tmp_path.rglob(SHARD)
        copy.unlink()
        if damage == "link":
            copy.symlink_to("/dev/zero")
        else:
            copy.write_bytes(content[SHARD][:-1] if damage == "truncated" else content[SHARD] + b"x")
        assert read_all(RemoteFiles(server.url, tmp_path)) > 0
        assert server.count(SHARD) == 2
        assert copy.read_bytes() == content[SHARD] and not copy.is_symlink()


def test_temporary_files_of_dead_processes_are_removed(content, tmp_path):
    with Server(content) as server:
        files = RemoteFiles(server.url, tmp_path)
        StoreReader(files)
        folder = files._cache_folder()
        folder.mkdir(parents=True)
        (folder / f".tmp-0123456789abcdef-{SHARD}").write_bytes(b"half")
        files.open(SHARD).close()
        assert [p.name for p in folder.iterdir()] == [SHARD]


def test_the_cache_may_be_a_link(content, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    with Server(content) as server:
        assert read_all(RemoteFiles(server.url, tmp_path / "link")) > 0
    assert len(list((tmp_path / "disk").rglob("*.h5"))) == 2


@pytest.mark.parametrize(
    "before, after, allowed",
    [
        ("https://a.org/s", "https://cdn.b.net/x?sig=1", True),
        ("https://a.org/s", "http://cdn.b.net/x", False),
        ("http://a.org/s", "https://cdn.b.net/x", False),
        ("http://a.org/s", "https://a.org/s", True),
        ("https://a.org/s", "https://10.0.0.1/x", False),
        ("https://a.org/s", "https://[::1]/x", False),
        ("https://a.org/s", "https://localhost/x", False),
        ("https://a.org/s", "https://metadata.google.internal/x", False),
        ("https://a.org/s", "https://b.net:8443/x", False),
    ],
)
def test_redirects_to_other_hosts_stay_on_https(monkeypatch, before, after, allowed):
    monkeypatch.delenv("TGP_REDIRECT_HOSTS", raising=False)
    reader = HttpReader(before, TransferLimits())
    if allowed:
        assert reader._redirected(urlsplit(before), after, before).geturl() == after
    else:
        with pytest.raises(StoreError, match="expected a redirect"):
            reader._redirected(urlsplit(before), after, before)


def test_files_of_a_batch_are_downloaded_at_the_same_time(content, tmp_path):
    """The server answers the requests for two files when both have arrived."""
    both = threading.Barrier(2)

    def wait_for_the_other(exchange):
        both.wait(60)
        exchange.honest()

    with Server(content, wait_for_the_other, lambda e: e.path.endswith(".h5")) as server:
        reader = StoreReader(RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT)))
        name = next(iter(reader.hierarchies))
        found = reader.batch_plan(name, [0]).gather(range(40))
        assert not both.broken and found.levels[0].num_graphs == 40


def test_a_failed_download_stops_the_others(content, tmp_path):
    """A missing file ends the download of a large one that arrives slowly."""
    size, block = 1 << 30, bytes(1 << 20)
    started = threading.Event()

    def answer(exchange):
        if exchange.path == SHARD:
            started.wait(60)
            exchange.reply(b"", "404 Not Found")
            return
        exchange.reply(b"", Content_Length=size)
        for _ in range(size // len(block)):
            exchange.send(block)
            started.set()
            if exchange.server.stopped.wait(0.02):
                return

    with Server(content, answer, lambda e: e.path in (SHARD, "large.h5")) as server:
        files = RemoteFiles(server.url, tmp_path, limits=TransferLimits(**PATIENT))
        record = StoreReader(files).manifest.shards[fmt.GRAPHS][0]
        files.expect([record, dataclasses.replace(record, file="large.h5", size=size)])
        with pytest.raises(StoreMissingError, match=SHARD):
            files.fetch([SHARD, "large.h5"])
        assert server.sent < size // 2
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
