"""Star-mesh elimination and walks compared with the dense Schur complement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tgp.engine.kron_reduction as module
from tests.reference.kron import kron_dense, resistance
from tests.reference.ndp import dense_graph
from tgp.engine.kron_reduction import kron_reduce_simple, simple_graph
from tgp.ragged import BlockCSR
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    disconnected,
    erdos_renyi,
    from_pairs,
    path,
    star,
    weighted,
)
from tgp.testing.strategies import graphs


def reduced(block, kept, threshold=0.0):
    kept = np.asarray(kept, dtype=np.int32)
    super_ptr = np.array([0, len(kept)])
    coarse = kron_reduce_simple(simple_graph(block), kept, super_ptr, threshold).validate()
    out = np.zeros((len(kept), len(kept)))
    out[coarse.rows(), coarse.indices] = coarse.weight
    assert (out == out.T).all(), "the result must be exactly symmetric"
    return out


def test_path_preserves_its_resistance():
    # Path 0-1-2-3 with nodes 0 and 3 kept: three unit resistors in series.
    np.testing.assert_allclose(reduced(path(4), [0, 3]), [[0, 1 / 3], [1 / 3, 0]], rtol=1e-15)


def test_star_becomes_a_mesh():
    out = reduced(star(5), [1, 2, 3, 4])
    np.testing.assert_allclose(out, (1 - np.eye(4)) / 4, rtol=1e-15)


def test_rows_have_the_order_of_the_kept_nodes():
    out = reduced(weighted(), [4, 0, 2])
    np.testing.assert_allclose(out, kron_dense(dense_graph(weighted()), [4, 0, 2]), rtol=1e-13)
    # Row 0 is node 4. Its edge to node 0 has weight 5, and the other path adds a small weight.
    assert 5.0 < out[0, 1] < 5.1


def test_components_without_kept_nodes_are_removed():
    # The triangle {0, 1, 2} has no kept node; the path 3-4-5 has two.
    out = reduced(disconnected(), [3, 5, 6])
    np.testing.assert_allclose(out, [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])


def test_entries_equal_to_the_threshold_are_removed():
    block = from_pairs(4, [(0, 1), (1, 2), (2, 3)], [0.01, 0.02, 1.0])
    out = reduced(block, [0, 1, 2, 3], threshold=0.01)
    assert out[0, 1] == 0.0
    assert out[1, 2] == 0.02


def test_node_whose_weights_cancel_adds_no_edges():
    block = from_pairs(3, [(0, 1), (1, 2)], [1.0, -1.0])
    assert reduced(block, [0, 2]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@settings(max_examples=60)
@given(graphs(min_nodes=1, max_nodes=10, max_edges=30, negative=False), st.data())
def test_equals_the_dense_schur_complement(block, data):
    kept = data.draw(st.lists(st.integers(0, block.num_nodes - 1), unique=True, min_size=1))
    np.testing.assert_allclose(reduced(block, kept), kron_dense(dense_graph(block), kept), atol=1e-12)


@pytest.mark.parametrize("n", [40, 120, 200])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_random_graphs_equal_the_dense_schur_complement(n, share):
    rng = np.random.default_rng(n)
    base = erdos_renyi(n, 5 / n, seed=n)
    pairs = base.edge_index()[:, base.edge_index()[0] < base.edge_index()[1]].T
    block = from_pairs(n, pairs, rng.uniform(0.1, 10.0, len(pairs)))
    kept = np.flatnonzero(rng.random(n) < share)
    difference = np.abs(reduced(block, kept) - kron_dense(dense_graph(block), kept))
    assert difference.max() < 1e-9


def test_resistances_between_kept_nodes_are_preserved():
    block = barabasi_albert(120, 3, seed=5)
    kept = np.arange(0, 120, 3)
    before = resistance(dense_graph(block))[np.ix_(kept, kept)]
    np.testing.assert_allclose(resistance(reduced(block, kept)), before, rtol=1e-6)


def force_walks(monkeypatch, tolerance, first_work=3):
    monkeypatch.setattr(module, "EXACT_WORK", -1)
    monkeypatch.setattr(module, "_FIRST_WORK", first_work)
    monkeypatch.setattr(module, "WALK_TOLERANCE", tolerance)


@pytest.mark.parametrize("first_work", [-1, 0, 3])
def test_walks_converge_to_the_exact_reduction(monkeypatch, first_work):
    block = barabasi_albert(300, 4, seed=1)
    kept = np.arange(0, 300, 2)
    exact = kron_dense(dense_graph(block), kept)
    errors = []
    for tolerance in (1.0, 1e-2, 1e-6):
        force_walks(monkeypatch, tolerance, first_work)
        found = reduced(block, kept)
        assert (found <= exact + 1e-12).all(), "walks must give lower bounds"
        errors.append((exact - found).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5


def test_walks_of_a_graph_do_not_depend_on_other_graphs(monkeypatch):
    parts = [barabasi_albert(80, 3, seed=s) for s in range(3)]
    force_walks(monkeypatch, 0.1)
    monkeypatch.setattr(module, "_WALK_WORK", 5)
    kept = np.arange(0, 240, 2, dtype=np.int32)
    super_ptr = np.array([0, 40, 80, 120])
    whole = kron_reduce_simple(simple_graph(BlockCSR.concat(parts)), kept, super_ptr, 1e-2)
    for g, part in enumerate(parts):
        out = np.zeros((40, 40))
        mine = whole.take([g])
        out[mine.rows(), mine.indices] = mine.weight
        assert (out == reduced(part, np.arange(0, 80, 2), 1e-2)).all()


def test_small_work_limit_stops_walks_early(monkeypatch):
    block = complete(60)
    kept = np.arange(10)
    force_walks(monkeypatch, 1e-6, -1)
    complete_walks = reduced(block, kept)
    monkeypatch.setattr(module, "_WALK_WORK", 1)
    short_walks = reduced(block, kept)
    assert short_walks.sum() < complete_walks.sum()
    assert (short_walks <= complete_walks).all()


def test_graphs_with_negative_weights_are_eliminated_completely(monkeypatch):
    force_walks(monkeypatch, 1.0, -1)
    block = from_pairs(4, [(0, 1), (1, 2), (2, 3), (1, 3)], [1.0, -0.25, 1.0, 2.0])
    exact = kron_dense(dense_graph(block), [0, 3])
    np.testing.assert_allclose(reduced(block, [0, 3]), exact, rtol=1e-12)
