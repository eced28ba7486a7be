"""BlockCSR: build, check, split and join blocks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.errors import InputError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import TOY_GRAPHS, cycle, empty, path, toy_block
from tgp.testing.strategies import blocks


def assert_same(a, b):
    for name in ("indptr", "indices", "node_ptr"):
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert (a.weight is None) == (b.weight is None)
    if a.weight is not None:
        np.testing.assert_array_equal(a.weight, b.weight)


def test_rows_are_sorted_and_parallel_edges_keep_their_order():
    edges = [[1, 0, 1, 0, 1], [0, 1, 0, 0, 2]]
    block = BlockCSR.from_edge_index(edges, [1.0, 2.0, 3.0, 4.0, 5.0], num_nodes=4)
    assert block.indptr.tolist() == [0, 2, 5, 5, 5]
    assert block.indices.tolist() == [0, 1, 0, 0, 2]
    assert block.weight.tolist() == [4.0, 2.0, 1.0, 3.0, 5.0]
    assert block.node_ptr.tolist() == [0, 4]
    assert [a.dtype for a in (block.indptr, block.indices, block.weight, block.node_ptr)] == [
        np.int64,
        np.int32,
        np.float64,
        np.int64,
    ]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_any_integer_type_and_layout(dtype):
    edges = np.array([[0, 1, 2], [1, 2, 0]], dtype=dtype)
    expected = BlockCSR.from_edge_index(edges.astype(np.int64), num_nodes=3)
    assert_same(BlockCSR.from_edge_index(np.asfortranarray(edges), num_nodes=3), expected)
    frozen = edges.astype(np.int64)
    frozen.flags.writeable = False
    assert_same(BlockCSR.from_edge_index(frozen, num_nodes=3), expected)


def test_the_input_arrays_are_copied():
    edges = np.array([[0, 1], [1, 0]])
    weight = np.array([1.0, 2.0])
    block = BlockCSR.from_edge_index(edges, weight, num_nodes=2)
    weight[:] = 7.0
    edges[:] = 0
    assert block.weight.tolist() == [1.0, 2.0]
    assert block.indices.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"edge_index": [[0, 1]]}, "edge_index", r"\[2, E\]"),
        ({"edge_index": [[0.0], [1.0]]}, "edge_index", "integers"),
        ({"edge_index": [[0], [3]], "num_nodes": 3}, "edge_index", "got 3 at edge 0"),
        ({"edge_index": [[0, -1], [1, 0]], "num_nodes": 3}, "edge_index", "got -1 at edge 1"),
        ({"edge_index": [[0], [1]], "num_nodes": -3}, "num_nodes", "-3"),
        ({"edge_index": [[0], [1]], "node_ptr": [0, 1, 2]}, "edge_index", "graphs 0 and 1"),
        ({"edge_index": [[0], [1]], "node_ptr": [0, 2, 1]}, "node_ptr", "never decreases"),
        ({"edge_index": [[0], [1]], "node_ptr": [1, 2]}, "node_ptr", "starts at 0"),
        ({"edge_index": [[0], [1]], "node_ptr": []}, "node_ptr", "starts at 0"),
        ({"edge_index": [[0], [1]], "node_ptr": [0.0, 2.0]}, "node_ptr", "integers"),
        ({"edge_index": [[0], [1]], "weight": [np.nan]}, "edge_weight", "nan at edge 0"),
        ({"edge_index": [[0], [1]], "weight": [np.inf]}, "edge_weight", "inf at edge 0"),
        ({"edge_index": [[0], [1]], "weight": [1.0, 2.0]}, "edge_weight", r"expected \[1\]"),
        ({"edge_index": [[0], [1]], "weight": [[1.0, 2.0]]}, "edge_weight", r"\[1, 2\]"),
        ({"edge_index": [[0], [1]], "weight": ["a"]}, "edge_weight", "numbers"),
        ({"edge_index": np.zeros((2, 0), int), "num_nodes": 2**31}, "node_ptr", "at most"),
    ],
)
def test_errors_name_the_field(arguments, field, words):
    with pytest.raises(InputError, match=words) as caught:
        BlockCSR.from_edge_index(**arguments)
    assert caught.value.field == field


def test_column_of_weights_is_flattened():
    block = BlockCSR.from_edge_index([[0], [1]], [[2.5]])
    assert block.weight.tolist() == [2.5]


def test_node_count_is_largest_id_plus_one():
    assert BlockCSR.from_edge_index([[0, 4], [1, 0]]).num_nodes == 5
    assert BlockCSR.from_edge_index(np.zeros((2, 0))).num_nodes == 0


@given(blocks())
def test_edge_list_round_trip(block):
    block.validate()
    again = BlockCSR.from_edge_index(block.edge_index(), block.weight, node_ptr=block.node_ptr)
    assert_same(again, block)


@given(blocks(), st.randoms(use_true_random=False))
def test_edge_order_matters_for_parallel_edges_only(block, random):
    order = list(range(block.num_edges))
    random.shuffle(order)
    weight = None if block.weight is None else block.weight[order]
    again = BlockCSR.from_edge_index(block.edge_index()[:, order], weight, node_ptr=block.node_ptr)
    np.testing.assert_array_equal(again.indptr, block.indptr)
    np.testing.assert_array_equal(again.indices, block.indices)


@given(blocks())
def test_split_and_concat(block):
    parts = block.split()
    assert len(parts) == block.num_graphs
    if parts:
        assert_same(BlockCSR.concat(parts), block)
    assert BlockCSR.concat([]).num_graphs == 0


@given(blocks(min_graphs=1), st.data())
def test_take_repeats_and_reorders(block, data):
    ids = data.draw(st.lists(st.integers(0, block.num_graphs - 1), max_size=6))
    parts = block.split()
    taken = block.take(ids).validate()
    assert taken.num_graphs == len(ids)
    if ids:
        assert_same(taken, BlockCSR.concat([parts[g] for g in ids]))


@pytest.mark.parametrize("ids", [[-1], [3], [0, 99]])
def test_take_of_unknown_graphs_raises(ids):
    with pytest.raises(InputError, match=r"\[0, 3\)"):
        BlockCSR.concat([path(), cycle(), empty()]).take(ids)


def test_mixed_blocks_become_weighted():
    both = BlockCSR.concat([path(2), TOY_GRAPHS["weighted"]()])
    assert both.weight[:2].tolist() == [1.0, 1.0]


def test_sizes():
    block = toy_block()
    assert block.num_graphs == len(TOY_GRAPHS) - 2
    assert block.edge_ptr[-1] == block.num_edges
    np.testing.assert_array_equal(
        np.bincount(block.graph_of_node(), minlength=block.num_graphs), np.diff(block.node_ptr)
    )
    np.testing.assert_array_equal(block.rows(), block.edge_index()[0])
    assert "unweighted" in repr(block)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"indptr": np.array([0, 1, 2, 5])}, "indptr"),
        ({"indptr": np.array([0, 3, 2, 4])}, "indptr"),
        ({"indices": np.array([2, 0, 2, 1], dtype=np.int32), "indptr": np.array([0, 2, 3, 4])}, "indices"),
        ({"indices": np.array([1, 0, 9, 1], dtype=np.int32)}, "edge_index"),
        ({"node_ptr": np.array([0, 2])}, "node_ptr"),
        ({"node_ptr": np.array([0, 1, 3])}, "edge_index"),
        ({"weight": np.array([1.0, np.nan, 1.0, 1.0])}, "edge_weight"),
        ({"indices": np.array([1, 0, 2, 1], dtype=np.int64)}, "indices"),
    ],
)
def test_validate_names_the_wrong_array(change, field):
    good = path(3)
    parts = {"indptr": good.indptr, "indices": good.indices, "weight": None, "node_ptr": good.node_ptr}
    with pytest.raises(InputError) as caught:
        BlockCSR(**{**parts, **change}).validate()
    assert caught.value.field == field


@given(blocks(), st.randoms(use_true_random=False))
def test_local_edges_in_any_order_make_the_same_block(block, random):
    """Edges that are not sorted inside a graph give the same block as sorted ones."""
    order = []
    for low, high in pairwise(block.edge_ptr.tolist()):
        order += random.sample(range(low, high), high - low)
    edges = block.edge_index()[:, order]
    weight = None if block.weight is None else block.weight[order]
    expected = BlockCSR.from_edge_index(edges, weight, node_ptr=block.node_ptr)
    local = edges - block.node_ptr[block.graph_of_node()[edges[0]]]
    assert_same(BlockCSR.from_local_edges(local, block.edge_ptr, weight, node_ptr=block.node_ptr), expected)


@pytest.mark.parametrize(
    ("edges", "cuts", "match"),
    [
        ([[0, 1], [1, 2]], [0, 1, 2], "got 4 at edge 1"),
        ([[0, -1], [1, 0]], [0, 1, 2], "graph"),
        ([[0, -1], [1, -2]], [0, 1, 2], r"got -1 -> -2 \(edge 1\)"),
        ([[2, 1], [3, 0]], [0, 1, 2], r"got 2 -> 3 \(edge 0\)"),
        ([[0, 1], [1, 0]], [0, 2], r"edge_ptr .* 3 offsets"),
        ([[0, 1], [1, 0]], [0, 3, 2], r"edge_ptr .* 3 offsets"),
        ([[0, 1], [1, 0]], [0, 1, 1], r"edge_ptr .* 3 offsets"),
    ],
)
def test_local_edges_are_checked(edges, cuts, match):
    with pytest.raises(InputError, match=match):
        BlockCSR.from_local_edges(np.array(edges), cuts, node_ptr=[0, 2, 4])


def test_symmetry_is_computed_once():
    block = path(4)
    assert block.symmetry is block.symmetry
    assert block.symmetry.tolist() == [0]
