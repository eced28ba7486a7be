"""Coding-tree kernels: merging with short and long lists, undirected graphs, quotient graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import sep as reference
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import sep
from tgp.errors import GraphError
from tgp.kernels import ahead, coding_tree, coding_tree_cut, coding_tree_layers, coding_tree_single, csr
from tgp.kernels.undirected import undirected_sum
from tgp.ragged import BlockCSR
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    erdos_renyi,
    from_pairs,
    grid2d,
    karate,
    path,
    star,
)
from tgp.testing.strategies import graphs


def trees(block, long_from, counts=None):
    """Return the merge trees of the components and the groups of their height-2 trees."""
    forest = sep._split_components(block)
    every = np.ones(len(forest.total), np.bool_)
    n, parts = len(forest.degree), len(forest.total)
    tree = (np.full(2 * n, -1, np.int32), np.zeros(2 * n), np.zeros(2 * n), np.zeros(2 * n))
    visited = coding_tree.merge_parts(
        forest.rows, forest.ptr, every, forest.degree, forest.degree, forest.total, 0, parts, tree, long_from
    )
    if counts is not None:
        counts.append(visited)
    made = [a.copy() for a in tree]
    out = (np.zeros(n, np.int32), np.ones(parts, np.int64), np.zeros(n), np.zeros(n))
    scratch = (*np.empty((2, 2 * n), np.int32), np.empty(2 * n, np.int64), np.empty(2 * n))
    coding_tree_cut.cut_trees(forest.ptr, every, 0, parts, *tree, *scratch, *out)
    return made, out


FAMILIES = [
    "star", "windmill", "two hubs", "two weighted hubs", "caterpillar", "grid", "scale-free", "weighted scale-free",
    "weights of all sizes", "dense",
]  # fmt: skip
"""Families in which clusters get many neighbours. The number of hubs is constant in the first six."""


def graph_of(family, n, seed=0):
    rng = np.random.default_rng(seed)
    leaf, blade, spoke = np.arange(1, n), np.arange(1, n - 1, 2), np.arange(2, n)
    if family == "star":
        return from_pairs(n, np.stack([0 * leaf, leaf], 1), rng.permutation(n - 1) + 1.0)
    if family == "windmill":
        pairs = ((0 * blade, blade), (0 * blade, blade + 1), (blade, blade + 1))
        return from_pairs(n, np.concatenate([np.stack(pair, 1) for pair in pairs]))
    if "hubs" in family:
        pairs = np.concatenate([np.stack([0 * spoke + hub, spoke], 1) for hub in (0, 1)])
        return from_pairs(n, pairs, rng.integers(1, 9, len(pairs)) / 4 if "weighted" in family else None)
    if family == "caterpillar":
        return from_pairs(
            n, np.stack([np.maximum(leaf - leaf % 90, 1) - 1, leaf], 1), rng.permutation(n - 1) + 1.0
        )
    if family == "grid":
        return grid2d(n // 10, 10)
    if family == "weights of all sizes":
        return from_pairs(n, rng.integers(0, n, (3 * n, 2)), 10.0 ** rng.uniform(-6, 6, 3 * n))
    if family == "dense":
        return erdos_renyi(n, 0.3, seed=seed)
    block = barabasi_albert(n, 4, seed=seed)
    weight = rng.random(block.num_edges) if "weighted" in family else None
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


@given(graphs(min_nodes=1, max_nodes=14, max_edges=40, negative=False), st.sampled_from([1, 2, 4]))
def test_hubs_give_the_same_tree_as_lists(block, long_from):
    (parent, *sums), groups = trees(block, 10**6)
    (parent2, *sums2), groups2 = trees(block, long_from)
    assert parent.tolist() == parent2.tolist()
    # The weights are multiples of 1/4, so their sums are exact in any order.
    assert all(np.array_equal(a, b) for a, b in zip(sums, sums2, strict=True))
    assert groups[0].tolist() == groups2[0].tolist()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("long_from", [1, 4, 16])
def test_hubs_of_the_families_give_the_tree_of_the_reference(family, long_from):
    for n, seed in ((24, 1), (70, 2)):
        block = graph_of(family, n, seed)
        expected = reference.labels(block.num_nodes, block.edge_index().T.tolist(), block.weight)[0]
        forest = sep._split_components(block)
        _, (label, num, _, _) = trees(block, long_from)
        found = label + np.repeat(np.cumsum(num) - num, np.diff(forest.ptr))
        assert found.tolist() == expected[forest.order].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_hubs_give_the_same_tree_in_larger_graphs(family):
    block = graph_of(family, 700, 3)
    expected = trees(block, 10**6)[0][0]
    for long_from in (3, 32, 300):
        assert trees(block, long_from)[0][0].tolist() == expected.tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_work_of_hubs_is_nearly_linear(family):
    counts, edges = [], []
    for n in (500, 8000) if family != "dense" else (200, 400):
        block = graph_of(family, n, 4)
        trees(block, 64, counts)
        edges.append(block.num_edges)
    power = np.log(counts[1] / counts[0]) / np.log(edges[1] / edges[0])
    # In larger graphs of the other families, more clusters are hubs.
    assert counts[0] > 0 and power < (1.2 if FAMILIES.index(family) < 6 else 1.6), (counts, edges)


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


# -- one small graph in one call ------------------------------------------------------------------------------------


@given(graphs(max_nodes=24, max_edges=60, negative=False), st.integers(1, 5))
def test_one_call_gives_the_levels_of_many_calls(block, levels):
    # A second graph selects the kernels of blocks. The levels of a graph do not depend on it.
    pair = sep.assign_levels(BlockCSR.concat([block, block]), sep.SEPParams(), RandomKey(), levels)
    cluster, sizes = coding_tree_single.build_levels(*block.arrays(), levels)
    assert sizes[0] == block.num_nodes
    for level, expected in enumerate(pair):
        found = cluster[level, : sizes[level]]
        assert found.tolist() == expected.cluster[: len(found)].tolist()
        assert expected.super_ptr.tolist() == [0, sizes[level + 1], 2 * sizes[level + 1]]


def test_one_call_reports_weights_that_are_an_error():
    for weight in (-1.0, 1e308):
        block = BlockCSR.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], [1.0, 1.0, weight, weight])
        assert coding_tree_single.build_levels(*block.arrays(), 2) is None
        with pytest.raises(GraphError):
            sep.assign_levels(block, sep.SEPParams(), RandomKey(), 2)


def test_a_single_graph_uses_one_call_when_it_is_worthwhile(monkeypatch):
    calls = []
    build = coding_tree_single.build_levels
    monkeypatch.setattr(coding_tree_single, "build_levels", lambda *given: calls.append(1) or build(*given))
    monkeypatch.setattr(ahead, "is_ready", lambda name: False)
    monkeypatch.setattr(coding_tree_single, "_WORTHWHILE", 3)
    monkeypatch.setattr(coding_tree_single, "_calls", 0)
    found = [
        sep.assign_levels(path(9), sep.SEPParams(), RandomKey(), 2)[0].cluster.tolist() for _ in range(4)
    ]
    assert len(calls) == 2 and found[0] == found[1] == found[2] == found[3]
    monkeypatch.setattr(ahead, "is_ready", lambda name: True)
    monkeypatch.setattr(coding_tree_single, "_calls", 0)
    sep.assign(path(9), sep.SEPParams(), RandomKey())
    assert len(calls) == 3
    sep.assign(path(9), sep.SEPParams(cut="optimal"), RandomKey())
    sep.assign(path(300), sep.SEPParams(), RandomKey())
    assert len(calls) == 3
