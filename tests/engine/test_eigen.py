"""EigenPool as a level method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import eigen as reference
from tests.reference.nmf import adjacency
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.eigen import METHOD, EigenParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import (
    cycle,
    disconnected,
    grid2d,
    isolated,
    karate,
    path,
    self_loop,
    single_node,
    star,
    toy_block,
)
from tgp.testing.strategies import blocks


def assign(block, k, *, seed=0, level=0, **params):
    return METHOD.assign(block, EigenParams(k, **params), RandomKey(seed, level)).validate(block.node_ptr)


def parts(block, array):
    return [array[block.node_ptr[g] : block.node_ptr[g + 1]] for g in range(block.num_graphs)]


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(1, 5), st.integers(0, 2**40), st.integers(0, 2), st.booleans())
def test_clusters_equal_the_reference(block, k, seed, level, split):
    assignment = assign(block, k, seed=seed, level=level, restarts=3, split_components=split)
    assert assignment.kind == "onehot"
    assert np.array_equal(assignment.super_ptr, np.arange(block.num_graphs + 1) * k)
    for g, (graph, cluster) in enumerate(zip(block.split(), parts(block, assignment.cluster), strict=True)):
        assert np.array_equal(
            cluster - g * k, reference.labels(graph, k, seed, level, restarts=3, split=split)
        )


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_modes_equal_the_reference(block, k, num_modes, normalized):
    assignment = assign(block, k, num_modes=num_modes, normalized=normalized)
    assert assignment.theta.dtype == np.float32
    assert assignment.theta.shape == (block.num_nodes, num_modes)
    theta, cluster = parts(block, assignment.theta), parts(block, assignment.cluster)
    for g, graph in enumerate(block.split()):
        expected = reference.theta(graph, cluster[g], num_modes, normalized)
        assert np.allclose(theta[g], expected, atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.integers(1, 4), st.integers(1, 12))
def test_modes_are_orthonormal_and_padded_with_zeros(block, k, num_modes):
    assignment = assign(block, k, num_modes=num_modes)
    for c in np.unique(assignment.cluster):
        theta = assignment.theta[assignment.cluster == c].astype(np.float64)
        kept = min(len(theta), num_modes)
        assert np.allclose(theta.T @ theta, np.diag([1.0] * kept + [0.0] * (num_modes - kept)), atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.integers(1, 4), st.booleans(), st.booleans())
def test_coarse_graph_equals_the_reference(block, k, degree_norm, edge_weight_norm):
    params = EigenParams(k, degree_norm=degree_norm, edge_weight_norm=edge_weight_norm)
    assignment = METHOD.assign(block, params, RandomKey())
    pooled = METHOD.connect(block, assignment, params).validate()
    assert np.array_equal(pooled.node_ptr, assignment.super_ptr)
    assert (pooled.rows() != pooled.indices).all()
    if degree_norm or edge_weight_norm:
        return
    for g, (graph, coarse) in enumerate(zip(block.split(), pooled.split(), strict=True)):
        label = parts(block, assignment.cluster)[g] - g * k
        assert np.allclose(adjacency(coarse), reference.coarse(graph, label, k), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(blocks(min_graphs=2), st.integers(2, 4), st.integers(0, 5))
def test_block_equals_graphs_in_any_order(block, k, seed):
    order = np.arange(block.num_graphs)[::-1]
    turned = coarsen(block.take(order), f"eigen:k={k}", seed).levels[0]
    alone = [coarsen(graph, f"eigen:k={k}", seed).levels[0] for graph in block.split()]
    expected = [alone[g].assignment for g in order]
    shift = [np.full(len(a.cluster), i * k) for i, a in enumerate(expected)]
    assert np.array_equal(
        turned.assignment.cluster,
        np.concatenate([a.cluster + s for a, s in zip(expected, shift, strict=True)]),
    )
    assert np.array_equal(turned.assignment.theta, np.concatenate([a.theta for a in expected]))
    whole = BlockCSR.concat([alone[g].block for g in order])
    assert np.array_equal(turned.block.indices, whole.indices)
    assert np.array_equal(turned.block.weight, whole.weight)


def test_golden_path_of_six():
    """The values are those of tgp 1.0.2, except that the largest entry of the third mode is positive and there is no fourth mode."""
    assignment = assign(path(6), 2, num_modes=4)
    assert assignment.cluster.tolist() == [0, 0, 0, 1, 1, 1]
    half, root = 0.5, np.sqrt(0.5)
    modes = np.array([[half, root, -half, 0], [root, 0, root, 0], [half, -root, -half, 0]])
    assert np.allclose(assignment.theta, np.tile(modes, (2, 1)), atol=1e-7)
    assert assignment.theta[1, 1] == 0


def test_golden_path_of_three_keeps_its_features():
    """A single node keeps its features in the first mode. tgp 1.0.2 returns zeros."""
    assignment = assign(path(3), 3)
    assert assignment.cluster.tolist() == [0, 1, 2]
    assert np.array_equal(assignment.theta, np.eye(5, dtype=np.float32)[[0, 0, 0]])


def test_second_level_with_the_same_k_loses_nothing():
    first, second = coarsen(BlockCSR.concat([karate(), path(2)]), "eigen:k=4*2").validate().levels
    assert second.assignment.cluster.tolist() == list(range(8))
    assert (second.assignment.theta[:, 0] == 1).all()
    assert np.array_equal(first.block.indices, second.block.indices)


def test_all_modes_lift_exactly():
    """The sum of theta theta^T over all modes is the identity if every eigenvector is kept."""
    block = toy_block(weighted=True)
    assignment = assign(block, 3, num_modes=40)
    theta = assignment.theta.astype(np.float64)
    same = assignment.cluster[:, None] == assignment.cluster
    assert np.allclose(np.where(same, theta @ theta.T, 0), np.eye(block.num_nodes), atol=1e-5)


def test_clusters_of_known_graphs():
    assert assign(disconnected(), 2).cluster[:3].tolist() == [0, 0, 0]
    two = BlockCSR.from_edge_index([[0, 1, 3, 4], [1, 2, 4, 5]], num_nodes=6)  # directed, two components
    assert assign(two, 2).cluster.tolist() == [0, 0, 0, 1, 1, 1]
    label = assign(grid2d(2, 8), 2).cluster.reshape(2, 8)
    assert label.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]] * 2


def test_clusters_depend_on_weights():
    weight = np.array([9.0, 0.1, 9.0, 0.1, 9.0])
    edges = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    graph = BlockCSR.from_edge_index(np.concatenate([edges, edges[::-1]], 1), np.tile(weight, 2), num_nodes=6)
    assert assign(graph, 3).cluster.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "graph", [isolated(0), isolated(7), single_node(), self_loop(), star(8), cycle(9)], ids=repr
)
@pytest.mark.parametrize("k", [1, 3])
def test_no_cluster_is_empty_in_unusual_graphs(graph, k):
    assignment = assign(graph, k)
    assert len(set(assignment.cluster)) == min(k, graph.num_nodes)
    assert np.isfinite(assignment.theta).all()
    assert METHOD.connect(graph, assignment, EigenParams(k)).num_nodes == k


def test_edgeless_modes_are_unit_vectors():
    assert np.array_equal(assign(isolated(3), 1).theta, np.eye(5, dtype=np.float32)[:3])


def test_unweighted_edges_are_counted():
    graph = BlockCSR.from_edge_index(grid2d(2, 8).edge_index(), num_nodes=16)
    block = coarsen(graph, "eigen:k=2:degree_norm=false").levels[0].block
    assert block.weight.tolist() == [2.0, 2.0]


def test_seed_and_level_change_ambiguous_clusters_only():
    assert np.array_equal(assign(path(6), 2).cluster, assign(path(6), 2, seed=7, level=3).cluster)


@pytest.mark.parametrize(
    "params", [{"k": 0}, {"k": "3"}, {"k": 3, "num_modes": 0}, {"k": 3, "restarts": True}]
)
def test_wrong_parameters_raise(params):
    with pytest.raises(ParameterError):
        EigenParams(**params)


def test_cost_grows_with_size():
    nodes, edges = np.array([0, 5, 50, 5000]), np.array([0, 10, 100, 10000])
    assert (np.diff(METHOD.cost(nodes, edges, EigenParams(8))) > 0).all()
