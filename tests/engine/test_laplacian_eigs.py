"""Lowest eigenvectors of graphs that are too large for a dense solver."""

import numpy as np
import pytest

from tests.reference import eigen as reference
from tgp.engine.laplacian_eigs import DENSE_SIZE, TIE, graph_modes
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.eigen import METHOD, EigenParams
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, complete, cycle, erdos_renyi, grid2d, isolated, path, star


def modes(block, take, *, normalized=True):
    degree = np.bincount(block.rows(), block.weights_or_ones(), block.num_nodes)
    mass = degree if normalized else np.ones(block.num_nodes)
    return graph_modes((block.indptr, block.indices, block.weights_or_ones()), mass, take)


def joined(*graphs):
    """Return one graph whose components are the given graphs."""
    block = BlockCSR.concat(list(graphs))
    return BlockCSR(block.indptr, block.indices, block.weight, np.array([0, block.num_nodes]))


GRAPHS = {
    "path": path(400),
    "grid": grid2d(15, 20),
    "square": grid2d(14, 14),
    "cycle": cycle(301),
    "tree-like": barabasi_albert(300, 1, seed=1),
    "social": barabasi_albert(300, 3, seed=2),
    "random": erdos_renyi(200, 0.05, seed=4),
    "two": joined(grid2d(10, 15), path(170)),
    "uneven": joined(path(2), grid2d(30, 30), cycle(5)),
    "with isolated": joined(isolated(3), grid2d(11, 13), isolated(2)),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("normalized", [True, False])
def test_equals_the_dense_eigenvectors(name, normalized):
    graph, take = GRAPHS[name], 6
    assert graph.num_nodes > DENSE_SIZE
    rows = modes(graph, take, normalized=normalized)
    laplacian = reference.cluster_laplacian(reference.affinity(graph), normalized)
    values = np.linalg.eigvalsh(laplacian)
    assert np.allclose(rows @ rows.T, np.eye(take), atol=1e-9)
    found = np.einsum("ij,jk,ik->i", rows, laplacian, rows)
    assert np.allclose(np.sort(found), values[:take], atol=1e-6 * values[-1])
    residual = np.linalg.norm(rows @ laplacian - found[:, None] * rows, axis=1)
    assert (residual <= 2e-5 * np.maximum(found, 1e-9)).all()


@pytest.mark.parametrize("name", ["path", "grid", "two", "with isolated", "cycle", "square"])
def test_vectors_are_those_of_the_reference(name):
    """Signs and vectors of repeated eigenvalues agree, too."""
    graph, take = GRAPHS[name], 5
    laplacian = reference.cluster_laplacian(reference.affinity(graph), True)
    assert np.allclose(modes(graph, take), reference.lowest(laplacian, take, TIE).T, atol=1e-3)


def test_more_components_than_vectors():
    graph = joined(path(60), isolated(4), cycle(90))
    rows = modes(graph, 3, normalized=False)
    assert np.array_equal(
        rows[:, 60:63], np.eye(3)
    )  # the smallest components are first, in the order of their ids
    assert np.count_nonzero(rows) == 3


def test_massless_nodes_are_unit_vectors_of_value_one():
    graph = joined(complete(140), isolated(2))
    rows = modes(graph, 3)
    assert np.allclose(rows[0, :140], 140**-0.5)
    assert np.array_equal(rows[1:, 140:], np.eye(2))


@pytest.mark.parametrize("graph", [star(500), complete(150)], ids=["star", "complete"])
def test_eigenvalues_of_high_multiplicity(graph):
    rows = modes(graph, 5)
    assert np.allclose(rows @ rows.T, np.eye(5), atol=1e-9)
    laplacian = reference.cluster_laplacian(reference.affinity(graph), True)
    found = np.einsum("ij,jk,ik->i", rows, laplacian, rows)
    assert np.allclose(found, np.linalg.eigvalsh(laplacian)[:5], atol=1e-8)


def test_a_long_path_is_solved_to_its_own_scale():
    n = 20_000
    rows = modes(path(n), 3)
    degree = np.full(n, 2.0)
    degree[[0, -1]] = 1.0
    for j in (1, 2):
        wave = np.cos(j * np.pi * np.arange(n) / (n - 1)) * np.sqrt(degree)
        wave /= np.linalg.norm(wave)
        assert np.abs(np.abs(rows[j]) - np.abs(wave)).max() < 1e-3 * wave.max()


def test_results_are_equal_bit_for_bit():
    graph = GRAPHS["social"]
    assert np.array_equal(modes(graph, 6), modes(graph, 6))


def test_large_graphs_in_a_block():
    """Large and small graphs with large clusters give the same result at any position in the block."""
    params = EigenParams(3, num_modes=4)
    graphs = [path(500), cycle(12), grid2d(12, 30), star(200), isolated(150)]
    alone = [METHOD.assign(graph, params, RandomKey()) for graph in graphs]
    whole = METHOD.assign(BlockCSR.concat(graphs), params, RandomKey())
    assert np.array_equal(whole.theta, np.concatenate([a.theta for a in alone]))
    assert np.array_equal(whole.cluster, np.concatenate([a.cluster + 3 * i for i, a in enumerate(alone)]))
    assert (np.diff(alone[0].cluster) >= 0).all()  # three pieces of a path, in order
    sizes = np.bincount(alone[0].cluster)
    assert abs(sizes[0] - sizes[2]) <= 1
    for c in range(3):
        theta = alone[2].theta[alone[2].cluster == c].astype(np.float64)
        assert np.allclose(theta.T @ theta, np.eye(4), atol=1e-5)


def test_self_loops_in_large_clusters():
    """Self loops count in the mass, but not in the clusters."""
    base = grid2d(10, 30)
    loops = np.tile(np.arange(300), (2, 1))
    graph = BlockCSR.from_edge_index(np.concatenate([base.edge_index(), loops], 1), num_nodes=300)
    params = EigenParams(2, num_modes=3)
    plain, looped = (METHOD.assign(g, params, RandomKey()) for g in (base, graph))
    assert np.array_equal(plain.cluster, looped.cluster)
    assert np.allclose(looped.theta, reference.theta(graph, looped.cluster, 3, tie=TIE), atol=1e-3)
    assert not np.allclose(looped.theta, plain.theta, atol=1e-3)
