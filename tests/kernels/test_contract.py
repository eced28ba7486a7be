"""Contraction kernels: exact arrays of small graphs, long rows, negligible weights."""

import numpy as np
import pytest
import scipy.sparse as sp

from tgp.kernels import contract as kernels
from tgp.kernels import csr
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, cycle, star, weighted

CODES = {"sum": csr.SUM, "mean": csr.MEAN, "min": csr.MIN, "max": csr.MAX, "mul": csr.MUL}


def run(block, cluster, num_supernodes, op="sum", drop_loops=True, tiny=1e-8):
    is_weighted = block.weight is not None
    weight = block.weight if is_weighted else np.empty(0)
    cluster = np.asarray(cluster, dtype=np.int32)
    return kernels.contract(
        block.indptr, block.indices, weight, is_weighted, cluster, num_supernodes, CODES[op], drop_loops, tiny
    )


@pytest.mark.parametrize(
    ("op", "values"),
    # Supernodes are {0, 1}, {2, 3} and {4}. Edges 1-2 (weight 2) and 1-3 (weight 0.5) are merged.
    [("sum", 2.5), ("mean", 1.25), ("min", 0.5), ("max", 2.0), ("mul", 1.0)],
)
def test_ring_with_chord(op, values):
    ptr, cols, weight = run(weighted(), [0, 0, 1, 1, 2], 3, op)
    assert ptr.tolist() == [0, 2, 4, 6]
    assert cols.tolist() == [1, 2, 0, 2, 0, 1]
    assert weight.tolist() == [values, 5.0, values, 4.0, 5.0, 4.0]


def test_self_loops_are_kept_on_request():
    ptr, cols, weight = run(weighted(), [0, 0, 1, 1, 2], 3, drop_loops=False)
    assert ptr.tolist() == [0, 3, 6, 8]
    assert cols.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert weight.tolist() == [2.0, 2.5, 5.0, 2.5, 6.0, 4.0, 5.0, 4.0]


def test_unweighted_graph_stays_unweighted():
    ptr, cols, weight = run(cycle(6), [0, 0, 1, 1, 2, 2], 3)
    assert ptr.tolist() == [0, 2, 4, 6]
    assert cols.tolist() == [1, 2, 0, 2, 0, 1]
    assert weight.size == 0


def test_edges_of_dropped_nodes_are_removed():
    ptr, cols, weight = run(weighted(), [0, -1, 1, 1, 2], 3)
    assert ptr.tolist() == [0, 1, 2, 4]
    assert cols.tolist() == [2, 2, 0, 1]
    assert weight.tolist() == [5.0, 4.0, 5.0, 4.0]


def test_empty_supernodes_have_empty_rows():
    ptr, cols, _ = run(cycle(3), [1, 1, 3], 5)
    assert ptr.tolist() == [0, 0, 1, 1, 2, 2]
    assert cols.tolist() == [3, 1]


def test_weights_that_cancel_are_removed_and_do_not_affect_the_next_row():
    block = weighted()
    block.weight[:] = np.where(block.weight == 0.5, -2.0, block.weight)
    ptr, cols, weight = run(block, [0, 0, 1, 1, 2], 3)
    assert ptr.tolist() == [0, 1, 2, 4]
    assert cols.tolist() == [2, 2, 0, 1]
    assert weight.tolist() == [5.0, 4.0, 5.0, 4.0]
    assert run(block, [0, 0, 1, 1, 2], 3, tiny=-1.0)[2].tolist() == [0.0, 5.0, 0.0, 4.0, 5.0, 4.0]


@pytest.mark.parametrize("op", ["sum", "mean", "min", "max", "mul"])
@pytest.mark.parametrize("parts", [3, 40, 400])
def test_long_rows_equal_scipy(parts, op):
    block = barabasi_albert(600, 8, seed=3)
    rng = np.random.default_rng(parts)
    block = type(block)(block.indptr, block.indices, rng.random(block.num_edges) + 0.5, block.node_ptr)
    cluster = rng.integers(0, parts, block.num_nodes)
    ptr, cols, weight = run(block, cluster, parts, op, drop_loops=False, tiny=-1.0)
    rows, ends = block.edge_index()
    keys = cluster[rows] * parts + cluster[ends]
    unique, inverse = np.unique(keys, return_inverse=True)
    groups = [block.weight[inverse == i] for i in range(len(unique))]
    reduce = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max, "mul": np.prod}[op]
    np.testing.assert_array_equal(np.repeat(np.arange(parts), np.diff(ptr)) * parts + cols, unique)
    np.testing.assert_allclose(weight, [reduce(g) for g in groups], rtol=1e-12)
    if op == "sum":
        s = sp.csr_matrix((np.ones(600), (np.arange(600), cluster)), shape=(600, parts))
        a = sp.csr_matrix((block.weight, block.indices, block.indptr))
        np.testing.assert_allclose(
            sp.csr_matrix((weight, cols, ptr), shape=(parts, parts)).toarray(), (s.T @ a @ s).toarray()
        )


@pytest.mark.parametrize("span", [63, 64, 65, 4095, 4097, 262_143, 300_000, 600_000])
@pytest.mark.parametrize("length", [1, 12, 13, 200])
def test_rows_of_any_span_are_sorted_and_merged(span, length):
    """Use every size of bit set (one word, one page of words, several pages) more than once."""
    rng = np.random.default_rng(span + length)
    size = span + 5
    # Three distant rows. Columns are random in 3 .. span + 3, include both ends, and may occur twice.
    rows = np.repeat([0, 2, size - 1], length)
    cols = rng.integers(3, span + 4, len(rows))
    cols[::length] = 3
    cols[length - 1 :: length] = span + 3
    weight = rng.standard_normal(len(rows))
    block = BlockCSR.from_edge_index(np.stack([rows, cols]), weight, num_nodes=size)
    ptr, found, values = run(block, np.arange(size), size, drop_loops=False, tiny=-1.0)
    keys, inverse = np.unique(rows * size + cols, return_inverse=True)
    sums = np.zeros(len(keys))
    np.add.at(sums, inverse, weight)
    np.testing.assert_array_equal(np.repeat(np.arange(size), np.diff(ptr)) * size + found, keys)
    np.testing.assert_array_equal(values, sums)
    plain = BlockCSR(block.indptr, block.indices, None, block.node_ptr)
    bare = run(plain, np.arange(size), size, drop_loops=False)
    assert [a.tolist() for a in bare] == [ptr.tolist(), found.tolist(), []]


def test_degree_norm_is_zero_at_nodes_without_positive_degree():
    block = star(3)
    out = kernels.degree_norm(block.indptr, block.indices, np.array([2.0, 2.0, 1.0, -1.0]))
    assert out.tolist() == [2.0 / (2.0 * 1.0), 0.0, 0.5, 0.0]


def test_max_norm_does_not_change_zero_graphs():
    out = kernels.max_norm(np.array([0, 2, 2, 4]), np.array([1.0, -4.0, 0.0, 0.0]))
    assert out.tolist() == [0.25, -1.0, 0.0, 0.0]
