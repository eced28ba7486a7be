"""Simple undirected graphs from stored edges."""

import numpy as np
from hypothesis import given, settings

from tests.reference.ndp import dense_graph
from tgp.kernels.undirected import undirected
from tgp.ragged import BlockCSR
from tgp.testing.strategies import blocks


def test_directions_parallel_edges_loops_and_zeros():
    edges = [[0, 1, 0, 0, 2, 2, 3, 1], [1, 0, 2, 2, 2, 3, 2, 3]]
    weight = [1.0, 4.0, 2.0, 3.0, 9.0, -1.0, 0.0, 0.0]
    block = BlockCSR.from_edge_index(edges, weight, num_nodes=4)
    ptr, cols, vals = undirected(*block.arrays())
    # 0-1: the larger of 1 and 4. 0-2: 2 + 3, in one direction only. 2-3: the larger of -1 and 0 is 0, so no edge.
    assert ptr.tolist() == [0, 2, 3, 4, 4]
    assert cols.tolist() == [1, 2, 0, 0]
    assert vals.tolist() == [4.0, 5.0, 4.0, 5.0]


def test_unweighted_edges_count_once():
    block = BlockCSR.from_edge_index([[0, 0, 1, 1], [1, 1, 0, 2]], num_nodes=3)
    ptr, cols, vals = undirected(*block.arrays())
    assert ptr.tolist() == [0, 1, 3, 4]
    assert cols.tolist() == [1, 0, 2, 1]
    assert vals.tolist() == [1.0] * 4


@settings(max_examples=60)
@given(blocks())
def test_equals_the_dense_reference(block):
    ptr, cols, vals = undirected(*block.arrays())
    simple = BlockCSR(ptr, cols, vals, block.node_ptr).validate()
    for g in range(block.num_graphs):
        part = simple.take([g])
        found = np.zeros((part.num_nodes, part.num_nodes))
        found[part.rows(), part.indices] = part.weight
        assert np.array_equal(found, dense_graph(block, g))
        assert (np.diff(part.edge_index()[0] * part.num_nodes + part.indices) > 0).all()
        assert (part.weight != 0).all()
