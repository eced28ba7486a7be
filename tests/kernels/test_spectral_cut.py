"""Spectral cuts: sides of small graphs, eigenvectors compared with numpy, rules for undecided nodes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import ndp as reference
from tgp.engine.kron_reduction import simple_graph
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import ndp
from tgp.kernels import spectral_vector
from tgp.ragged import BlockCSR
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    cycle,
    disconnected,
    erdos_renyi,
    from_pairs,
    grid2d,
    isolated,
    karate,
    path,
    self_loop,
    star,
    weighted,
)
from tgp.testing.strategies import blocks, graphs


def vectors(block, seed=0, level=0):
    """Return nodes by component, offsets of the components, entries of the eigenvectors, residuals."""
    graph = simple_graph(block)
    size = graph.num_nodes
    order, extent, entry, residual = found = (
        np.empty(size, np.int32),
        np.zeros(size, np.int64),
        np.empty(size),
        np.zeros(size),
    )
    arrays = (graph.indptr, graph.indices, graph.weight, graph.node_ptr)
    scratch = np.zeros(size, np.int8), np.empty(size, np.int32)
    ndp._find_vectors(arrays, 0, graph.num_graphs, RandomKey(seed, level), None, found, *scratch)
    starts = np.flatnonzero(extent)
    return order, np.append(starts, size), entry, residual[starts]


def kept(block, seed=0, level=0, flip=False):
    sides = ndp.cut(simple_graph(block), flip, RandomKey(seed, level))
    assert set(sides.tolist()) <= {1, -1}
    return np.flatnonzero(sides > 0).tolist()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # Both colours have a node of degree 2 and equally many nodes: the hub with the smallest id decides.
        (path(6), [1, 3, 5]),
        (path(2), [0]),
        # The inner node has the largest degree.
        (path(3), [1]),
        # Both colours have a node of degree 2: the colour with fewer nodes is kept.
        (path(5), [1, 3]),
        (star(7), [0]),
        (cycle(4), [0, 2]),
        # The centre is the only node of degree 4.
        (grid2d(3, 3), [0, 2, 4, 6, 8]),
        (isolated(4), [0, 1, 2, 3]),
        (self_loop(), [0]),
        (karate(), [0, 1, 2, 3, 16, 24, 25, 32, 33]),
    ],
)
def test_sides_of_known_graphs(block, expected):
    assert kept(block) == expected


def test_cut_of_karate():
    block = karate()
    sides = np.isin(np.arange(34), kept(block))
    rows, cols = block.edge_index()
    assert (sides[rows] != sides[cols]).sum() == 120  # 60 of 78 edges, each in both directions
    assert (sides[rows] != sides[cols]).mean() == pytest.approx(0.76923, abs=1e-5)


def test_every_component_has_both_sides():
    sides = kept(disconnected())
    assert len({0, 1, 2} & set(sides)) in (1, 2)
    assert {4} == {3, 4, 5} & set(sides)
    assert 6 in sides


@pytest.mark.parametrize("n", [3, 4, 5, 8, 33, 70])
def test_complete_graphs_have_a_cut_of_half_or_more(n):
    # The largest eigenvalue has multiplicity n - 1: every split belongs to some eigenvector, but not every cut is large.
    sides = kept(complete(n))
    assert len(sides) * (n - len(sides)) / (n * (n - 1) / 2) >= 0.5
    assert kept(complete(n)) == sides


def test_zero_entries_get_the_side_that_cuts_more():
    # A triangle 0, 1, 2 with a cycle 0, 4, 3, 2, mirror symmetric with opposite signs, so v_1 = 0. Node 5 is a leaf of 1.
    block = from_pairs(6, [(0, 1), (0, 2), (0, 4), (1, 2), (1, 5), (2, 3), (3, 4)])
    order, _, entry, residual = vectors(block)
    v = np.empty(6)
    v[order] = entry
    assert residual.tolist() == [0.0]
    np.testing.assert_allclose(v[[1, 5]], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.abs(v[[0, 2, 3, 4]]), [0.447214, 0.447214, 0.547723, 0.547723], atol=1e-6)
    # Hubs 0 and 2 are equal: 0 is kept. Node 1 is balanced between them and is kept. Then node 5 is dropped.
    assert kept(block) == [0, 1, 3]


def test_negative_edges_are_not_cut():
    # Edges of weight -1 must not be cut, and edges of weight 1 must be cut: {0, 1} and {2, 3} satisfies all.
    block = from_pairs(4, [(0, 1), (2, 3), (0, 2), (1, 3)], [-1.0, -1.0, 1.0, 1.0])
    assert kept(block) == [0, 1]


def test_one_node_is_dropped_if_all_weights_are_negative():
    assert kept(from_pairs(3, [(0, 1), (1, 2)], [-1.0, -2.0])) == [1, 2]


def test_edges_of_weight_zero_are_ignored():
    assert kept(from_pairs(3, [(0, 1), (1, 2)], [0.0, 1.0])) == [0, 1]


@pytest.mark.parametrize("n", [5, 11, 63])
def test_small_eigenvectors_equal_numpy(n):
    block = weighted() if n == 5 else erdos_renyi(n, 6 / n, seed=n)
    order, ptr, entry, _ = vectors(block)
    graph = reference.dense_graph(block)
    for a, b in itertools.pairwise(ptr):
        nodes = order[a:b]
        if b - a < 2:
            continue
        _, gap, vector = reference.top_pair(graph[np.ix_(nodes, nodes)])
        assert gap > 1e-6
        assert abs(vector @ entry[a:b]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n", [65, 150, 400])
def test_large_eigenvectors_have_a_small_residual(n):
    block = barabasi_albert(n, 3, seed=n)
    order, ptr, entry, residual = vectors(block)
    assert ptr.tolist() == [0, n]
    part = reference.dense_graph(block)[np.ix_(order, order)]
    value, _, vector = reference.top_pair(part)
    scale = part.sum(axis=1) ** -0.5
    found = entry @ entry - entry @ (scale[:, None] * part * scale) @ entry
    assert residual[0] <= 1e-8
    assert found == pytest.approx(value, abs=1e-12)
    assert abs(vector @ entry) == pytest.approx(1.0, abs=1e-9)


@settings(max_examples=60)
@given(graphs(min_nodes=1, max_nodes=9, max_edges=30))
def test_decided_sides_equal_the_reference(block):
    sides = set(kept(block))
    for node, expected in reference.certain_sides(reference.dense_graph(block)).items():
        assert (node in sides) == expected


@settings(max_examples=60)
@given(graphs(min_nodes=1, max_nodes=9, max_edges=30, negative=False), st.integers(0, 5))
def test_cut_has_half_of_the_weight_and_no_empty_side(block, seed):
    sides = np.isin(np.arange(block.num_nodes), kept(block, seed))
    graph = reference.dense_graph(block)
    for nodes in reference.components(graph):
        mine = sides[nodes]
        if len(nodes) == 1:
            assert mine.all()
        else:
            assert 0 < mine.sum() < len(nodes)
            assert reference.share(graph[np.ix_(nodes, nodes)], mine) >= 0.5 - 1e-12


@settings(max_examples=40)
@given(graphs(min_nodes=2, max_nodes=9, max_edges=30, negative=False), st.randoms(use_true_random=False))
def test_cut_does_not_depend_on_the_numbering_of_nodes(block, random):
    """Skip cuts that are not unique: several eigenvectors, zero entries, or hubs on both sides of equal size."""
    order = list(range(block.num_nodes))
    random.shuffle(order)
    place = np.empty(block.num_nodes, dtype=int)
    place[order] = np.arange(block.num_nodes)
    shuffled = BlockCSR.from_edge_index(place[block.edge_index()], block.weight, num_nodes=block.num_nodes)
    graph = reference.dense_graph(block)
    certain = reference.certain_sides(graph)
    ours, theirs = set(kept(block)), set(kept(shuffled))
    for nodes in reference.components(graph):
        degree = graph[nodes].sum(axis=1)
        one_hub = (degree >= degree.max() * (1 - 1e-9)).sum() == 1
        if one_hub and nodes[0] in certain:
            assert {place[i] for i in nodes if i in ours} == {place[i] for i in nodes} & theirs


@settings(max_examples=40)
@given(blocks(max_graphs=4), st.integers(0, 3))
def test_block_equals_its_graphs_processed_separately(block, seed):
    whole = kept(block, seed, 1)
    single = [int(block.node_ptr[g]) + i for g, part in enumerate(block.split()) for i in kept(part, seed, 1)]
    assert whole == single


@pytest.mark.parametrize(
    "block", [barabasi_albert(400, 4, seed=3), erdos_renyi(300, 0.05, seed=1), complete(90)]
)
def test_flips_leave_no_node_whose_flip_increases_the_cut(block):
    sides = np.where(np.isin(np.arange(block.num_nodes), kept(block, flip=True)), 1.0, -1.0)
    graph = reference.dense_graph(block)
    assert ((graph @ sides) * sides <= 1e-9).all()
    exact = np.where(np.isin(np.arange(block.num_nodes), kept(block)), 1.0, -1.0)
    # A cut of more weight has a smaller value. Flips lose at most a tenth of the weight of the spectral cut.
    assert sides @ graph @ sides <= exact @ graph @ exact + 0.1 * graph.sum()
    hub = np.flatnonzero(graph.sum(axis=1) == graph.sum(axis=1).max())
    assert (sides[hub] > 0).any()


@settings(max_examples=30)
@given(graphs(min_nodes=2, max_nodes=9, max_edges=30))
def test_flips_keep_a_node_and_drop_a_node_of_every_component(block):
    sides = np.isin(np.arange(block.num_nodes), kept(block, flip=True))
    for nodes in reference.components(reference.dense_graph(block)):
        assert sides[nodes].any()
        assert len(nodes) == 1 or not sides[nodes].all()


def test_stored_vectors_give_the_same_bits_as_a_second_run(monkeypatch):
    # The basis fits into memory for a dense graph. Without this memory, the run is repeated.
    block = barabasi_albert(300, 20, seed=2)
    stored = vectors(block)[2]
    monkeypatch.setattr(ndp, "_FLIP_STEPS", 0)
    original = spectral_vector.large_vectors

    def without_basis(*args):
        return original(*args[:-1], np.empty(0))

    monkeypatch.setattr(spectral_vector, "large_vectors", without_basis)
    assert np.array_equal(vectors(block)[2], stored)


def test_undecided_nodes_of_large_graphs_are_assigned():
    # A long path with some additional edges. The eigenvector is large at one end and below the residual elsewhere.
    n = 3000
    pairs = [(i, i + 1) for i in range(n - 1)] + [(i, i + 2) for i in range(0, n - 2, 7)]
    block = from_pairs(n, pairs)
    sides = np.isin(np.arange(n), kept(block))
    rows, cols = block.edge_index()
    assert (sides[rows] != sides[cols]).mean() > 0.8
