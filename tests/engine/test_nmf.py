"""NMF as a level method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import nmf as reference
from tgp.engine import threads
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods.nmf import METHOD, NMFParams
from tgp.errors import ParameterError
from tgp.kernels import nmf
from tgp.ragged import BlockCSR
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    grid2d,
    isolated,
    karate,
    path,
    single_node,
    star,
)
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
    "params",
    [{"k": 0}, {"k": 2.5}, {"k": True}, {"k": 3, "tol": -1}, {"k": 3, "max_sweeps": 0}, {"k": 3, "gain": 1}],
)
def test_wrong_parameters_raise(params):
    with pytest.raises(ParameterError):
        NMFParams(**params)


def test_cost_grows_with_size():
    nodes, edges = np.array([0, 5, 50, 5000]), np.array([0, 10, 100, 10000])
    assert (np.diff(METHOD.cost(nodes, edges, NMFParams(8))) > 0).all()


def hubs(count, leaves):
    """Return a cycle of hubs with leaves."""
    hub = np.arange(count) * (leaves + 1)
    ring = np.stack([hub, np.roll(hub, 1)])
    spokes = np.stack([np.repeat(hub, leaves), (hub[:, None] + np.arange(1, leaves + 1)).ravel()])
    edges = np.concatenate([ring, spokes], 1)
    return BlockCSR.from_edge_index(np.concatenate([edges, edges[::-1]], 1), num_nodes=count * (leaves + 1))


LARGE = {"grid": grid2d(50, 60), "social": barabasi_albert(2500, 3), "hubs": hubs(25, 100)}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("k", [4, 16])
def test_large_graphs_do_not_use_all_sweeps(name, k, monkeypatch):
    """The number of sweeps that ``gain`` allows is small, and what they explain is close to the result of all sweeps."""
    sweeps = []
    plain = nmf.nmf_rows
    monkeypatch.setattr(nmf, "nmf_rows", lambda *args: sweeps.append(plain(*args)) or sweeps[-1])
    soft_of(LARGE[name], k)
    soft_of(LARGE[name], k, gain=0.0, max_sweeps=300)
    assert 10 <= sweeps[0] <= 150
    assert sweeps[0] <= sweeps[1]


def test_gain_ends_the_sweeps_when_the_second_half_explains_little(monkeypatch):
    seen = []
    plain = nmf.nmf_rows
    monkeypatch.setattr(nmf, "nmf_rows", lambda *args: seen.append(plain(*args)) or seen[-1])
    for gain in (0.001, 0.01, 0.05):
        soft_of(LARGE["grid"], 4, gain=gain, tol=0.0)
    assert seen[0] > seen[1] > seen[2] == nmf.LEAST_SWEEPS
    monkeypatch.undo()
    small = soft_of(grid2d(40, 50), 4, max_sweeps=60), soft_of(grid2d(40, 50), 4, max_sweeps=60, gain=0.5)
    assert np.array_equal(*small)  # up to 2,000 nodes


def test_large_graph_in_a_block():
    directed = BlockCSR.from_edge_index(grid2d(45, 50).edge_index()[:, ::2], num_nodes=2250)
    graphs = [karate(), directed, isolated(2100), star(30)]
    whole = soft_of(BlockCSR.concat(graphs), 4)
    assert np.array_equal(whole, np.concatenate([soft_of(graph, 4) for graph in graphs]))
    assert (soft_of(isolated(2100), 4) == 0.25).all()


def test_threads_do_not_change_the_result(monkeypatch):
    block = BlockCSR.concat([karate(), path(30), star(12), complete(9)] * 5)
    alone = soft_of(block, 4)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    assert np.array_equal(soft_of(block, 4), alone)


def test_bound_covers_the_work_of_a_large_k():
    sizes = GraphSizes(np.array([3, 5000]), np.array([4, 20000]), np.array([2, 8]))
    few, many = METHOD.bound(sizes, NMFParams(8)), METHOD.bound(sizes, NMFParams(64))
    assert (many.seconds >= few.seconds).all() and (many.memory > few.memory).all()
    assert few.nodes.tolist() == [8, 8] and few.edges.tolist() == [64, 64]
