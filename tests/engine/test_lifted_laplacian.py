"""Errors of the literature on graph reduction, compared with dense matrices and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import lifted as reference
from tests.reference import spectral
from tgp.engine import lifted_laplacian, spectrum
from tgp.engine.lifted_laplacian import (
    Clusters,
    hyperbolic_errors,
    reconstruction_errors,
    restricted_approximations,
)
from tgp.engine.spectrum import eigenvalue_errors, graph_spectrum, highest_error, undirected


def both_ways(pairs):
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.concatenate([edges, edges[::-1]], axis=1)


@st.composite
def partitioned(draw):
    """A connected or disconnected weighted graph, clusters inside its components, and signals."""
    n = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(0, 3 * n))
    edges = rng.integers(0, n, (2, count))
    weight = rng.uniform(0.5, 3.0, count) if draw(st.booleans()) else None
    laplacian = reference.laplacian(edges, weight, n)
    cluster = np.arange(n)
    for _ in range(draw(st.integers(0, n))):  # merge two neighbours
        a, b = rng.integers(0, n, 2)
        if laplacian[a, b] < 0:
            cluster[cluster == cluster[b]] = cluster[a]
    cluster = np.unique(cluster, return_inverse=True)[1]
    return edges, weight, n, cluster, rng.normal(size=(n, 3))


@settings(deadline=None, max_examples=80)
@given(st.lists(partitioned(), min_size=1, max_size=4), st.integers(1, 5))
def test_errors_equal_dense_matrices(graphs, modes):
    node_ptr = np.cumsum([0, *(g[2] for g in graphs)])
    super_ptr = np.cumsum([0, *(g[3].max() + 1 for g in graphs)])
    edges = np.concatenate([g[0] + start for g, start in zip(graphs, node_ptr, strict=False)], axis=1)
    weight = np.concatenate([np.ones(g[0].shape[1]) if g[1] is None else g[1] for g in graphs])
    cluster = np.concatenate([g[3] + start for g, start in zip(graphs, super_ptr, strict=False)])
    signals = np.concatenate([g[4] for g in graphs])
    adjacency = undirected(edges, weight, int(node_ptr[-1]))
    partition = Clusters(cluster, int(super_ptr[-1]))
    identity = Clusters(np.arange(node_ptr[-1]), int(node_ptr[-1]))
    fine = graph_spectrum(edges, weight, node_ptr, modes, mass=np.ones(node_ptr[-1]), highest=True)
    sized = graph_spectrum(cluster[edges], weight, super_ptr, modes, mass=partition.sizes(), highest=True)
    low, high = eigenvalue_errors(fine, sized)["eigenvalue_error"], highest_error(fine, sized)
    reconstruction, without = reconstruction_errors(adjacency, node_ptr, partition)
    hyperbolic, zero = hyperbolic_errors(adjacency, node_ptr, [partition, identity], signals)
    approximation, exact = restricted_approximations(adjacency, node_ptr, [partition, identity], fine)
    for g, (own, w, n, inner, x) in enumerate(graphs):
        matrix, count = reference.laplacian(own, w, n), int(inner.max()) + 1
        c = reference.scaled_indicator(inner, count)
        zeros = reference.num_components(matrix)
        old = reference.lowest(matrix, zeros, modes)
        new = reference.lowest(c.T @ matrix @ c, zeros, modes)
        expected = {
            "low": (low[g], spectral.error(old, new)),
            "high": (high[g], reference.highest_error(matrix, c.T @ matrix @ c, modes, (zeros, zeros))),
            "reconstruction": (reconstruction[g], reference.reconstruction(matrix, inner, count)),
            "identity": (without[g], reference.hyperbolic(matrix, inner, count, np.eye(n))),
            "hyperbolic": (hyperbolic[g], reference.hyperbolic(matrix, inner, count, x)),
            "approximation": (approximation[g], reference.approximation(matrix, inner, count, modes)),
        }
        for name, (found, value) in expected.items():
            assert np.isclose(found, value, rtol=1e-5, atol=1e-6, equal_nan=True), name
    assert np.allclose(zero[np.isfinite(zero)], 0, atol=1e-6)
    assert np.allclose(exact[np.isfinite(exact)], 0, atol=1e-6)


def test_closed_form_of_a_pair():
    """A path of three nodes whose first two are merged: L_c = [[1/2, -1/sqrt 2], [-1/sqrt 2, 1]]."""
    edges, ptr = both_ways([(0, 1), (1, 2)]), np.array([0, 3])
    partition = Clusters(np.array([0, 0, 1]), 2)
    adjacency = undirected(edges, None, 3)
    error, distance = reconstruction_errors(adjacency, ptr, partition)
    assert error[0] == pytest.approx((1 + 4 + 1 + 4) - (0.25 + 0.5 + 0.5 + 1))
    assert distance[0] == pytest.approx(np.arccosh(1 + 7.75 * 3 / (2 * 4 * 1.5)))
    sized = graph_spectrum(partition.cluster[edges], None, np.array([0, 2]), 2, mass=partition.sizes())
    assert sized.values[0, 0] == pytest.approx(1.5)


def test_undefined_values():
    edges, ptr = both_ways([(0, 1), (2, 3)]), np.array([0, 4])
    adjacency = undirected(edges, None, 4)
    fine = graph_spectrum(edges, None, ptr, 2, mass=np.ones(4), highest=True)
    dropped, joined = Clusters(np.array([0, 0, 1, -1]), 2), Clusters(np.array([0, 1, 0, 1]), 2)
    x = np.arange(4.0)[:, None]
    assert np.isnan(reconstruction_errors(adjacency, ptr, dropped)).all()
    assert np.isnan(hyperbolic_errors(adjacency, ptr, [dropped], x)).all()
    assert np.isnan(restricted_approximations(adjacency, ptr, [dropped, joined], fine)).all()
    everything = Clusters(np.array([0, 0, 1, 1]), 2)  # the lifted Laplacian is 0
    assert np.isnan(hyperbolic_errors(adjacency, ptr, [everything], x)).all()
    assert restricted_approximations(adjacency, ptr, [everything], fine)[0][0] == pytest.approx(1.0)


def test_large_components_agree_with_dense_ones(monkeypatch):
    rng = np.random.default_rng(3)
    n = 240
    edges = both_ways([*zip(range(n - 1), range(1, n), strict=True), *rng.integers(0, n, (300, 2)).tolist()])
    ptr, cluster = np.array([0, n]), np.arange(n) // 3
    adjacency, partition = undirected(edges, None, n), Clusters(cluster, n // 3)

    def measure():
        fine = graph_spectrum(edges, None, ptr, 5, mass=np.ones(n), highest=True)
        coarse = graph_spectrum(
            cluster[edges], None, np.array([0, n // 3]), 5, mass=partition.sizes(), highest=True
        )
        return [
            *eigenvalue_errors(fine, coarse)["eigenvalue_error"],
            *highest_error(fine, coarse),
            *restricted_approximations(adjacency, ptr, [partition], fine)[0],
        ]

    dense = measure()
    monkeypatch.setattr(spectrum, "MAX_DENSE_SIZE", 50)
    assert np.allclose(measure(), dense, rtol=5e-3)
    monkeypatch.setattr(spectrum, "LANCZOS_RESTARTS", 1)
    monkeypatch.setattr(spectrum, "LANCZOS_TOLERANCE", 1e-14)
    found = measure()
    assert np.isnan(found[1]) and np.isfinite(found[0])  # without convergence there is no figure


def test_columns_are_processed_in_groups(monkeypatch):
    rng = np.random.default_rng(0)
    edges, ptr = both_ways([(i, i + 1) for i in range(9)]), np.array([0, 10])
    partition, x = Clusters(np.arange(10) // 2, 5), rng.normal(size=(10, 7))
    whole = hyperbolic_errors(undirected(edges, None, 10), ptr, [partition], x)[0]
    monkeypatch.setattr(lifted_laplacian, "COLUMNS_AT_ONCE", 2)
    assert np.allclose(hyperbolic_errors(undirected(edges, None, 10), ptr, [partition], x)[0], whole)
