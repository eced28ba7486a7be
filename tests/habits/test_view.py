"""``tgp view``: look at all graphs of a store in the browser."""

import json
import subprocess
import sys
import threading
from urllib.parse import quote
from urllib.request import urlopen

import pytest

import tgp
from tgp.inspect.view import ViewServer


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    out = tmp_path_factory.mktemp("pooled") / "mine"
    tgp.coarsen("molecules:num_graphs=60", ["graclus*2", "kmis"], out=out)
    return out


@pytest.fixture
def url(pooled):
    with ViewServer(pooled) as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def read(address):
    with urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def test_start_it_and_end_it_with_ctrl_c(pooled):
    process = subprocess.Popen(
        [sys.executable, "-m", "tgp_cli.main", "view", str(pooled), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    address = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
    assert "mine" in read(address)
    process.send_signal(2)
    assert process.wait(timeout=120) == 0
    process.stdout.close()


def test_find_the_large_graphs(url):
    found = json.loads(read(f"{url}graphs.json?q={quote('nodes>55')}&sort=-nodes"))
    nodes = [int(row["cells"][0]) for row in found["rows"]]
    assert nodes and nodes == sorted(nodes, reverse=True) and min(nodes) > 55


def test_find_graphs_that_hardly_shrink(url):
    found = json.loads(read(f"{url}graphs.json?q={quote('ratio>0.6 and nodes>45')}"))
    assert 0 < found["total"] < 60


def test_compare_the_hierarchies_of_one_graph(url):
    page = read(f"{url}graph?id=17")
    assert "Graph 17" in page and "graclus-x2" in page and "kmis" in page and page.count("<svg") >= 5


def test_a_link_needs_the_whole_address(url):
    with pytest.raises(OSError, match="403"):
        read(url.rpartition("/")[0].rpartition("/")[0] + "/")
