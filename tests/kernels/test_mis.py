"""Independent-set kernels: symmetry, mirror images, sorting, covering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import kmis as reference
from tgp.engine.methods.kmis import assign_by_order
from tgp.kernels import csr, mis
from tgp.ragged import BlockCSR
from tgp.testing.graphs import from_pairs, path
from tgp.testing.strategies import blocks, graphs


def symmetry_codes(block):
    out = np.empty(block.num_graphs, np.int8)
    mis.check_symmetry(block.indptr, block.indices, block.node_ptr, block.indptr.copy(), out)
    return out.tolist()


def test_symmetry_of_small_graphs():
    block = BlockCSR.concat(
        [
            path(3),
            from_pairs(2, [(0, 1)], both_ways=False),
            from_pairs(3, [(0, 1), (0, 1), (1, 0), (2, 2)], both_ways=False),
            from_pairs(3, [(0, 1), (0, 1), (1, 0), (1, 0), (2, 2), (2, 2)], both_ways=False),
            from_pairs(4, [], both_ways=False),
            from_pairs(3, [(0, 1), (1, 0), (2, 0)], both_ways=False),
        ]
    )
    assert symmetry_codes(block) == [
        mis.BALANCED,
        mis.ASYMMETRIC,
        mis.UNBALANCED,
        mis.BALANCED,
        mis.BALANCED,
        mis.ASYMMETRIC,
    ]


@given(blocks(max_nodes=5, max_edges=8))
def test_symmetry_equals_that_of_the_dense_matrix(block):
    expected = []
    for part in block.split():
        a = reference.counts(part.num_nodes, part.edge_index().T)
        if ((a > 0) != (a.T > 0)).any():
            expected.append(mis.ASYMMETRIC)
        else:
            expected.append(mis.UNBALANCED if (a != a.T).any() else mis.BALANCED)
    assert symmetry_codes(block) == expected


@given(graphs(max_nodes=6, max_edges=12))
def test_mirror_images_equal_the_reference(block):
    indptr, indices, weight, weighted = block.arrays()
    back = csr.transpose(indptr, indices, weight, weighted)
    indptr, indices, weight = mis.add_mirrors(indptr, indices, weight, *back, weighted)
    made = BlockCSR(indptr, indices, weight if weighted else None, block.node_ptr).validate()
    edges, weights = reference.both_ways(block.edge_index().T, block.weight)

    def bag(pairs, values):
        return sorted((int(u), int(v), w) for (u, v), w in zip(pairs, values, strict=True))

    ones = np.ones(len(edges))
    assert bag(made.edge_index().T, made.weights_or_ones()) == bag(
        edges, ones if weights is None else weights
    )


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 300, 5000])
@pytest.mark.parametrize("values", [3, 10**9, 2**62])
def test_sort_is_stable(n, values):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, values, n).astype(np.uint64)
    expected = np.argsort(keys, kind="stable")
    order, other_keys, other = np.arange(n, dtype=np.int32), np.empty_like(keys), np.empty(n, np.int32)
    counts = np.empty(8 * 256, np.int64)
    swapped = mis.sort_by_keys(keys, order, n, other_keys, other, counts)
    assert (other if swapped else order).tolist() == expected.tolist()


def test_rank_keys_order_nan_first_then_descending_scores():
    nan, inf = np.nan, np.inf
    score = np.array([1.0, -0.0, nan, -3.0, inf, 0.0, 1e-300, -inf, -1e-300, -nan, 5.0])
    key = np.empty(len(score))
    bits = key.view(np.uint64)
    mis.write_rank_keys(score, np.empty(0), 0, len(score), False, key, bits)
    order = np.argsort(bits, kind="stable")
    assert order.tolist() == [2, 9, 4, 10, 0, 6, 1, 5, 8, 3, 7]
    # 0/0 is NaN and 1/0 is infinite. Both are ordered without an exception.
    key = np.empty(3)
    mis.write_rank_keys(
        np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), 0, 3, True, key, key.view(np.uint64)
    )
    assert np.argsort(key.view(np.uint64)).tolist() == [0, 1, 2]


@given(
    graphs(min_nodes=1, max_nodes=12, max_edges=20, directed=False),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_scan_equals_the_result_of_the_rounds(block, k, random):
    order = list(range(block.num_nodes))
    random.shuffle(order)
    members, clusters = reference.rounds(order, block.num_nodes, block.edge_index().T.tolist(), k)
    found = assign_by_order(block, order, k)
    assert found.representative.tolist() == members.tolist()
    assert found.cluster.tolist() == clusters.tolist()
    assert found.super_ptr.tolist() == [0, len(members)]


def owners(block, order):
    """Return the member that covers each node within two hops."""
    found = assign_by_order(block, order, 2)
    return found.representative[found.cluster]


def test_node_joins_the_best_ranked_member_not_the_nearest():
    block = path(6)
    owner = owners(block, [0, 3, 1, 2, 4, 5])
    # Node 2 is a neighbour of member 3, but member 0 has a better rank and is within two hops.
    assert owner.tolist() == [0, 0, 0, 3, 3, 3]


def test_member_covers_nodes_beyond_those_of_a_better_member():
    # Member 4 covers nodes 2 to 6. Members 1 and 7 cover the rest; paths from them lead through covered nodes.
    block = path(9)
    owner = owners(block, [4, 1, 7, 0, 2, 3, 5, 6, 8])
    assert owner.tolist() == [1, 1, 4, 4, 4, 4, 4, 7, 7]
