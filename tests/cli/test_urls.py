"""Commands that read stores from URLs."""

import csv
import functools
import http.server
import io
import json
import socket
import threading

import pytest
from typer.testing import CliRunner

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp_cli.main import build_app

fsspec = pytest.importorskip("fsspec")


def tgp(*arguments):
    return CliRunner().invoke(build_app(arguments), [str(a) for a in arguments])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("served") / "er"
    config = CoarsenConfig("er:num_graphs=8:num_nodes=10", out=out, poolers=("graclus*2",))
    coarsen_dataset(config)
    return out


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(params=["memory", "http"])
def url(request, store, tmp_path, monkeypatch):
    monkeypatch.setenv("TGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    if request.param == "memory":
        system = fsspec.filesystem("memory")
        system.put(str(store), "/served/er", recursive=True)
        yield "memory://served/er"
        system.rm("/served", recursive=True)
        return
    handler = functools.partial(Quiet, directory=str(store.parent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/er"
    server.shutdown()
    thread.join()
    server.server_close()


def test_inspect_and_verify(url, store):
    here, there = (json.loads(tgp("inspect", place, "--json").stdout) for place in (store, url))
    assert there.pop("path") == url and here.pop("path") == str(store)
    assert there == here
    rows = list(csv.DictReader(io.StringIO(tgp("inspect", url, "--csv").stdout)))
    assert [row["level"] for row in rows] == ["1", "2"]
    assert json.loads(tgp("inspect", url, "--graph", 3, "--json").stdout)["nodes"] == 10
    assert tgp("inspect", "--diff", url, store).exit_code == 0
    for more in ((), ("--deep", "--sample", 2)):
        found = tgp("verify", url, *more)
        assert (found.exit_code, found.stdout) == (0, f"{url} is sound.\n")


def test_results_are_written_to_the_working_directory(url, tmp_path):
    for command in (("export", url, "--to", "npz"), ("report", url), ("plot", url, "-g", 1)):
        result = tgp(*command)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "er-npz" / "graphs.npz").is_file()
    assert (tmp_path / "er-report.html").is_file() and (tmp_path / "er-1.png").is_file()


def test_a_url_without_a_store(url):
    for command in ("inspect", "verify"):
        result = tgp(command, f"{url}-other")
        assert result.exit_code == 2 and f"no complete store at {url}-other" in result.stderr


def test_a_server_that_refuses_connections():
    with socket.socket() as closed:  # a bound socket that does not listen refuses connections
        closed.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{closed.getsockname()[1]}/er"
        for command in ("inspect", "verify"):
            result = tgp(command, place)
            assert result.exit_code == 2 and f"{place}/manifest.json cannot be read" in result.stderr
            assert "check the address" in result.stderr


def test_an_unknown_protocol():
    result = tgp("inspect", "nonsense://bucket/er")
    assert result.exit_code == 2 and "Protocol not known: nonsense" in result.stderr


@pytest.mark.parametrize("command", [("status",), ("merge",), ("coarsen", "--out")])
def test_commands_that_write_reject_urls(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tgp(*command, "https://example.org/er")
    assert result.exit_code == 2 and "is a URL" in result.stderr
    assert list(tmp_path.iterdir()) == []
