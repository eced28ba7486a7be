"""Coding-tree kernels: merging with short and long lists, undirected graphs, quotient graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import sep as reference
from tgp.engine.methods import sep
from tgp.kernels import coding_tree, coding_tree_cut, coding_tree_layers, csr
from tgp.kernels.undirected import undirected_sum
from tgp.testing.graphs import barabasi_albert, complete, erdos_renyi, grid2d, karate, path, star
from tgp.testing.strategies import graphs


def trees(block, long_from):
    """Return the merge trees of the components and the groups of their height-2 trees."""
    forest = sep._split_components(block)
    every = np.ones(len(forest.total), np.bool_)
    n, parts = len(forest.degree), len(forest.total)
    tree = (np.full(2 * n, -1, np.int32), np.zeros(2 * n), np.zeros(2 * n), np.zeros(2 * n))
    coding_tree.merge_trees(
        *forest.rows,
        forest.ptr,
        every,
        forest.degree,
        forest.degree,
        forest.total,
        long_from,
        0,
        parts,
        *tree,
    )
    made = [a.copy() for a in tree]
    out = (np.zeros(n, np.int32), np.ones(parts, np.int64), np.zeros(n), np.zeros(n))
    coding_tree_cut.cut_trees(forest.ptr, every, *tree, 0, parts, *out)
    return made, out


@given(graphs(min_nodes=1, max_nodes=14, max_edges=40, negative=False), st.sampled_from([1, 2, 4]))
def test_long_lists_give_the_same_tree_as_short_lists(block, long_from):
    (parent, *sums), groups = trees(block, 10**6)
    (parent2, *sums2), groups2 = trees(block, long_from)
    assert parent.tolist() == parent2.tolist()
    # The weights are multiples of 1/4, so their sums are exact in any order.
    assert all(np.array_equal(a, b) for a, b in zip(sums, sums2, strict=True))
    assert groups[0].tolist() == groups2[0].tolist()


@pytest.mark.parametrize(
    "block",
    [grid2d(20, 21), barabasi_albert(400, 4, seed=1), star(300), erdos_renyi(120, 0.3, seed=2), complete(40)],
    ids=["grid", "ba", "star", "er", "complete"],
)
@pytest.mark.parametrize("long_from", [2, 8, 64])
def test_long_lists_give_the_same_tree_in_larger_graphs(block, long_from):
    assert trees(block, 10**6)[0][0].tolist() == trees(block, long_from)[0][0].tolist()


def test_long_lists_with_random_weights():
    block = barabasi_albert(500, 5, seed=3)
    rng = np.random.default_rng(0)
    weight = rng.random(block.num_edges)
    weighted = type(block)(block.indptr, block.indices, weight, block.node_ptr)
    assert trees(weighted, 10**6)[0][0].tolist() == trees(weighted, 16)[0][0].tolist()


def test_merge_tree_of_a_path():
    (parent, vol, cut, inner), _ = trees(path(4), 128)
    # Degrees 1 2 2 1: the end pairs have the smallest common volume, then the two halves merge.
    assert parent[:6].tolist() == [4, 4, 5, 5, 6, 6]
    assert vol[:7].tolist() == [1, 2, 2, 1, 3, 3, 6]
    assert cut[:7].tolist() == [1, 2, 2, 1, 1, 1, 0]
    assert inner[4:7].tolist() == [1, 1, 1]


def test_equal_pendant_nodes_are_merged_in_the_order_of_ids():
    (parent, *_), _ = trees(star(6), 128)
    # The centre 0 is merged with one leaf after the other.
    assert parent[:10].tolist() == [6, 6, 7, 8, 9, 10, 7, 8, 9, 10]


def test_merge_tree_is_a_binary_tree():
    (parent, vol, _, _), _ = trees(karate(), 128)
    children = np.bincount(parent[:66], minlength=67)
    assert (children[34:67] == 2).all() and not children[:34].any()
    assert vol[66] == karate().num_edges


def test_lists_are_packed_when_their_memory_is_full():
    # Complete graphs fill the memory fastest, because every list contains all other nodes.
    block = complete(60)
    expected = reference.labels(60, block.edge_index().T)
    assert trees(block, 10**6)[1][0].tolist() == expected[0].tolist()
    assert trees(block, 4)[1][0].tolist() == expected[0].tolist()


def simple_rows(block):
    weighted = block.weight is not None
    rows = (block.indptr, block.indices, np.empty(0) if block.weight is None else block.weight)
    return undirected_sum(*rows, *csr.transpose(*rows, weighted), weighted)


def dense(indptr, indices, weight, n):
    out = np.zeros((n, n))
    np.add.at(out, (np.repeat(np.arange(n), np.diff(indptr)), indices), weight)
    return out


@given(graphs(max_nodes=8, max_edges=20))
def test_undirected_sum_equals_the_dense_matrix(block):
    indptr, indices, weight, bad = simple_rows(block)
    n = block.num_nodes
    expected = reference.adjacency(n, block.edge_index().T.tolist(), block.weight)
    assert np.array_equal(dense(indptr, indices, weight, n), expected)
    assert np.count_nonzero(expected) == len(indices)
    assert bad == (np.flatnonzero((expected < 0).any(1)).tolist() or [-1])[0]


@given(graphs(min_nodes=1, max_nodes=8, max_edges=20, negative=False), st.randoms(use_true_random=False))
def test_quotient_and_parts_are_blocks_of_the_dense_matrix(block, random):
    indptr, indices, weight, _ = simple_rows(block)
    n = block.num_nodes
    k = random.randint(1, n)
    label = np.array([random.randrange(k) for _ in range(n)], np.int32)
    label[random.sample(range(n), k)] = np.arange(k)
    a = dense(indptr, indices, weight, n)
    s = np.eye(k)[label]
    *rows, vol, cut = coding_tree_layers.quotient(indptr, indices, weight, a.sum(1), label, k)
    expected = s.T @ a @ s
    np.fill_diagonal(expected, 0)
    assert np.array_equal(dense(*rows, k), expected)
    assert np.array_equal(cut, expected.sum(1)) and np.array_equal(vol, s.T @ a.sum(1))
    order, ptr, *rows = coding_tree_layers.group_by_label(indptr, indices, weight, label, k)
    assert order.tolist() == sorted(range(n), key=lambda i: (label[i], i))
    assert np.diff(ptr).tolist() == np.bincount(label, minlength=k).tolist()
    assert np.array_equal(dense(*rows, n), (a * (s @ s.T))[np.ix_(order, order)])


def test_supernodes_are_numbered_by_first_node():
    # One graph with two components, nodes 0 2 4 and nodes 1 3. Rows 0 and 1 of ``labels`` are two layers.
    ptr, order, graph_ptr = np.array([0, 3, 5]), np.array([0, 2, 4, 1, 3], np.int32), np.array([0, 2])
    labels = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], np.int32)
    nums, low = np.array([[2, 2], [1, 1]]), np.zeros(2, np.int64)
    below = np.arange(5, dtype=np.int32)
    above, cluster, super_ptr = coding_tree_layers.number_level(
        ptr, order, graph_ptr, labels, nums, low, 0, below, 5
    )
    assert cluster.tolist() == above.tolist() == [0, 1, 2, 3, 0]
    assert super_ptr.tolist() == [0, 4]
    above, cluster, super_ptr = coding_tree_layers.number_level(
        ptr, order, graph_ptr, labels, nums, low, 1, above, 4
    )
    assert above.tolist() == [0, 1, 0, 1, 0]
    assert cluster.tolist() == [0, 1, 0, 1] and super_ptr.tolist() == [0, 2]


def test_better_layer_is_added_and_the_finer_one_wins_ties():
    ptr = np.array([0, 1, 2, 3, 4])
    up = [np.array([7, 7, 7, 7], np.int32), np.array([4, 4, 4, 4]), np.array([1.0, 1.0, 1.0, 0.0])]
    down = [np.array([9, 9, 9, 9], np.int32), np.array([2, 3, 2, 2]), np.array([0.5, 2.0, 1.0, 5.0])]
    bottom, top = ([np.array([8] * 4, np.int32), np.array([3, 3, 3, 2])] for _ in range(2))
    labels, nums = np.zeros((3, 4), np.int32), np.zeros((3, 4), np.int64)
    low, high = np.ones(4, np.int64), np.ones(4, np.int64)
    new_up, new_down = np.ones(4, np.bool_), np.ones(4, np.bool_)
    coding_tree_layers.add_better_layer(
        ptr, *up, *down, *bottom, *top, low, high, labels, nums, new_up, new_down
    )
    # Finer layer is better; coarser layer is better; tie; two clusters below the root have no coarser layer.
    assert low.tolist() == [0, 1, 0, 0] and high.tolist() == [1, 2, 1, 1]
    assert labels.tolist() == [[7, 0, 7, 7], [0, 0, 0, 0], [0, 9, 0, 0]]
    assert nums.tolist() == [[4, 0, 4, 4], [0, 0, 0, 0], [0, 3, 0, 0]]
    assert bottom[0].tolist() == [7, 8, 7, 7] and top[0].tolist() == [8, 9, 8, 8]
    assert bottom[1].tolist() == [4, 3, 4, 4] and top[1].tolist() == [3, 3, 3, 2]
    assert new_up.tolist() == [True, False, True, True] and new_down.tolist() == [False, True, False, False]
