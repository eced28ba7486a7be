"""Servers and stores that several tests of this folder use."""

import http.client
import json
import threading
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from tests.inspect.report.conftest import failed_store, hostile_store  # noqa: F401 - fixtures
from tgp.inspect.view import StoreApplication, ViewServer


@contextmanager
def serving(path):
    """Run a server in a thread."""
    with ViewServer(path) as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def server(store):
    with serving(store) as found:
        yield found


@pytest.fixture
def application(store):
    return StoreApplication(store)


def ask(server, target, method="GET", headers=None, token=None):
    """Send a request for a page and return status, headers and body. The token of the server is the default."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.putrequest(
            method, f"/{server.token if token is None else token}/{target}", skip_host=headers is not None
        )
        for name, value in headers or []:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def search_page(application, **values):
    """Return the JSON of a search."""
    answer = application.respond("graphs.json", {key: str(value) for key, value in values.items()})
    return answer.status, json.loads(answer.body)


def quoted(text):
    return quote(text, safe="")
