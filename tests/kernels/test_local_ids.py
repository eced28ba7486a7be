"""Local ids: equal to the reference, with every integer type, and rejected if they are outside their graph."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import local as reference
from tgp.errors import InputError
from tgp.kernels import local_ids as kernels
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.store.write.shard import local_edges, local_ids
from tgp.testing.graphs import cycle, path
from tgp.testing.strategies import blocks


@given(blocks())
def test_local_edges_equal_the_reference_and_can_be_converted_back(block):
    edges = local_edges(block, "edges")
    np.testing.assert_array_equal(edges, reference.local_edges(block))
    rows = edges.astype(np.int32), block.edge_ptr, block.weight
    back = BlockCSR.from_local_edges(*rows, node_ptr=block.node_ptr).validate()
    for name in ("indptr", "indices", "node_ptr"):
        np.testing.assert_array_equal(getattr(back, name), getattr(block, name))
    assert (back.weight is None) == (block.weight is None)
    if block.weight is not None:
        np.testing.assert_array_equal(back.weight, block.weight)
        assert not np.shares_memory(back.weight, block.weight)


@given(blocks(), st.data())
def test_local_ids_equal_the_reference(block, data):
    counts = data.draw(st.lists(st.integers(0, 4), min_size=block.num_graphs, max_size=block.num_graphs))
    target = offsets(np.array(counts, np.int64))
    ids = [data.draw(st.integers(-1, counts[graph] - 1)) for graph in block.graph_of_node()]
    ids = np.array([i if i < 0 else i + target[g] for i, g in zip(ids, block.graph_of_node(), strict=True)])
    found = local_ids(ids.astype(np.int32), block.node_ptr, target, -1, "ids")
    np.testing.assert_array_equal(found, reference.local_ids(ids, block.node_ptr, target))
    if (ids < 0).any():
        with pytest.raises(InputError, match="ids of its own graph"):
            local_ids(ids.astype(np.int32), block.node_ptr, target, 0, "ids")


@pytest.mark.parametrize(
    ("size", "edges", "ids"),
    [(128, 1, 1), (129, 1, 2), (256, 1, 2), (257, 2, 2), (65_536, 2, 4), (65_537, 4, 4)],
)
def test_integer_type_is_the_smallest_for_the_largest_graph(size, edges, ids):
    block = BlockCSR.concat([path(2), cycle(size)])
    found = local_edges(block, "edges")
    assert found.itemsize == edges
    np.testing.assert_array_equal(found, reference.local_edges(block))
    nodes = np.arange(size + 2, dtype=np.int32)
    named = local_ids(nodes, block.node_ptr, block.node_ptr, 0, "ids")
    assert named.itemsize == ids
    np.testing.assert_array_equal(named, np.r_[np.arange(2), np.arange(size)])


@pytest.mark.parametrize("column", [-1, 0, 1, 6, 2**31 - 1])
def test_edge_outside_its_graph_is_rejected(column):
    block = BlockCSR.concat([path(2), path(3), path(2)])
    block.indices[3] = column  # an edge of node 3, the middle node of the second graph
    with pytest.raises(InputError, match="level 0: edges"):
        local_edges(block, "level 0: edges")


@pytest.mark.parametrize("wrong", [[0, 0, 4, 5], [0, 0, 2, 1], [2, 0, 2, 2]])
def test_id_outside_its_graph_is_rejected(wrong):
    ptr, target = np.array([0, 2, 4]), np.array([0, 2, 4])
    with pytest.raises(InputError, match="ids of its own graph"):
        local_ids(np.array(wrong, np.int32), ptr, target, -1, "ids")
    with pytest.raises(InputError, match="4 ids, got 3"):
        local_ids(np.zeros(3, np.int32), ptr, target, -1, "ids")


@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        ([0, 0, 1], [1, 0, 0]),
        ([1, 0, 1], [0, 1, 0]),
        ([0, 1, 1], [1, 2, 0]),
        ([0, -1, 1], [1, 0, 0]),
        ([0, 2, 1], [1, 0, 0]),
    ],
)
@pytest.mark.parametrize("words", [1, 2])
def test_unsorted_or_invalid_rows_are_not_joined(rows, cols, words):
    assert not join(rows, cols, words)


@pytest.mark.parametrize("words", [1, 2])
def test_rows_of_both_types_are_joined(words):
    assert join([0, 0, 1], [0, 1, 0], words)


@pytest.mark.parametrize("wrong", [1 << 32, -(1 << 32)])
def test_an_id_whose_lower_half_is_valid_is_not_joined(wrong):
    assert not join([0, 0, 1], [0, 1, wrong], 2)
    assert not join([0, 0, 1 + wrong], [0, 1, 0], 2)


def join(rows, cols, words):
    node_ptr, edge_ptr = np.array([0, 2]), np.array([0, 3])
    indptr, indices = np.empty(3, np.int64), np.empty(3, np.int32)
    given = (np.array(ids, f"<i{4 * words}").view(np.int32) for ids in (rows, cols))
    joined = kernels.join_rows(*given, edge_ptr, node_ptr, indptr, indices, words)
    if joined:
        assert indptr.tolist() == [0, rows.index(1), 3] and indices.tolist() == cols
    return joined
