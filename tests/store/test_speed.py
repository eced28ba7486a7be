"""Costs that must not grow with the store: opening, memory, one graph, one batch."""

import subprocess
import sys
import time

import numpy as np
import pytest

from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.testing.stores import build_store, random_table

MILLION = 1_000_000

OPEN = """
import sys, time
from tgp.store.reader import StoreReader
import numpy as np

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before, start = memory(), time.perf_counter()
reader = StoreReader(sys.argv[1])
opened, grown = time.perf_counter() - start, memory() - before
reader.gather_graphs([5]), reader.gather_levels([5], "halve")  # opens the shard
times = []
for graph in range(100):
    start = time.perf_counter()
    reader.gather_graphs([graph])
    times.append(time.perf_counter() - start)
print(opened, grown, sorted(times)[50])
"""


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """A million pairs of nodes in sixteen shards."""
    path = tmp_path_factory.mktemp("million")
    node_ptr = np.arange(0, 2 * MILLION + 1, 2)
    ends = np.tile(np.array([[0, 1], [1, 0]]), MILLION)
    fields = {
        "edge_index": Field("edge_index", ends, node_ptr, axis=-1, shifted=True),
        "y": Field("y", np.arange(MILLION), np.arange(MILLION + 1)),
    }
    build_store(path, GraphTable(node_ptr, fields), num_units=16)
    return path


@pytest.mark.slow
def test_a_million_graphs_open_at_once(million):
    runs = [
        [float(n) for n in subprocess.check_output([sys.executable, "-c", OPEN, million]).split()]
        for _ in range(3)
    ]
    opened, grown, one = np.min(runs, axis=0)
    assert opened < 0.05
    assert grown < 50e6
    assert one < 0.001
    assert (million / "manifest.json").stat().st_size < 100_000


@pytest.mark.slow
def test_sizes_of_a_million_graphs(million):
    reader = StoreReader(million)
    start = time.perf_counter()
    nodes, edges = reader.sizes("halve", 1)
    assert time.perf_counter() - start < 2
    assert nodes.sum() == MILLION
    assert edges.sum() == 0


def test_a_batch_costs_numpy_calls_not_graphs(tmp_path):
    """Eight times as many graphs in a batch must not take eight times as long: nothing runs per graph."""
    build_store(tmp_path, random_table(2000, seed=1), num_units=1)
    reader = StoreReader(tmp_path)
    rng = np.random.default_rng(0)

    def seconds(size):
        batches = [rng.permutation(2000)[:size] for _ in range(30)]
        best = np.inf
        for ids in batches:
            start = time.perf_counter()
            reader.gather_graphs(ids)
            reader.gather_levels(ids, "halve")
            best = min(best, time.perf_counter() - start)
        return best

    seconds(64)  # opens the shard and checks its ids
    assert seconds(512) < 4 * seconds(64)
