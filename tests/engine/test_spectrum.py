"""Eigenvalues of graphs and their errors, compared with closed forms and dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import spectral as reference
from tgp.engine import spectrum
from tgp.engine.spectrum import Spectrum, eigenvalue_errors, graph_spectrum
from tgp.errors import InputError


def both_ways(pairs):
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.concatenate([edges, edges[::-1]], axis=1)


def path(n):
    return both_ways([(i, i + 1) for i in range(n - 1)])


def grid(rows, columns):
    at = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    down = np.stack([at[:-1].ravel(), at[1:].ravel()])
    return both_ways(np.concatenate([right, down], axis=1).T)


def one(edges, n, modes=4, weight=None):
    return graph_spectrum(edges, weight, np.array([0, n]), modes)


@pytest.mark.parametrize("n", [2, 3, 5, 40, spectrum.MAX_DENSE_SIZE + 1, 2000])
def test_paths_have_cosines(n):
    found = one(path(n), n)
    expected = 1 - np.cos(np.pi * np.arange(1, min(5, n)) / (n - 1))
    assert found.zeros.tolist() == [1]
    assert np.allclose(found.values[0, : len(expected)], expected, rtol=1e-7, atol=0)
    assert np.isnan(found.values[0, len(expected) :]).all()


def test_cycles_and_complete_graphs():
    cycle = both_ways([(i, (i + 1) % 6) for i in range(6)])
    assert np.allclose(one(cycle, 6).values, [[0.5, 0.5, 1.5, 1.5]])
    complete = both_ways([(i, j) for i in range(5) for j in range(i)])
    assert np.allclose(one(complete, 5).values, 1.25)


def test_the_iterative_solver_agrees_with_the_dense_one(monkeypatch):
    edges = grid(20, 14)
    dense = one(edges, 280, 6).values
    monkeypatch.setattr(spectrum, "MAX_DENSE_SIZE", 100)
    assert np.allclose(one(edges, 280, 6).values, dense, rtol=1e-7)


def test_components_zeros_and_isolated_nodes():
    edges = np.concatenate([path(4), path(3) + 4], axis=1)
    found = one(edges, 9, 8)
    assert found.zeros.tolist() == [4]
    expected = np.sort(
        [*(1 - np.cos(np.pi * np.arange(1, 4) / 3)), *(1 - np.cos(np.pi * np.arange(1, 3) / 2))]
    )
    assert np.allclose(found.values[0, :5], expected) and np.isnan(found.values[0, 5:]).all()
    nothing = graph_spectrum(np.zeros((2, 0), np.int64), None, np.array([0, 0, 3]), 2)
    assert nothing.zeros.tolist() == [0, 3] and np.isnan(nothing.values).all()


def test_self_loops_decrease_eigenvalues():
    loops = np.concatenate([path(2), [[0, 1], [0, 1]]], axis=1)
    assert np.allclose(one(path(2), 2, 1).values, 2.0)
    assert np.allclose(one(loops, 2, 1).values, 1.0)


@st.composite
def blocks(draw):
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    ptr = np.append(0, np.cumsum(sizes))
    edges, weights = [], []
    for low, n in zip(ptr[:-1], sizes, strict=True):
        for _ in range(draw(st.integers(0, 14)) if n else 0):
            edges.append((low + draw(st.integers(0, n - 1)), low + draw(st.integers(0, n - 1))))
            weights.append(draw(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0])))
    weighted = draw(st.booleans())
    return np.array(edges, np.int64).reshape(-1, 2).T, np.array(weights) if weighted else None, ptr


def cut(block, g):
    edges, weight, ptr = block
    inside = (edges[0] >= ptr[g]) & (edges[0] < ptr[g + 1])
    return edges[:, inside] - ptr[g], None if weight is None else weight[inside], int(ptr[g + 1] - ptr[g])


@settings(max_examples=60, deadline=None)
@given(blocks(), blocks(), st.integers(1, 6))
def test_blocks_agree_with_dense_matrices(fine, coarse, modes):
    graphs = min(len(fine[2]), len(coarse[2])) - 1
    old, new = graph_spectrum(*fine, modes), graph_spectrum(*coarse, modes)
    found = eigenvalue_errors(
        Spectrum(old.zeros[:graphs], old.values[:graphs]), Spectrum(new.zeros[:graphs], new.values[:graphs])
    )
    for g in range(graphs):
        a, b = reference.modes(*cut(fine, g), modes), reference.modes(*cut(coarse, g), modes)
        assert (old.zeros[g], new.zeros[g]) == (a[0], b[0])
        assert np.allclose(old.values[g, : len(a[1])], a[1], atol=1e-9)
        assert np.isclose(found["eigenvalue_error"][g], reference.error(a, b), equal_nan=True)
        assert np.isclose(found["eigenvalue_error_scaled"][g], reference.scaled_error(a, b), equal_nan=True)


def test_errors_of_small_spectra():
    fine = Spectrum(
        np.array([1, 1, 1]), np.array([[0.1, 0.2, 0.4], [0.1, 0.2, np.nan], [0.5, np.nan, np.nan]])
    )
    coarse = Spectrum(np.array([1, 2, 1]), np.array([[0.2, 0.4, 0.8], [0.3, 0.5, 0.6], [np.nan] * 3]))
    found = eigenvalue_errors(fine, coarse)
    # First graph: values twice as large. Second: two components, so that 0 and 0.3 are compared with 0.1 and 0.2.
    # Third: no mode to compare.
    assert np.allclose(found["eigenvalue_error"], [1.0, (1 + 0.5) / 2, np.nan], equal_nan=True)
    assert np.allclose(found["eigenvalue_error_scaled"], [0.0, 0.5, np.nan], equal_nan=True)


def test_a_hundred_thousand_nodes():
    edges = grid(400, 250)
    found = one(edges, 100_000, 3).values[0]
    # Close to the modes (1, 0), (0, 1), (1, 1) of the continuous rectangle.
    long, wide = np.pi**2 / 4 / 400**2, np.pi**2 / 4 / 250**2
    assert np.allclose(found, [long, wide, long + wide], rtol=0.01)


@pytest.mark.parametrize("weight", [np.nan, np.inf, 1.5e308])
def test_weights_that_are_not_finite(weight):
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.raises(InputError, match="finite edge weights"):
        graph_spectrum(edges, np.full(4, weight), np.array([0, 3]), 2)
