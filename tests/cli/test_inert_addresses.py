"""The user name, the password and the query of a URL appear in no output, no file name and no report."""

import functools
import http.server
import threading

import pytest

from tgp.testing.stores import build_store, random_table
from tgp_cli import main


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("TGP_CACHE", str(tmp_path / "cache"))
    build_store(tmp_path / "served" / "er", random_table(5, seed=1))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://me:hunter2@127.0.0.1:{server.server_address[1]}/er?token=hunter3"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "URL"],
        ["inspect", "URL", "--json"],
        ["inspect", "URL", "--graph", "77"],
        ["inspect", "--diff", "URL", "URL"],
        ["verify", "URL"],
        ["verify", "URL", "--json"],
        ["report", "URL"],
        ["export", "URL", "--to", "npz"],
        ["export", "URL", "--to", "npz", "--hierarchy", "none"],
    ],
    ids=" ".join,
)
def test_secrets_of_an_address_are_not_shown(words, url, tmp_path, capsys):
    status = main.run([url if word == "URL" else word for word in words])
    assert status == (2 if {"77", "none"} & set(words) else 0)
    found = capsys.readouterr()
    text = found.out + found.err
    assert text and "hunter" not in text
    for path in (tmp_path / "work").rglob("*"):
        assert "hunter" not in path.name and "?" not in path.name
        if path.suffix == ".html":
            assert "hunter" not in path.read_text()
