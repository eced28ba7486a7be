"""The dense eigensolver and the canonical basis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import eigen as reference
from tgp.kernels import spectral_basis
from tgp.testing.graphs import complete, cycle, grid2d, path, star
from tgp.testing.strategies import graphs


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(0, 2**31), st.booleans())
def test_eigenpairs_equal_numpy(n, seed, whole):
    """Integer matrices have repeated eigenvalues and may be block diagonal."""
    rng = np.random.default_rng(seed)
    a = (
        rng.integers(-1, 2, (n, n)).astype(float) * (rng.random((n, n)) < 0.4)
        if whole
        else rng.normal(size=(n, n))
    )
    a = a + a.T
    values, rows = spectral_basis.eigh_rows(a.copy())
    scale = max(np.abs(a).max(), 1)
    assert np.allclose(values, np.linalg.eigvalsh(a), atol=1e-12 * n * scale)
    assert np.allclose(rows @ rows.T, np.eye(n), atol=1e-12)
    assert np.allclose(rows @ a, values[:, None] * rows, atol=1e-12 * n * scale)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1.0, 1e9, 1e150])
def test_eigenpairs_are_accurate_at_any_scale(scale):
    a = np.random.default_rng(0).normal(size=(9, 9))
    a = (a + a.T) * scale
    values, rows = spectral_basis.eigh_rows(a.copy())
    assert np.allclose(values / scale, np.linalg.eigvalsh(a / scale), atol=1e-12)
    assert np.allclose(rows @ rows.T, np.eye(9), atol=1e-12)


def test_zero_and_diagonal_matrices():
    values, rows = spectral_basis.eigh_rows(np.zeros((4, 4)))
    assert values.tolist() == [0, 0, 0, 0]
    assert np.array_equal(rows, np.eye(4))
    values, rows = spectral_basis.eigh_rows(np.diag([3.0, 1.0, 2.0]))
    assert values.tolist() == [1, 2, 3]
    assert np.array_equal(rows, np.eye(3)[[1, 2, 0]])


@pytest.mark.parametrize("graph", [star(9), complete(7), cycle(8), grid2d(4, 4), path(5)], ids=repr)
def test_basis_of_an_eigenspace_is_unique(graph):
    """Check that any rotation inside eigenspaces gives the same vectors as the reference."""
    laplacian = reference.cluster_laplacian(reference.affinity(graph), True)
    values, vectors = np.linalg.eigh(laplacian)
    rng = np.random.default_rng(3)
    expected = reference.canonical(values, vectors, len(values)).T
    for _ in range(3):
        rows = vectors.T.copy()
        start = 0
        while start < len(values):
            end = start + 1
            while end < len(values) and values[end] - values[end - 1] < 1e-9:
                end += 1
            turn, _ = np.linalg.qr(rng.normal(size=(end - start, end - start)))
            rows[start:end] = turn @ rows[start:end]
            start = end
        spectral_basis.canonical_rows(values, rows, len(values), 1e-6)
        assert np.allclose(rows, expected, atol=1e-9)


def test_largest_entry_becomes_positive_and_the_first_wins_ties():
    rows = np.array([[-0.6, 0.0, 0.8], [-0.8, 0.0, -0.6]])
    spectral_basis.canonical_rows(np.array([0.0, 1.0]), rows, 2, 1e-6)
    assert rows.tolist() == [[-0.6, 0.0, 0.8], [0.8, 0.0, 0.6]]
    rows = np.array([[-0.5, 0.5, -0.5, 0.5]])
    spectral_basis.canonical_rows(np.array([1.0]), rows, 1, 1e-6)
    assert rows.tolist() == [[0.5, -0.5, 0.5, -0.5]]


@settings(max_examples=50, deadline=None)
@given(graphs(min_nodes=2, max_nodes=12, negative=False, directed=False), st.integers(1, 4))
def test_embedding_equals_the_reference(graph, take):
    take = min(take, graph.num_nodes)
    matrix = reference.affinity(graph)
    rows, cols = np.nonzero(matrix)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(matrix))))
    out = np.zeros((len(matrix), take))
    spectral_basis.embed_graphs(
        indptr, cols.astype(np.int32), matrix[rows, cols], graph.node_ptr, np.array([0]), out
    )
    assert np.allclose(out, reference.embedding(matrix, take), atol=1e-6)


def test_first_coordinate_of_a_connected_graph_is_one():
    graph = path(7)
    out = np.zeros((7, 2))
    spectral_basis.embed_graphs(
        graph.indptr, graph.indices, graph.weights_or_ones(), graph.node_ptr, np.array([0]), out
    )
    assert np.allclose(out[:, 0], 1)
    assert (np.diff(out[:, 1]) < 0).all()
