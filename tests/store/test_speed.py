"""Costs that must not grow with the number of graphs: opening a store, and gathering a batch."""

import subprocess
import sys

import numpy as np
import pytest

from tests.reference.calls import calls_of
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.testing.stores import build_store, random_table

pytestmark = pytest.mark.linux

MILLION = 1_000_000

OPEN = """
import sys
from tgp.store.read.reader import StoreReader

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before = memory()
reader = StoreReader(sys.argv[1])
print(memory() - before)
"""


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """Store of a million graphs of two nodes, in sixteen units."""
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
def test_opening_a_million_graphs_needs_little_memory(million):
    grown = min(int(subprocess.check_output([sys.executable, "-c", OPEN, million])) for _ in range(3))
    assert grown < 50e6
    assert (million / "manifest.json").stat().st_size < 100_000


@pytest.mark.slow
def test_sizes_of_a_million_graphs(million):
    reader = StoreReader(million)
    nodes, edges = reader.sizes("halve", 1)
    assert nodes.sum() == MILLION
    assert edges.sum() == 0


def test_the_number_of_calls_does_not_depend_on_the_batch_size(tmp_path):
    build_store(tmp_path, random_table(2000, seed=1), num_units=1)
    reader = StoreReader(tmp_path)

    def batch(size):
        ids = np.random.default_rng(0).permutation(2000)[:size]
        reader.gather_graphs(ids), reader.gather_levels(ids, "halve")

    batch(2000)  # opens the shard and checks its ids
    assert calls_of(lambda: batch(512)) <= 1.1 * calls_of(lambda: batch(64))
