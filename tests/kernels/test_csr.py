"""Row kernels: exact arrays on small graphs, comparison with references on random blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import csr as reference
from tgp.kernels import csr
from tgp.testing.graphs import disconnected, karate
from tgp.testing.strategies import blocks

OPS = {"sum": csr.SUM, "mean": csr.MEAN, "min": csr.MIN, "max": csr.MAX, "mul": csr.MUL}


def arrays(block):
    weighted = block.weight is not None
    return block.indptr, block.indices, block.weight if weighted else np.empty(0), weighted


def as_entries(indptr, indices, weight, weighted):
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    values = weight if weighted else np.ones(len(indices))
    return list(zip(rows.tolist(), indices.tolist(), values.tolist(), strict=True))


def assert_merged(found, expected, weighted):
    """Check that merged rows contain the expected entries, and their weights if there are any."""
    merged = {(r, c): w for r, c, w in as_entries(*found, weighted)}
    assert list(merged) == list(expected)
    if weighted:
        assert list(merged.values()) == pytest.approx(list(expected.values()), abs=1e-12)


edge_lists = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40)
    )
)


@given(edge_lists)
def test_build_rows_equals_sorting_the_edge_list(drawn):
    n, pairs = drawn
    rows, cols = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    weight = np.arange(len(rows), dtype=np.float64)
    indptr, indices, values = csr.build_rows(rows, cols, weight, True, n)
    order = np.lexsort((cols, rows))
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(np.diff(indptr), np.bincount(rows, minlength=n))
    np.testing.assert_array_equal(indices, cols[order])
    np.testing.assert_array_equal(values, weight[order])


@given(blocks())
def test_transpose_equals_the_reference(block):
    got = csr.transpose(*arrays(block))
    assert as_entries(*got, block.weight is not None) == reference.transposed(reference.entries(block))


@given(blocks(), st.sampled_from(sorted(OPS)))
def test_coalesce_equals_the_reference(block, op):
    found = csr.coalesce(*arrays(block), OPS[op])
    assert_merged(found, reference.merged(reference.entries(block), op), block.weight is not None)


@given(blocks(), st.sampled_from(["max", "sum"]))
def test_symmetrise_equals_the_reference(block, op):
    found = csr.symmetrise(*arrays(block), OPS[op])
    assert_merged(found, reference.symmetrised(reference.entries(block), op), block.weight is not None)
    assert csr.is_symmetric(found[0], found[1])


@given(blocks())
def test_is_symmetric_compares_multiplicities(block):
    pairs = sorted((r, c) for r, c, _ in reference.entries(block))
    assert csr.is_symmetric(block.indptr, block.indices) == (pairs == sorted((c, r) for r, c in pairs))


@given(blocks())
def test_components_equal_the_reference(block):
    label, ptr = csr.components(block.indptr, block.indices, block.node_ptr)
    expected = reference.components(block.num_nodes, reference.entries(block))
    assert label.tolist() == expected
    per_graph = [
        len(set(expected[lo:hi])) for lo, hi in zip(block.node_ptr, block.node_ptr[1:], strict=False)
    ]
    assert np.diff(ptr).tolist() == per_graph


def test_components_of_a_known_graph():
    block = disconnected()
    label, ptr = csr.components(block.indptr, block.indices, block.node_ptr)
    assert label.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert ptr.tolist() == [0, 3]


def test_symmetrise_a_known_graph():
    # 0 -> 1 (2), 1 -> 0 (3), 0 -> 0 (1), 1 -> 2 (5)
    indptr = np.array([0, 2, 4, 4])
    indices = np.array([0, 1, 0, 2], dtype=np.int32)
    weight = np.array([1.0, 2.0, 3.0, 5.0])
    ptr, cols, values = csr.symmetrise(indptr, indices, weight, True, csr.SUM)
    assert ptr.tolist() == [0, 2, 4, 5]
    assert cols.tolist() == [0, 1, 0, 2, 1]
    assert values.tolist() == [1.0, 5.0, 5.0, 5.0, 5.0]
    assert csr.symmetrise(indptr, indices, weight, True, csr.MAX)[2].tolist() == [1.0, 3.0, 3.0, 5.0, 5.0]


def test_row_ids_repeat_each_row():
    block = karate()
    np.testing.assert_array_equal(csr.row_ids(block.indptr), np.repeat(np.arange(34), np.diff(block.indptr)))


@pytest.mark.parametrize(
    ("rows", "cols", "code", "position"),
    [
        ([0, 2], [1, 3], 0, -1),
        ([0, -1], [1, 0], csr.BAD_ROW, 1),
        ([0, 5], [1, 0], csr.BAD_ROW, 1),
        ([0, 1], [1, -2], csr.BAD_COL, 1),
        ([0, 1], [1, 5], csr.BAD_COL, 1),
        ([0, 3, 1], [1, 2, 2], csr.CROSSING, 2),
        ([4, 3], [4, 4], csr.CROSSING, 1),
    ],
)
def test_check_edges_finds_the_first_invalid_edge(rows, cols, code, position):
    node_ptr = np.array([0, 2, 2, 4, 5])
    assert csr.check_edges(np.array(rows), np.array(cols), node_ptr) == (code, position)
