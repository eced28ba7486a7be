"""Parts of the multigrid eigensolver compared with dense linear algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import eigen as reference
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
    assert np.allclose(multigrid.apply_laplacian(*rows_of(block), degree, b), laplacian @ b)
    aggregate = rng.integers(0, 4, n).astype(np.int32)
    x, coarse = multigrid.smooth_down(*rows_of(block), degree, b, aggregate, 4)
    assert np.allclose(np.tril(laplacian) @ x, b)
    one_hot = np.eye(4)[aggregate]
    assert np.allclose(coarse, one_hot.T @ (b - laplacian @ x))
    expected = x + 1.5 * one_hot @ y
    expected += np.linalg.solve(np.triu(laplacian), b - laplacian @ expected)
    multigrid.smooth_up(*rows_of(block), degree, b, aggregate, y, 1.5, x)
    assert np.allclose(x, expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_block_products_equal_numpy(n, p, q, seed):
    rng = np.random.default_rng(seed)
    x, y, c, mass = rng.normal(size=(n, p)), rng.normal(size=(n, q)), rng.normal(size=(p, q)), rng.random(n)
    assert np.allclose(multigrid.gram(x, y, mass), x.T @ (mass[:, None] * y))
    assert np.allclose(multigrid.combine(x, c), x @ c)


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
