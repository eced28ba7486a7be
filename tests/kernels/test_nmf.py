"""The factorization kernel compared with the dense reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import nmf as reference
from tgp.kernels import csr, nmf
from tgp.ragged import BlockCSR
from tgp.testing.graphs import cycle, erdos_renyi, karate, path
from tgp.testing.strategies import blocks


def run(block, k, *, seed=0, level=0, tol=1e-3, max_sweeps=1000):
    soft = np.zeros((block.num_nodes, k), np.float32)
    graphs = np.flatnonzero(np.diff(block.node_ptr) > k)
    sweeps = nmf.nmf_soft(
        block.indptr,
        block.indices,
        block.weights_or_ones(),
        block.node_ptr,
        graphs,
        k,
        seed,
        level,
        tol,
        max_sweeps,
        soft,
    )
    return soft, sweeps


@settings(max_examples=50, deadline=None)
@given(blocks(negative=False, max_nodes=12), st.integers(2, 6), st.integers(0, 3), st.integers(0, 2))
def test_equals_the_reference(block, k, seed, level):
    soft, _ = run(block, k, seed=seed, level=level, tol=0.0, max_sweeps=8)
    for g, graph in enumerate(block.split()):
        if graph.num_nodes > k:
            expected = reference.soft_clusters(reference.adjacency(graph), k, seed, level, 0.0, 8)
            assert np.allclose(soft[block.node_ptr[g] : block.node_ptr[g + 1]], expected, atol=2e-5)


@pytest.mark.parametrize("k", [2, 3, 5, 8, 9])
def test_equals_the_reference_on_more_than_one_tile(k):
    graph = erdos_renyi(70, 0.1, seed=3)
    soft, sweeps = run(graph, k, tol=1e-2)
    expected = reference.soft_clusters(reference.adjacency(graph), k, tol=1e-2)
    assert np.allclose(soft, expected, atol=1e-4)
    assert 1 < sweeps[0] < 1000


@settings(max_examples=30, deadline=None)
@given(blocks(negative=False, min_graphs=1, max_graphs=1, max_nodes=12), st.integers(2, 6), st.integers(1, 9))
def test_rows_of_large_graphs_equal_the_reference(block, k, sweeps):
    """The path of large graphs has the same start and the same updates."""
    matrix = reference.adjacency(block)
    if block.num_nodes <= k or matrix.sum() == 0:
        return
    soft = np.zeros((block.num_nodes, k), np.float32)
    rows = block.indptr, block.indices, block.weights_or_ones()
    done = nmf.nmf_rows(rows, csr.transpose(*rows, True), k, 3, 1, 0.0, sweeps, 0.0, soft)
    assert 1 <= done <= sweeps  # fewer if nothing moves
    assert np.allclose(soft, reference.soft_clusters(matrix, k, 3, 1, 0.0, sweeps), atol=2e-5)


@settings(max_examples=30, deadline=None)
@given(blocks(negative=False, min_graphs=1, max_graphs=1, min_nodes=4), st.integers(2, 3))
def test_residual_never_grows(block, k):
    matrix = reference.adjacency(block)
    if matrix.sum() == 0:
        return
    _, _, residuals = reference.factorise(matrix, k, max_sweeps=15)
    assert (np.diff(residuals) <= 1e-9 * max(residuals[0], 1)).all()


def test_iteration_stops_at_the_tolerance_and_at_the_largest_number_of_sweeps():
    _, loose = run(karate(), 4, tol=1e-1)
    _, tight = run(karate(), 4, tol=1e-5, max_sweeps=100_000)
    _, capped = run(karate(), 4, tol=1e-5, max_sweeps=3)
    assert loose[0] < tight[0]
    assert capped[0] == 3


def test_iteration_converges_to_a_stationary_point():
    graph = karate()
    matrix = reference.adjacency(graph)
    w, h, _ = reference.factorise(matrix, 3, tol=1e-6, max_sweeps=5000)
    gradient = h @ (w.T @ w) - matrix.T @ w
    assert np.abs(np.where(h > 0, gradient, np.minimum(gradient, 0))).max() < 1e-3
    soft, _ = run(graph, 3, tol=1e-6, max_sweeps=5000)
    expected = reference.soft_clusters(matrix, 3, tol=1e-6, max_sweeps=5000)
    assert np.allclose(soft, expected, atol=1e-3)


def test_neighbours_in_a_path_have_different_clusters():
    """Factors approximate the pattern of neighbours, so adjacent nodes get different clusters."""
    soft, _ = run(path(6), 2)
    label = soft.argmax(1)
    assert (label[:-1] != label[1:]).all()


def test_scaled_graph_has_the_same_clusters():
    graph = erdos_renyi(20, 0.3, seed=1)
    scaled = BlockCSR(graph.indptr, graph.indices, np.full(graph.num_edges, 64.0), graph.node_ptr)
    assert np.allclose(run(graph, 4)[0], run(scaled, 4)[0], atol=1e-5)


def test_result_does_not_depend_on_the_position_in_the_block():
    parts = [cycle(9), karate(), path(1), erdos_renyi(40, 0.2, seed=5), path(12)]
    order = [3, 0, 4, 2, 1]
    whole, _ = run(BlockCSR.concat(parts), 4)
    moved, _ = run(BlockCSR.concat([parts[i] for i in order]), 4)
    ptr = BlockCSR.concat(parts).node_ptr
    assert np.array_equal(moved, np.concatenate([whole[ptr[i] : ptr[i + 1]] for i in order]))


def test_seed_and_level_change_the_result():
    first = run(karate(), 4)[0]
    assert not np.array_equal(first, run(karate(), 4, seed=1)[0])
    assert not np.array_equal(first, run(karate(), 4, level=1)[0])
