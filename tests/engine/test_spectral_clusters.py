"""Spectral clusters of graphs with many components, of large graphs, and on several threads."""

import numpy as np
import pytest

from tgp.engine import block_algebra, laplacian_eigs, spectral_clusters, threads
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods.eigen import METHOD, EigenParams
from tgp.kernels import kmeans
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, cycle, grid2d, isolated, karate, path, star


def assign(block, k, **params):
    return METHOD.assign(block, EigenParams(k, **params), RandomKey()).validate(block.node_ptr)


def joined(*graphs):
    """Return one graph whose components are the given graphs."""
    block = BlockCSR.concat(list(graphs))
    return BlockCSR(block.indptr, block.indices, block.weight, np.array([0, block.num_nodes]))


def cut_of(graph, cluster):
    return float((cluster[graph.rows()] != cluster[graph.indices]).mean())


def test_a_large_component_is_divided():
    """One large component and many small ones: old rule seven small clusters and the rest."""
    graph = joined(*[path(2)] * 12, grid2d(20, 20), *[isolated(1)] * 8)
    cluster = assign(graph, 8).cluster
    inside = np.zeros(graph.num_nodes, bool)
    inside[24:424] = True
    assert len(set(cluster[inside])) == 7
    assert len(set(cluster[~inside])) == 1
    assert not set(cluster[inside]) & set(cluster[~inside])
    assert np.bincount(cluster[inside]).max() < 120
    old = assign(graph, 8, split_components=False).cluster
    assert sorted(np.bincount(old))[:7] == [1] * 7


def test_components_share_clusters_evenly():
    cluster = assign(joined(*[cycle(5)] * 20), 8).cluster
    sizes = np.bincount(cluster)
    assert len(sizes) == 8 and sizes.max() <= 15 and sizes.min() >= 10
    assert all(len(set(cluster[i : i + 5])) == 1 for i in range(0, 100, 5))
    assert cluster[0] == 0 and (np.diff(np.unique(cluster, return_index=True)[1]) > 0).all()


@pytest.mark.parametrize(
    ("sizes", "k", "own"),
    [
        ([60, 1, 30, 1, 1], 4, [2, 0, 1, 0, 0]),
        ([1] * 10, 4, [0] * 10),
        ([100, 100, 1, 1, 1, 1], 5, [2, 2, 0, 0, 0, 0]),
        ([2, 2, 1], 2, [0, 0, 0]),
    ],
)
def test_shares_are_proportional_to_size(sizes, k, own):
    found, shared = spectral_clusters.divide_clusters(np.array(sizes), k)
    assert found.tolist() == own
    used = set(shared[shared >= 0].tolist())
    assert len(used) + found.sum() == k
    assert used == set(range(len(used)))


@pytest.mark.parametrize("components", [3, 8])
def test_graphs_with_at_most_k_components_keep_their_clusters(components):
    graph = joined(*[cycle(6 + i) for i in range(components)])
    assert np.array_equal(assign(graph, 8).cluster, assign(graph, 8, split_components=False).cluster)


GRAPHS = {"grid": grid2d(46, 50), "social": barabasi_albert(2300, 3), "star": star(2200)}


@pytest.mark.parametrize("name", GRAPHS)
def test_large_graphs_are_cut_nearly_as_well(name, monkeypatch):
    graph = GRAPHS[name]
    fast = assign(graph, 6).cluster
    assert set(fast) == set(range(6))
    monkeypatch.setattr(spectral_clusters, "LARGE_GRAPH", 10**6)
    exact = assign(graph, 6).cluster
    assert cut_of(graph, fast) <= 1.1 * cut_of(graph, exact) + 1e-3


def test_number_of_products_does_not_grow_with_the_graph(monkeypatch):
    """Rounds on the finest level, and passes of k-means over all points."""
    products, passes = [], []
    plain, cluster = block_algebra.apply_laplacian, kmeans.kmeans_large
    monkeypatch.setattr(
        block_algebra, "apply_laplacian", lambda *args: products.append(len(args[1])) or plain(*args)
    )

    def counted(*args):
        label, count = cluster(*args)
        passes.append(count)
        return label, count

    monkeypatch.setattr(kmeans, "kmeans_large", counted)
    for side in (50, 150):
        for k in (4, 12):
            products.clear()
            graph = grid2d(side, side)
            rows = graph.indptr, graph.indices, graph.weights_or_ones()
            spectral_clusters.spectral_labels(rows, graph.node_ptr, k)
            assert products.count(side * side) <= laplacian_eigs.CLUSTERING.rounds + 1
    assert max(passes) <= kmeans.FEW_ROUNDS
    assert len(passes) == 4


def test_large_sample_leaves_no_cluster_empty():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(5000, 3)), np.full((1, 3), 50.0)])
    label, _ = kmeans.kmeans_large(points, 5, 0, 0, 3, 100)
    assert set(label) == set(range(5))
    same, _ = kmeans.kmeans_large(np.zeros((3000, 3)), 5, 0, 0, 3, 100)
    assert set(same) == set(range(5))
    assert (np.diff(np.unique(label, return_index=True)[1]) > 0).all()


def test_threads_do_not_change_the_result(monkeypatch):
    graphs = [karate(), path(30), star(12), cycle(9), isolated(11), grid2d(12, 12)] * 3
    block = BlockCSR.concat(graphs)
    alone = assign(block, 4)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    several = assign(block, 4)
    assert np.array_equal(several.cluster, alone.cluster)
    assert np.array_equal(several.theta, alone.theta)


def test_bound_grows_with_k():
    sizes = GraphSizes(
        np.array([3, 100, 1500, 50_000]), np.array([4, 400, 6000, 200_000]), np.array([2, 8, 8, 8])
    )
    few, many = METHOD.bound(sizes, EigenParams(8)), METHOD.bound(sizes, EigenParams(64))
    assert (many.seconds >= few.seconds).all() and (many.memory > few.memory).all()
    assert few.nodes.tolist() == [8] * 4 and few.edges.tolist() == [4, 64, 64, 64]
