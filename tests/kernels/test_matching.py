"""Greedy matching: exact clusters of small graphs, properties on random graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.graclus import random_parts, shuffled
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.graclus import GraclusParams, assign
from tgp.kernels import matching
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import (
    complete,
    cycle,
    erdos_renyi,
    from_pairs,
    grid2d,
    isolated,
    path,
    self_loop,
    star,
)

ORDERS = ("random", "degree", "index")


def match(block, order="index", seed=0, level=0, **options):
    assignment = assign(block, GraclusParams(order=order, **options), RandomKey(seed, level))
    cluster, super_ptr = assignment.cluster, assignment.super_ptr
    assert cluster.dtype == np.int32
    return cluster.tolist(), super_ptr.tolist()


@pytest.mark.parametrize(
    ("block", "clusters"),
    [
        (path(6), [0, 0, 1, 1, 2, 2]),
        (path(5), [0, 0, 1, 1, 2]),
        (star(4), [0, 0, 1, 2]),
        (isolated(3), [0, 1, 2]),
        (self_loop(), [0, 0]),
        (from_pairs(4, [(0, 3), (1, 2)]), [0, 1, 1, 0]),
        # Node 0 joins node 2, because this edge is heavier than the edge to node 1.
        (from_pairs(3, [(0, 1), (0, 2)], [1.0, 2.0]), [0, 1, 0]),
        # Edges of negative weight are not matched; edges of weight 0 are.
        (from_pairs(4, [(0, 1), (2, 3)], [-1.0, 0.0]), [0, 1, 2, 2]),
        # Only outgoing edges of the visited node count. Node 0 has none, and is not free when node 1 is visited.
        (from_pairs(2, [(1, 0)], both_ways=False), [0, 1]),
    ],
)
def test_clusters_in_index_order(block, clusters):
    assert match(block) == (clusters, [0, max(clusters) + 1])


def test_directed_edge_counts_for_its_source():
    assert match(from_pairs(2, [(0, 1)], both_ways=False))[0] == [0, 0]


def test_degree_order_visits_nodes_with_few_neighbours_first():
    # Node 1 has three neighbours. The leaves 0, 2 and 4 are visited first, then node 3.
    block = from_pairs(5, [(0, 1), (1, 2), (1, 3), (3, 4)])
    assert match(block, "degree")[0] == [0, 0, 1, 2, 2]
    # Self loops do not count in the degree.
    loops = from_pairs(3, [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2)])
    assert match(loops, "degree")[0] == [0, 0, 1]


def test_weights_of_one_equal_no_weights():
    block = erdos_renyi(40, 0.2, seed=1)
    ones = type(block)(block.indptr, block.indices, np.ones(block.num_edges), block.node_ptr)
    assert match(block, "random") == match(ones, "random")


def test_seed_and_level_change_only_the_random_order():
    block = grid2d(8, 8)
    results = {str(match(block, "random", seed, level)) for seed in range(3) for level in range(3)}
    assert len(results) == 9
    assert match(block, "index", 0) == match(block, "index", 1)
    assert match(block, "degree", 0) == match(block, "degree", 1)


def test_ties_are_resolved_uniformly():
    block = star(5)
    partner = []
    for seed in range(400):
        visit_first = shuffled(5, seed, 0)[0]
        if visit_first == 0:
            clusters = match(block, "random", seed)[0]
            partner.append(next(u for u in range(1, 5) if clusters[u] == clusters[0]))
    counts = np.bincount(partner, minlength=5)[1:]
    assert len(partner) > 50
    assert counts.min() > len(partner) / 8


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block", [cycle(9), complete(7), grid2d(70, 70)], ids=["cycle", "complete", "grid"])
def test_no_edge_connects_two_singletons(block, order):
    clusters = np.array(match(block, order)[0])
    sizes = np.bincount(clusters)
    assert set(sizes) <= {1, 2}
    rows, cols = block.edge_index()
    both_single = (sizes[clusters[rows]] == 1) & (sizes[clusters[cols]] == 1)
    assert not both_single.any()
    first = [int(np.flatnonzero(clusters == c)[0]) for c in range(len(sizes))]
    assert first == sorted(first)


def test_windows_of_a_large_graph_are_shuffled_separately():
    order = shuffled(4096 + 100, 5, 2)
    assert sorted(order[:4096]) == list(range(4096))
    assert sorted(order[4096:]) == list(range(4096, 4196))
    assert order[4096:] != list(range(4096, 4196))


@given(st.lists(st.integers(0, 12), max_size=4), st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_random_partition_equals_the_reference(sizes, seed, level):
    node_ptr = offsets(np.array(sizes, np.int64))
    parts = [(n + 1) // 2 for n in sizes]
    super_ptr = offsets(np.array(parts, np.int64))
    cluster = matching.random_partition(node_ptr, super_ptr, seed, level)
    for g, (n, k) in enumerate(zip(sizes, parts, strict=True)):
        local = cluster[node_ptr[g] : node_ptr[g + 1]] - super_ptr[g]
        assert local.tolist() == random_parts(n, k, seed, level)
        assert sorted(set(local.tolist())) == list(range(k))
