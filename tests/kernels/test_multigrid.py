"""Parts of the multigrid eigensolver compared with dense linear algebra."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import eigen as reference
from tgp.engine import block_algebra, threads
from tgp.kernels import multigrid
from tgp.testing.graphs import barabasi_albert, cycle, grid2d, path, star
from tgp.testing.strategies import graphs

TOYS = {
    "path": path(9),
    "cycle": cycle(6),
    "grid": grid2d(4, 5),
    "star": star(12),
    "social": barabasi_albert(30, 2),
}


def rows_of(block):
    return block.indptr, block.indices, block.weights_or_ones()


def laplacian_of(block):
    matrix = reference.affinity(block)
    return np.diag(matrix.sum(1)) - matrix, matrix.sum(1)


@pytest.mark.parametrize("name", TOYS)
def test_laplacian_and_smoothing_equal_dense_algebra(name):
    block = TOYS[name]
    laplacian, degree = laplacian_of(block)
    n = block.num_nodes
    rng = np.random.default_rng(0)
    b, y = rng.normal(size=(n, 3)), rng.normal(size=(4, 3))
    assert np.allclose(block_algebra.apply_laplacian(rows_of(block), degree, b), laplacian @ b)
    aggregate = rng.integers(0, 4, n).astype(np.int32)
    x, coarse = block_algebra.smooth_down(rows_of(block), degree, b, aggregate, 4)
    assert np.allclose(np.tril(laplacian) @ x, b)
    one_hot = np.eye(4)[aggregate]
    assert np.allclose(coarse, one_hot.T @ (b - laplacian @ x))
    expected = x + 1.5 * one_hot @ y
    expected += np.linalg.solve(np.triu(laplacian), b - laplacian @ expected)
    block_algebra.smooth_up(rows_of(block), degree, b, aggregate, y, 1.5, x)
    assert np.allclose(x, expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_block_products_equal_numpy(n, p, q, seed):
    rng = np.random.default_rng(seed)
    x, y, c, mass = rng.normal(size=(n, p)), rng.normal(size=(n, q)), rng.normal(size=(p, q)), rng.random(n)
    assert np.allclose(block_algebra.gram(x, y, mass), x.T @ (mass[:, None] * y))
    assert np.allclose(block_algebra.combine(x, c), x @ c)


def compute_all(block, seed, p, q):
    """Return the results of all functions of block algebra."""
    rng = np.random.default_rng(seed)
    n = block.num_nodes
    rows = block.indptr, block.indices, rng.random(block.num_edges)
    degree, mass, aggregate = rng.random(n), rng.random(n), rng.integers(0, 4, n).astype(np.int32)
    b, c, y = rng.normal(size=(n, p)), rng.normal(size=(p, q)), rng.normal(size=(4, p))
    x, coarse = block_algebra.smooth_down(rows, degree, b, aggregate, 4)
    smooth = x.copy()
    block_algebra.smooth_up(rows, degree, b, aggregate, y, 1.5, smooth)
    product = block_algebra.combine(b, c)
    found = [x, coarse, smooth, product, block_algebra.gram(b, product, mass), block_algebra.row_sums(*rows)]
    return [*found, block_algebra.apply_laplacian(rows, degree, b)]


@settings(max_examples=40, deadline=None)
@given(graphs(directed=False), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31), st.integers(2, 4))
def test_block_algebra_does_not_depend_on_threads(block, p, q, seed, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "num_threads", lambda: 1)
        expected = compute_all(block, seed, p, q)
        patch.setattr(threads, "num_threads", lambda: count)
        patch.setattr(threads, "_MIN_WORK", 0)
        patch.setattr(block_algebra, "_MIN_WORK", 0)
        patch.setattr(block_algebra, "_LEAST_VECTORS", 1)
        found = compute_all(block, seed, p, q)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 30), st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 30)), st.integers(0, 99)
)
def test_rows_of_a_product_do_not_depend_on_the_cut(n, p, q, cuts, seed):
    rng = np.random.default_rng(seed)
    x, c, found = rng.normal(size=(n, p)), rng.normal(size=(p, q)), np.empty((n, q))
    for first, last in itertools.pairwise(sorted({0, n, *(cut for cut in cuts if cut < n)})):
        multigrid.combine(x, c, first, last, found)
    assert found.tobytes() == block_algebra.combine(x, c).tobytes()


@settings(max_examples=60, deadline=None)
@given(graphs(min_nodes=1, max_nodes=14, directed=False, simple=True, weighted=False))
def test_members_of_an_aggregate_are_close_to_each_other(block):
    degree = np.bincount(block.rows(), minlength=block.num_nodes).astype(float)
    aggregate, count = multigrid.aggregate_pairs(*rows_of(block), degree)
    assert sorted(set(aggregate)) == list(range(count))
    first = [int(np.argmax(aggregate == c)) for c in range(count)]
    assert first == sorted(first)
    matrix = reference.adjacency(block) > 0
    near = matrix | (matrix.astype(int) @ matrix > 0) | np.eye(len(matrix), dtype=bool)
    reach = near.astype(int) @ near > 0
    for c in range(count):
        members = np.flatnonzero(aggregate == c)
        assert reach[np.ix_(members, members)].all()
    assert all(degree[first[c]] == 0 for c in range(count) if (aggregate == c).sum() == 1)


@pytest.mark.parametrize(
    ("name", "most"), [("path", 5), ("cycle", 3), ("grid", 10), ("star", 6), ("social", 15)]
)
def test_aggregation_halves_the_graph(name, most):
    """Aggregation also halves a star, because leaves of the same hub are paired."""
    block = TOYS[name]
    degree = np.bincount(block.rows(), minlength=block.num_nodes).astype(float)
    assert multigrid.aggregate_pairs(*rows_of(block), degree)[1] <= most


def test_pairs_of_a_path():
    degree = np.array([1.0, 2, 2, 2, 1])
    aggregate, count = multigrid.aggregate_pairs(*rows_of(path(5)), degree)
    assert aggregate.tolist() == [0, 0, 1, 1, 1]
    assert count == 2


def test_random_numbers_depend_only_on_their_position():
    block = multigrid.random_block(50, 4, 7)
    assert np.array_equal(block[:20, :2], multigrid.random_block(20, 2, 7))
    assert not np.array_equal(block, multigrid.random_block(50, 4, 8))
    assert abs(block.mean()) < 0.3
