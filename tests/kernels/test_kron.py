"""Star-mesh elimination and walks compared with the dense Schur complement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tgp.engine.kron_blocks as module
from tests.reference.kron import kron_dense, kron_series, resistance
from tests.reference.ndp import dense_graph
from tgp.engine import threads
from tgp.engine.kron_reduction import kron_reduce_simple, simple_graph
from tgp.kernels import kron, kron_core
from tgp.kernels import kron_series as series_kernels
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


def reduced(block, kept, threshold=0.0, large="series"):
    kept = np.asarray(kept, dtype=np.int32)
    super_ptr = np.array([0, len(kept)])
    coarse = kron_reduce_simple(simple_graph(block), kept, super_ptr, threshold, large=large).validate()
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


def test_signs_are_multiplied_along_a_path():
    # A friend of an enemy is an enemy, an enemy of an enemy is a friend.
    block = from_pairs(3, [(0, 1), (1, 2)], [1.0, -1.0])
    assert reduced(block, [0, 2]).tolist() == [[0.0, -0.5], [-0.5, 0.0]]
    block = from_pairs(3, [(0, 1), (1, 2)], [-1.0, -3.0])
    assert reduced(block, [0, 2])[0, 1] == 0.75


@settings(max_examples=60)
@given(graphs(min_nodes=1, max_nodes=10, max_edges=30), st.data())
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
        found = reduced(block, kept, large="walks")
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
    whole = kron_reduce_simple(simple_graph(BlockCSR.concat(parts)), kept, super_ptr, 1e-2, large="walks")
    for g, part in enumerate(parts):
        out = np.zeros((40, 40))
        mine = whole.take([g])
        out[mine.rows(), mine.indices] = mine.weight
        assert (out == reduced(part, np.arange(0, 80, 2), 1e-2, "walks")).all()


def test_small_work_limit_stops_walks_early(monkeypatch):
    block = complete(60)
    kept = np.arange(10)
    force_walks(monkeypatch, 1e-3, -1)
    complete_walks = reduced(block, kept, large="walks")
    monkeypatch.setattr(module, "_WALK_WORK", 1)
    short_walks = reduced(block, kept, large="walks")
    assert short_walks.sum() < complete_walks.sum()
    assert (short_walks <= complete_walks).all()


def signed(block, share, seed=0):
    """Make a share of the edges of a graph negative."""
    rng = np.random.default_rng(seed)
    pairs = block.edge_index()[:, block.edge_index()[0] < block.edge_index()[1]].T
    sign = np.where(rng.random(len(pairs)) < share, -1.0, 1.0)
    if share > 0:
        sign[0] = -1.0
    return from_pairs(block.num_nodes, pairs, sign * rng.uniform(0.5, 2.0, len(pairs)))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_walks_of_signed_graphs_converge_to_the_exact_reduction(monkeypatch, share):
    block = signed(barabasi_albert(200, 4, seed=1), share)
    kept = np.arange(0, 200, 2)
    exact = kron_dense(dense_graph(block), kept)
    errors = []
    for tolerance in (1.0, 1e-2, 1e-8):
        force_walks(monkeypatch, tolerance)
        errors.append(np.abs(reduced(block, kept, large="walks") - exact).max())
    assert errors[0] >= errors[1] > errors[2]
    assert errors[2] < 1e-6


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_work_and_fill_in_do_not_depend_on_signs(monkeypatch, share):
    """Count the work of the elimination, the entries that walks read, and the edges of the result."""
    block = simple_graph(signed(barabasi_albert(1500, 4, seed=2), share))
    limit = 400_000
    monkeypatch.setattr(module, "EXACT_WORK", limit)
    work, reads = [], []
    eliminate, walk_ends = kron.eliminate, kron_core.walk_ends

    def count_work(*args):
        out = eliminate(*args)
        work.append(int(args[-1][kron.WORK]))
        return out

    def count_reads(*args):
        out = walk_ends(*args)
        reads.append(args[-1][kron_core.WORK])
        return out

    monkeypatch.setattr(kron, "eliminate", count_work)
    monkeypatch.setattr(kron_core, "walk_ends", count_reads)
    kept = np.arange(0, 1500, 2, dtype=np.int32)
    coarse = kron_reduce_simple(block, kept, np.array([0, len(kept)]), 1e-2, large="walks")
    longest = int(np.diff(block.indptr).max()) + 1500
    assert len(work) >= 2, "the exact elimination stops, and a short one follows"
    assert max(work) <= limit + longest**2
    assert 0 < max(reads) <= 2 * module._WALK_WORK * block.num_edges
    assert coarse.num_edges <= 20 * block.num_edges


def test_scratch_that_is_too_short_is_replaced(monkeypatch):
    block = barabasi_albert(150, 5, seed=4)
    kept = np.arange(0, 150, 5)
    exact = reduced(block, kept)
    entries = module._entries
    monkeypatch.setattr(module, "_entries", lambda size: entries(size // 50 + 60))
    assert (reduced(block, kept) == exact).all()


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("count", [3, 8, 77, 90])
def test_full_matrix_equals_the_elimination(monkeypatch, share, count):
    block = signed(erdos_renyi(100, 0.6, seed=count), share)
    kept = np.sort(np.random.default_rng(count).permutation(100)[:count])
    exact = reduced(block, kept, 1e-2)
    calls = []
    original = module.BlockReduction._reduce_dense
    monkeypatch.setattr(module.BlockReduction, "_reduce_dense", lambda *a: calls.append(a[1]) or original(*a))
    monkeypatch.setattr(module, "_DENSE_NODES", 50)
    np.testing.assert_allclose(reduced(block, kept, 1e-2), exact, rtol=1e-12, atol=1e-15)
    assert calls == [0]


def test_only_large_dense_graphs_use_a_full_matrix():
    def large(block):
        graph = simple_graph(block)
        kept = np.arange(0, graph.num_nodes, 2, dtype=np.int32)
        ones = np.ones(1)
        reduction = module.BlockReduction(graph, kept, np.array([0, len(kept)]), 0.01 * ones, ones)
        return reduction._is_dense(0), reduction.large.tolist()

    assert large(complete(1000)) == (False, [])
    assert large(complete(1200)) == (True, [0])
    assert large(barabasi_albert(3000, 5)) == (False, [])


def test_hopeless_elimination_is_not_tried(monkeypatch):
    block = simple_graph(barabasi_albert(1200, 20, seed=1))
    kept = np.arange(0, 1200, 2, dtype=np.int32)
    monkeypatch.setattr(module, "EXACT_WORK", 30_000)
    ones = np.ones(1)
    reduction = module.BlockReduction(block, kept, np.array([0, 600]), 0.01 * ones, ones, series=False)
    assert reduction.large.tolist() == [0]
    budgets = []
    eliminate = kron.eliminate
    monkeypatch.setattr(kron, "eliminate", lambda *a: budgets.append((a[5], a[6], a[7])) or eliminate(*a))
    reduction.reduce_range(0, 1)
    assert budgets == [(0, 0, 30_000), (0, 1, module._FIRST_WORK * block.num_edges)]


@pytest.mark.parametrize("large", ["series", "walks"])
def test_result_does_not_depend_on_threads(monkeypatch, large):
    rng = np.random.default_rng(5)
    parts = [barabasi_albert(int(n), 3, seed=int(n)) for n in rng.integers(5, 90, 60)]
    block = simple_graph(BlockCSR.concat(parts))
    kept = np.flatnonzero(rng.random(block.num_nodes) < 0.5).astype(np.int32)
    super_ptr = np.searchsorted(kept, block.node_ptr)
    monkeypatch.setattr(module, "EXACT_WORK", 5000)  # some graphs are estimated
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        monkeypatch.setattr(threads, "_MIN_WORK", 0)
        found.append(kron_reduce_simple(block, kept, super_ptr, 1e-2, large=large))
    for other in found[1:]:
        assert np.array_equal(other.indices, found[0].indices)
        assert np.array_equal(other.weight, found[0].weight)


def estimated(monkeypatch, *args):
    """Reduce a small graph as if it were too large for the elimination; return the result and the number of iterations."""
    rounds = []
    original = series_kernels.dominant_vector
    with monkeypatch.context() as patch:
        patch.setattr(module, "EXACT_WORK", -1)
        patch.setattr(series_kernels, "dominant_vector", lambda *a: rounds.append(original(*a)) or rounds[-1])
        return reduced(*args), rounds[0] if rounds else 0


@settings(max_examples=40)
@given(graphs(min_nodes=3, max_nodes=12, max_edges=40), st.data())
def test_series_equals_its_reference(block, data):
    kept = data.draw(st.lists(st.integers(0, block.num_nodes - 1), unique=True, min_size=1))
    graph = dense_graph(block)
    with pytest.MonkeyPatch.context() as patch:
        found, rounds = estimated(patch, block, kept)
    np.testing.assert_allclose(
        found, kron_series(graph, kept, rounds), rtol=1e-5, atol=1e-5 * np.abs(graph).max()
    )


@pytest.mark.parametrize("count", [1, 100, 128, 129, 300])
def test_tiles_of_a_series_cover_all_rows(monkeypatch, count):
    block = signed(erdos_renyi(500, 0.1, seed=3), 0.0)
    kept = np.random.default_rng(count).permutation(500)[:count]
    found, rounds = estimated(monkeypatch, block, kept)
    np.testing.assert_allclose(found, kron_series(dense_graph(block), kept, rounds), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_series_is_close_to_the_exact_reduction(monkeypatch, share):
    block = signed(barabasi_albert(400, 20, seed=1), share)
    kept = np.arange(0, 400, 2)
    exact = kron_dense(dense_graph(block), kept)
    found, rounds = estimated(monkeypatch, block, kept)
    assert 1 <= rounds <= series_kernels.MAX_STEPS
    assert np.abs(found - exact).sum() < 0.01 * np.abs(exact).sum()
    if share == 0.0:
        assert rounds <= 2, "the dominant eigenvector replaces most iterations"
    walks = reduced(block, kept, 1e-2, "walks")
    assert np.abs(found - exact).max() <= np.abs(walks - exact).max() + 1e-2


def test_series_of_scaled_weights_is_scaled(monkeypatch):
    base = signed(erdos_renyi(60, 0.3, seed=3), 0.2)
    kept = np.arange(0, 60, 2)
    plain, _ = estimated(monkeypatch, base, kept)
    for factor in (2.0**-150, 2.0**150):
        block = BlockCSR(base.indptr, base.indices, base.weight * factor, base.node_ptr)
        assert (estimated(monkeypatch, block, kept)[0] == plain * factor).all()


def test_series_without_a_way_out(monkeypatch):
    """Walks in a component without a kept node never end. The other component is not affected."""
    block = BlockCSR.concat([complete(30), complete(40)])
    one = BlockCSR(block.indptr, block.indices, block.weight, np.array([0, 70]))
    found, _ = estimated(monkeypatch, one, np.arange(30, 60))
    exact = kron_dense(dense_graph(complete(40)), np.arange(30))
    np.testing.assert_allclose(found, exact, rtol=1e-2)


def test_series_that_takes_too_long_is_replaced_by_walks(monkeypatch):
    block = barabasi_albert(300, 8, seed=2)
    kept = np.arange(0, 300, 2)
    monkeypatch.setattr(module, "EXACT_WORK", -1)
    series, walks = reduced(block, kept, 1e-2), reduced(block, kept, 1e-2, "walks")
    assert (series != walks).any()
    monkeypatch.setattr(module, "ENTRY_WORK", 1)
    assert (reduced(block, kept, 1e-2) == walks).all()
