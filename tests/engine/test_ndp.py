"""NDP as a level method: golden values, unusual graphs, and Kron reduction after other selections."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.reference.kron import kron_dense
from tests.reference.ndp import dense_graph
from tgp.engine import coarsen, kron_blocks, threads
from tgp.engine.kron_reduction import kron_reduce
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods import ndp
from tgp.engine.methods.ndp import METHOD, NDPParams, cut, random_cut, simple_graph
from tgp.engine.schedule import parse_schedule
from tgp.errors import InputError, ParameterError
from tgp.kernels import kron, kron_core, kron_series
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    directed,
    disconnected,
    empty,
    erdos_renyi,
    from_pairs,
    grid2d,
    isolated,
    karate,
    path,
    single_node,
    toy_block,
)
from tgp.testing.strategies import blocks

PARAMS = NDPParams()


def level(block, params=PARAMS, key=None):
    assignment = METHOD.assign(block, params, key or RandomKey()).validate(block.node_ptr)
    return assignment, METHOD.connect(block, assignment, params).validate()


def same(a, b):
    return (
        np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.weight, b.weight)
    )


def test_path_of_six():
    assignment, coarse = level(path(6))
    assert assignment.representative.tolist() == [1, 3, 5]
    assert assignment.cluster.tolist() == [-1, 0, -1, 1, -1, 2]
    assert coarse.edge_index().tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert coarse.weight.tolist() == [0.5] * 4


def test_path_of_four_and_an_isolated_node():
    # The weight is exactly 0.5. The isolated node is kept, so no matrix is singular.
    assignment, coarse = level(from_pairs(5, [(0, 1), (1, 2), (2, 3)]))
    assert assignment.representative.tolist() == [1, 3, 4]
    assert coarse.edge_index().tolist() == [[0, 1], [1, 0]]
    assert coarse.weight.tolist() == [0.5, 0.5]


def test_two_nodes_one_edge():
    assignment, coarse = level(path(2))
    assert assignment.representative.tolist() == [0]
    assert coarse.num_edges == 0 and coarse.weight is not None


def test_karate_club():
    assignment, coarse = level(karate())
    assert assignment.representative.tolist() == [0, 1, 2, 3, 16, 24, 25, 32, 33]
    assert coarse.num_edges == 48
    assert coarse.weight.sum() == pytest.approx(54.42, abs=5e-3)


@pytest.mark.parametrize("make", [empty, single_node, isolated])
def test_graphs_without_a_cut_are_kept(make):
    block = make()
    assignment, coarse = level(block)
    assert assignment.num_supernodes == block.num_nodes
    assert coarse.num_edges == 0


def test_directed_edges_count_both_ways():
    assignment, coarse = level(directed())
    both = from_pairs(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert assignment.cluster.tolist() == level(both)[0].cluster.tolist()
    assert same(coarse, level(both)[1])


def test_larger_weight_of_the_two_directions_and_sum_of_parallel_edges():
    edges = [[0, 1, 1, 1, 2, 0], [1, 0, 2, 2, 1, 0]]
    block = BlockCSR.from_edge_index(edges, [1.0, 3.0, 2.0, 2.0, 1.0, 9.0], num_nodes=3)
    simple = from_pairs(3, [(0, 1), (1, 2)], [3.0, 4.0])
    nodes = np.array([0, 2], dtype=np.int32)
    assignment = Assignment("hard", np.array([0, 2]), np.array([0, -1, 1], np.int32), representative=nodes)
    coarse = kron_reduce(block, assignment)
    assert coarse.weight.tolist() == [12 / 7, 12 / 7]
    assert same(coarse, kron_reduce(simple, assignment))


def test_kept_nodes_of_complete_graph_with_loops():
    pairs = [(i, j) for i in range(5) for j in range(i + 1)]
    assignment, coarse = level(from_pairs(5, pairs))
    assert 1 <= assignment.num_supernodes < 5
    assert coarse.num_edges == assignment.num_supernodes * (assignment.num_supernodes - 1)
    assert np.array_equal(assignment.cluster, level(complete(5))[0].cluster)


def test_larger_threshold_never_more_edges():
    block = erdos_renyi(60, 0.1, seed=2)
    counts = [level(block, NDPParams(sparse_threshold=t))[1].num_edges for t in (0.0, 1e-2, 0.1, 0.5, 2.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


@pytest.mark.parametrize("value", [-1e-3, float("nan"), float("inf"), "0.1", None, True])
def test_wrong_thresholds_raise(value):
    with pytest.raises(ParameterError, match="sparse_threshold"):
        NDPParams(sparse_threshold=value)


def test_levels_chain_until_one_node_is_left():
    levels = coarsen(karate(), "ndp*6").levels
    sizes = [step.block.num_nodes for step in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 9 and sizes[-1] == 1
    for step in levels:
        assert step.block.weight is not None
        assert np.array_equal(step.block.weight, step.block.weight.astype(np.float32))


def test_a_connected_graph_stays_connected_without_threshold():
    block = barabasi_albert(200, 2, seed=4)
    _, coarse = level(block, NDPParams(sparse_threshold=0.0))
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = csr_array((coarse.weight, coarse.indices, coarse.indptr))
    assert connected_components(matrix)[0] == 1


def test_kron_reduction_uses_the_numbers_of_the_supernodes():
    # Supernode 0 is node 2, 1 is node 3, 2 is node 0; node 1 is dropped.
    cluster = np.array([2, -1, 0, 1], np.int32)
    coarse = kron_reduce(path(4), Assignment("hard", np.array([0, 3]), cluster))
    assert coarse.edge_index().tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert coarse.weight.tolist() == [1.0, 0.5, 1.0, 0.5]


def test_kron_of_clusters_needs_representatives():
    cluster = np.array([0, 0, 0, 1], np.int32)
    with pytest.raises(InputError, match="Inconsistent number of clusters and node indices"):
        kron_reduce(path(4), Assignment("hard", np.array([0, 2]), cluster))
    clear = Assignment("hard", np.array([0, 2]), cluster, representative=np.array([0, 3], np.int32))
    assert kron_reduce(path(4), clear).weight.tolist() == pytest.approx([1 / 3, 1 / 3])


def test_kron_reduction_of_wrong_assignments_raises():
    soft = Assignment("soft", np.array([0, 2]), soft=np.ones((4, 2), np.float32))
    with pytest.raises(InputError, match="hard assignment"):
        kron_reduce(path(4), soft)
    out = Assignment(
        "hard", np.array([0, 1]), np.array([0, -1, -1, -1], np.int32), representative=np.array([7], np.int32)
    )
    with pytest.raises(InputError, match=r"\[0, 4\)"):
        kron_reduce(path(4), out)


def test_seed_and_level_matter_only_where_eigenvectors_leave_a_choice():
    simple = [
        METHOD.assign(karate(), PARAMS, RandomKey(s, l)).cluster.tolist() for s in range(3) for l in range(3)
    ]
    assert all(c == simple[0] for c in simple)
    choice = {tuple(METHOD.assign(complete(12), PARAMS, RandomKey(s)).cluster.tolist()) for s in range(8)}
    assert len(choice) > 1


@settings(max_examples=40)
@given(blocks(min_graphs=1, max_graphs=4, max_nodes=9, negative=False), st.data())
def test_the_result_does_not_depend_on_the_position_in_the_block(block, data):
    order = data.draw(st.permutations(range(block.num_graphs)))
    shuffled = block.take(order)
    whole, coarse = level(block)
    moved, moved_coarse = level(shuffled)
    for new, old in enumerate(order):
        a = whole.cluster[block.node_ptr[old] : block.node_ptr[old + 1]] >= 0
        b = moved.cluster[shuffled.node_ptr[new] : shuffled.node_ptr[new + 1]] >= 0
        assert np.array_equal(a, b)
        alone = level(block.take([old]))[1]
        assert same(coarse.take([old]), alone)
        assert same(moved_coarse.take([new]), alone)


@settings(max_examples=40)
@given(blocks(min_graphs=1, max_graphs=3, max_nodes=9, negative=False))
def test_coarse_graph_equals_the_schur_complement(block):
    assignment, coarse = level(block, NDPParams(sparse_threshold=0.0))
    for g in range(block.num_graphs):
        mine = assignment.representative[assignment.super_ptr[g] : assignment.super_ptr[g + 1]]
        expected = kron_dense(dense_graph(block, g), mine - block.node_ptr[g])
        part = coarse.take([g])
        found = np.zeros_like(expected)
        found[part.rows(), part.indices] = part.weight
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_result_does_not_depend_on_threads():
    """Several threads coarsen the same blocks at the same time, because kernels release the GIL."""
    parts = [toy_block(weighted=True), disconnected(), barabasi_albert(300, 4, seed=0), grid2d(30, 30)]
    alone = [coarsen(b, "ndp*2", seed=3) for b in parts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda b: coarsen(b, "ndp*2", seed=3), parts * 3))
    for i, hierarchy in enumerate(together):
        for a, b in zip(hierarchy.levels, alone[i % len(parts)].levels, strict=True):
            assert np.array_equal(a.assignment.cluster, b.assignment.cluster)
            assert same(a.block, b.block)


def test_random_cut_has_two_sides():
    assert random_cut(0).tolist() == []
    assert random_cut(1).tolist() == [1.0]
    assert random_cut(2).tolist() == [1.0, -1.0]
    sides = random_cut(1000, seed=1)
    assert set(sides.tolist()) == {1.0, -1.0}
    assert 400 < (sides > 0).sum() < 600
    assert random_cut(1000, seed=1).tolist() == sides.tolist() != random_cut(1000, seed=2).tolist()


@pytest.mark.slow
@pytest.mark.needs_data
def test_real_molecules(data_root):
    folder = data_root / "TUDataset" / "MUTAG" / "raw"
    pairs = np.loadtxt(folder / "MUTAG_A.txt", delimiter=",", dtype=np.int64) - 1
    graph = np.loadtxt(folder / "MUTAG_graph_indicator.txt", dtype=np.int64) - 1
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph))])
    block = BlockCSR.from_edge_index(pairs.T, node_ptr=node_ptr)
    assignment, coarse = level(block)
    assert coarse.num_graphs == 188
    sides = assignment.cluster >= 0
    rows, cols = block.edge_index()
    # Only rings of five nodes have edges that no cut contains.
    assert (sides[rows] != sides[cols]).mean() > 0.97
    assert 0.4 < assignment.num_supernodes / block.num_nodes < 0.55


def scaled(block, factor):
    return BlockCSR(block.indptr, block.indices, factor * block.weights_or_ones(), block.node_ptr)


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 1e-4, 2.0**20, 1e7, 1e30])
@pytest.mark.parametrize("block", [grid2d(9, 11), karate(), erdos_renyi(80, 0.1, seed=1)])
def test_unit_of_the_weights_does_not_change_the_coarse_edges(block, factor):
    params = NDPParams()
    cut, coarse = level(block, params)
    other_cut, other = level(scaled(block, factor), params)
    assert np.array_equal(cut.cluster, other_cut.cluster)
    assert np.array_equal(coarse.indices, other.indices)
    np.testing.assert_allclose(other.weight, factor * coarse.weight, rtol=1e-9)


@pytest.mark.parametrize("factor", [1e-4, 0.3, 7.0, 1e7])
def test_relative_threshold_does_not_depend_on_the_unit_on_any_level(factor):
    block = grid2d(12, 12)
    ours = coarsen(block, "ndp:threshold=relative*4")
    theirs = coarsen(scaled(block, factor), "ndp:threshold=relative*4")
    for a, b in zip(ours.levels, theirs.levels, strict=True):
        assert np.array_equal(a.block.indices, b.block.indices)


def test_absolute_threshold_is_the_old_rule():
    block = scaled(grid2d(9, 11), 1e-4)
    assert level(block, NDPParams(threshold="absolute"))[1].num_edges == 0
    assert level(block)[1].num_edges > 0
    dense = scaled(grid2d(9, 11), 1e7)
    assert level(dense, NDPParams(threshold="absolute"))[1].num_edges >= level(dense)[1].num_edges


@pytest.mark.parametrize("largest", [0.1, 0.5, 1.0, 30.0, 1000.0])
def test_weights_of_ordinary_size_keep_the_old_rule(largest):
    base = erdos_renyi(60, 0.1, seed=4)
    weight = np.full(base.num_edges, largest)
    block = BlockCSR(base.indptr, base.indices, weight, base.node_ptr)
    assert same(level(block)[1], level(block, NDPParams(threshold="absolute"))[1])


def test_unit_of_a_graph_does_not_depend_on_other_graphs():
    parts = [scaled(grid2d(5, 5), f) for f in (1e-6, 1.0, 1e6)]
    whole = level(BlockCSR.concat(parts))[1]
    for g, part in enumerate(parts):
        assert same(whole.take([g]), level(part)[1])


@pytest.mark.parametrize("name", ["threshold", "cut", "large"])
def test_unknown_rules_are_refused(name):
    with pytest.raises(ParameterError, match=f"{name} is unknown"):
        NDPParams(**{name: "both"})


def test_added_parameters_are_not_stored_with_their_default():
    assert (
        parse_schedule("ndp").to_json()
        == parse_schedule("ndp:threshold=auto:cut=spectral:large=series").to_json()
    )
    assert parse_schedule("ndp:cut=flip").to_json() != parse_schedule("ndp").to_json()


@pytest.mark.parametrize("family", ["kNN", "random regular", "BA", "SBM", "BA, mixed signs"])
def test_no_flip_of_one_node_increases_a_flipped_cut(family):
    graph = simple_graph(FAMILIES[family](2000))
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    gains = []
    for flip in (False, True):
        side = cut(graph, flip, RandomKey())
        same = graph.weights_or_ones() * side[rows] * side[graph.indices]
        gains.append(np.bincount(rows, same, minlength=graph.num_nodes).max())
    assert gains[0] > 0.1 and gains[1] < 1e-9


@pytest.mark.parametrize("rule", ["spectral", "flip"])
def test_result_does_not_depend_on_threads(monkeypatch, rule):
    sizes = np.random.default_rng(3).integers(3, 120, 80)
    block = BlockCSR.concat([erdos_renyi(int(n), 5 / n, seed=int(n)) for n in sizes])
    found = []
    for count in (1, 2, 7):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        monkeypatch.setattr(threads, "_MIN_WORK", 0)
        found.append(level(block, NDPParams(cut=rule)))
    for assignment, coarse in found[1:]:
        assert np.array_equal(assignment.cluster, found[0][0].cluster)
        assert same(coarse, found[0][1])


@pytest.mark.parametrize("block", [barabasi_albert(300, 3, seed=1), complete(70), grid2d(20, 20), karate()])
def test_bound_of_the_coarse_graph(block):
    sizes = GraphSizes(
        *(np.array([x]) for x in (block.num_nodes, block.num_edges, np.diff(block.indptr).max()))
    )
    bound = METHOD.bound(sizes, PARAMS)
    coarse = level(block)[1]
    assert coarse.num_edges <= bound.edges[0]
    assert coarse.num_nodes <= bound.nodes[0]
    assert bound.seconds[0] > 0 and bound.memory[0] > 0


def test_walks_are_the_rule_of_the_parameter(monkeypatch):
    monkeypatch.setattr(kron_blocks, "EXACT_WORK", -1)
    block = barabasi_albert(300, 8, seed=1)
    tried = []
    monkeypatch.setattr(kron_blocks, "series_rows", lambda *a: tried.append(a))
    walks = level(block, NDPParams(large="walks"))[1]
    assert not tried
    assert same(level(block)[1], walks) and tried, "without a result of the series, walks are used"


@pytest.mark.parametrize("limit", [kron_blocks.EXACT_WORK, 20_000], ids=["exact", "estimated"])
@pytest.mark.parametrize("family", FAMILIES)
def test_counted_operations_are_within_the_bound(monkeypatch, family, limit):
    """Count the operations of all kernels whose work is not linear. An operation takes 1 ns or more."""
    work = {"eliminated": 0.0, "read": 0.0, "multiplied": 0.0}
    eliminate, walk_ends, dominant_vector = kron.eliminate, kron_core.walk_ends, kron_series.dominant_vector

    def count_eliminated(*args):
        out = eliminate(*args)
        work["eliminated"] += args[-1][kron.WORK]
        return out

    def count_read(*args):
        out = walk_ends(*args)
        work["read"] = kron_core.LANES * args[-1][kron_core.WORK]
        return out

    def count_rounds(*args):
        rounds = dominant_vector(*args)
        work["multiplied"] = rounds * args[1][-1] * (block.num_nodes - args[0])
        return rounds

    monkeypatch.setattr(kron_blocks, "EXACT_WORK", limit)
    monkeypatch.setattr(kron, "eliminate", count_eliminated)
    monkeypatch.setattr(kron_core, "walk_ends", count_read)
    monkeypatch.setattr(kron_series, "dominant_vector", count_rounds)
    block = FAMILIES[family](4000)
    sizes = GraphSizes(
        *(np.array([x]) for x in (block.num_nodes, block.num_edges, np.diff(block.indptr).max()))
    )
    monkeypatch.setattr(ndp, "EXACT_WORK", limit)
    bound = METHOD.bound(sizes, PARAMS)
    coarse = level(block)[1]
    assert 1e-9 * sum(work.values()) <= bound.seconds[0]
    assert coarse.num_edges <= bound.edges[0] <= 32 * block.num_edges
