"""NMF as a level method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import nmf as reference
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.nmf import METHOD, NMFParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import complete, isolated, karate, path, single_node, star
from tgp.testing.strategies import blocks


def soft_of(block, k, **params):
    return METHOD.assign(block, NMFParams(k, **params), RandomKey()).validate(block.node_ptr).soft


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(1, 12))
def test_rows_sum_to_one_and_padding_is_zero(block, k):
    assignment = METHOD.assign(block, NMFParams(k, max_sweeps=30), RandomKey())
    assignment.validate(block.node_ptr)
    assert assignment.soft.dtype == np.float32
    assert assignment.num_supernodes == k * block.num_graphs
    assert np.allclose(assignment.soft.sum(1), 1, atol=1e-5)
    for g, n in enumerate(np.diff(block.node_ptr)):
        rows = assignment.soft[block.node_ptr[g] : block.node_ptr[g + 1]]
        assert (rows[:, max(1, min(k, n)) :] == 0).all()
    METHOD.connect(block, assignment, NMFParams(k)).validate()


@settings(max_examples=40, deadline=None)
@given(blocks(max_nodes=8), st.integers(2, 4))
def test_equals_the_reference(block, k):
    """Parallel edges are added up before ``max(A, 0)``, also with negative weights."""
    soft = soft_of(block, k, tol=0.0, max_sweeps=5)
    for g, graph in enumerate(block.split()):
        expected = reference.soft_clusters(reference.adjacency(graph), k, tol=0.0, max_sweeps=5)
        assert np.allclose(soft[block.node_ptr[g] : block.node_ptr[g + 1]], expected, atol=2e-5)


@settings(max_examples=25, deadline=None)
@given(blocks(min_graphs=2), st.integers(2, 5), st.integers(0, 5))
def test_block_equals_graphs_in_any_order(block, k, seed):
    order = np.arange(block.num_graphs)[::-1]
    schedule = f"nmf:k={k}:max_sweeps=20"
    turned = coarsen(block.take(order), schedule, seed).levels[0]
    alone = [coarsen(graph, schedule, seed).levels[0] for graph in block.split()]
    assert np.array_equal(turned.assignment.soft, np.concatenate([alone[g].assignment.soft for g in order]))
    whole = BlockCSR.concat([alone[g].block for g in order])
    assert np.array_equal(turned.block.indices, whole.indices)
    assert np.array_equal(turned.block.weight, whole.weight)


def test_golden_edgeless():
    assert (soft_of(isolated(5), 2) == 0.5).all()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_golden_small_graph_keeps_its_nodes(n):
    assert np.array_equal(soft_of(complete(n), 4), np.eye(4, dtype=np.float32)[:n])


def test_special_cases():
    assert np.array_equal(soft_of(single_node(), 3), [[1, 0, 0]])
    assert np.array_equal(soft_of(path(5), 1), np.ones((5, 1)))
    assert soft_of(isolated(0), 3).shape == (0, 3)
    with_isolated = BlockCSR.from_edge_index(path(5).edge_index(), num_nodes=6)
    assert np.allclose(soft_of(with_isolated, 3)[5], 1 / 3)


def test_a_hub_has_a_component_of_its_own():
    soft = soft_of(star(200), 2)
    assert soft[0].max() > 0.99
    assert (soft[1:].argmax(1) != soft[0].argmax()).all()


def test_clusters_of_large_graphs_stay_distinct():
    """With unit norm over the nodes every row would tend to 1/k in large graphs. Mean square 1 avoids this."""
    small, large = soft_of(path(20), 2), soft_of(path(2000), 2)
    assert large.max(1).mean() > 0.9 * small.max(1).mean() > 0.6


def test_second_level_with_the_same_k_is_the_identity():
    hierarchy = coarsen(BlockCSR.concat([karate(), path(3)]), "nmf:k=4*2").validate()
    first, second = hierarchy.levels
    assert np.array_equal(second.assignment.soft, np.tile(np.eye(4, dtype=np.float32), (2, 1)))
    assert np.array_equal(first.block.indices, second.block.indices)


def test_coarse_graph_of_karate():
    level = coarsen(karate(), "nmf:k=4").levels[0]
    expected = reference.coarse(reference.adjacency(karate()), level.assignment.soft.astype(np.float64))
    assert np.allclose(reference.adjacency(level.block), expected, atol=1e-6)
    raw = coarsen(karate(), "nmf:k=4:degree_norm=false:remove_self_loops=false").levels[0].block
    assert raw.weight.sum() == pytest.approx(156, abs=1e-3)  # the weight of all edges


@pytest.mark.parametrize(
    "params", [{"k": 0}, {"k": 2.5}, {"k": True}, {"k": 3, "tol": -1}, {"k": 3, "max_sweeps": 0}]
)
def test_wrong_parameters_raise(params):
    with pytest.raises(ParameterError):
        NMFParams(**params)


def test_cost_grows_with_size():
    nodes, edges = np.array([0, 5, 50, 5000]), np.array([0, 10, 100, 10000])
    assert (np.diff(METHOD.cost(nodes, edges, NMFParams(8))) > 0).all()
