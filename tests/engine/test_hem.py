"""Heavy-edge matching: equal to a plain greedy one, exact sizes, any number of threads."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.reference import hem as reference
from tgp.engine import coarsen, large_ranking, pair_matching, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import hem
from tgp.engine.methods.hem import METHOD, HEMParams
from tgp.engine.target_size import SizeParams, component_targets, count_kept
from tgp.engine.undirected import make_undirected
from tgp.errors import GraphError, ParameterError
from tgp.kernels import csr
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, cycle, directed, grid2d, isolated, path, star, toy_block
from tgp.testing.strategies import blocks

RATIOS = (0.6, 0.35, 0.1)
SCORES = st.sampled_from(["share", "weight"])


@st.composite
def hub_graphs(draw):
    """Draw a graph of a few hubs and of leaves with one to three of them, so that a matching leaves most nodes alone."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    hubs, leaves = draw(st.integers(1, 6)), draw(st.integers(0, 30))
    near = np.unique(np.stack([np.arange(3 * leaves) // 3, rng.integers(0, hubs, 3 * leaves)]), axis=1)
    near = near[:, rng.random(near.shape[1]) < draw(st.sampled_from([0.4, 0.7, 1.0]))]
    name = rng.permutation(hubs + leaves)
    edges = name[np.stack([hubs + near[0], near[1]])].reshape(2, -1)
    weight = rng.integers(1, 4, edges.shape[1]) / 2.0 if draw(st.booleans()) else None
    return BlockCSR.from_edge_index(edges, weight, num_nodes=hubs + leaves)


def rows_of(block, graph):
    """Return the rows of one graph as lists of (neighbour, weight), with local ids."""
    one = block.take([graph])
    weight = one.weights_or_ones()
    return [
        list(zip(one.indices[a:b].tolist(), weight[a:b].tolist(), strict=True))
        for a, b in zip(one.indptr[:-1], one.indptr[1:], strict=True)
    ]


def local_clusters(block, assignment):
    """Return the clusters of each graph, counted from 0."""
    starts = assignment.super_ptr[:-1][block.graph_of_node()]
    local = assignment.cluster - starts
    return [local[a:b].tolist() for a, b in zip(block.node_ptr[:-1], block.node_ptr[1:], strict=True)]


def component_sizes(block, cluster):
    """Return the number of nodes and of supernodes of each connected component."""
    label, component_ptr = csr.components(block.indptr, block.indices, block.node_ptr)
    supernodes = [len(np.unique(cluster[label == c])) for c in range(component_ptr[-1])]
    return np.bincount(label, minlength=component_ptr[-1]), np.array(supernodes, np.int64)


# Equal to the reference --------------------------------------------------------------------------------------------


@given(blocks(max_graphs=3), st.integers(0, 5), SCORES, st.booleans())
def test_one_matching_equals_the_greedy_one(block, seed, score, two_hop):
    found = METHOD.assign(block, HEMParams(score=score, two_hop=two_hop), RandomKey(seed, 1))
    expected = [
        reference.match_once(rows_of(block, g), seed, 1, score, two_hop) for g in range(block.num_graphs)
    ]
    assert local_clusters(block, found) == expected


@given(blocks(max_graphs=3), st.integers(0, 5), SCORES, st.booleans(), st.booleans())
def test_nested_levels_equal_the_greedy_ones(block, seed, score, two_hop, balanced):
    params = HEMParams(ratios=RATIOS, score=score, two_hop=two_hop, balanced=balanced)
    found = METHOD.assign_levels(block, params, RandomKey(seed), len(RATIOS))
    few = 0.3 if two_hop else 0.05
    expected = [
        reference.match_to_ratios(
            rows_of(block, g), seed, 0, RATIOS, reference.Balanced(score) if balanced else score, few
        )
        for g in range(block.num_graphs)
    ]
    below = block
    for number, assignment in enumerate(found):
        assert local_clusters(below, assignment) == [levels[number] for levels in expected]
        below = BlockCSR(np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr)  # fmt: skip


@settings(max_examples=150)
@given(hub_graphs(), st.integers(0, 5), SCORES, st.booleans())
def test_nodes_of_few_hubs_equal_the_greedy_ones(block, seed, score, two_hop):
    """Most nodes are merged over a common neighbour: equal neighbours first, then others, up to a share of the nodes."""
    params = {"score": score, "two_hop": two_hop}
    found = METHOD.assign(block, HEMParams(**params), RandomKey(seed))
    assert found.cluster.tolist() == reference.match_once(rows_of(block, 0), seed, 0, score, two_hop)
    levels = METHOD.assign_levels(block, HEMParams(ratios=RATIOS, **params), RandomKey(seed), len(RATIOS))
    expected = reference.match_to_ratios(
        rows_of(block, 0), seed, 0, RATIOS, score, few=0.3 if two_hop else 0.05
    )
    assert [level.cluster.tolist() for level in levels] == expected


@given(blocks(), st.integers(0, 3), st.sampled_from([None, 0.8, 0.6]))
def test_sorting_gives_the_pairs_of_further_rounds(block, seed, ratio):
    """After a number of rounds, the remaining edges are sorted. The result must not depend on this number."""
    expected = METHOD.assign(block, HEMParams(ratio=ratio), RandomKey(seed)).cluster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_matching, "_MAX_ROUNDS", 1)
        found = METHOD.assign(block, HEMParams(ratio=ratio), RandomKey(seed)).cluster
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("ratio", [0.95, 0.8, 0.7])
def test_pairs_that_are_found_by_sorting_have_their_scores(ratio, monkeypatch):
    """If there are more pairs than needed, those of the highest scores remain."""
    block, weight = cycle(200), np.random.default_rng(0).permutation(np.arange(1.0, 201.0))
    ends = np.stack([block.rows(), block.indices])
    edge = np.where(np.abs(ends[0] - ends[1]) == 1, ends.min(axis=0), 199)
    block = BlockCSR(block.indptr, block.indices, weight[edge], block.node_ptr)
    params = HEMParams(score="weight", ratio=ratio)
    expected = METHOD.assign(block, params, RandomKey()).cluster
    monkeypatch.setattr(pair_matching, "_MAX_ROUNDS", 1)
    assert METHOD.assign(block, params, RandomKey()).cluster.tolist() == expected.tolist()


@given(blocks(), st.integers(0, 3), st.booleans(), st.sampled_from([1, 3, 1000]))
def test_shares_without_an_array_give_the_same_pairs(block, seed, sized, rounds):
    """Scores of large graphs are computed where they are needed."""
    params = HEMParams(ratio=0.3) if sized else HEMParams()
    expected = METHOD.assign(block, params, RandomKey(seed)).cluster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hem, "_LARGE", 0)
        patch.setattr(pair_matching, "_MAX_ROUNDS", rounds)
        found = METHOD.assign(block, params, RandomKey(seed)).cluster
    assert found.tolist() == expected.tolist()


def test_a_path_with_ascending_weights_has_the_heaviest_edges():
    """Every round of local maxima finds one pair here."""
    size = 400
    block = path(size)
    weight = np.maximum(block.rows(), block.indices).astype(np.float64)
    block = BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
    found = METHOD.assign(block, HEMParams(score="weight"), RandomKey())
    assert found.cluster.tolist() == (np.arange(size) // 2).tolist()


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
@pytest.mark.parametrize("source", [0, 1])
def test_parallel_edges_of_one_direction_are_edges(source, copies):
    """Two copies of an edge from the larger to the smaller node cancelled out in the test for undirected graphs."""
    edges = np.array([[source] * copies, [1 - source] * copies])
    block = BlockCSR.from_edge_index(edges, num_nodes=2)
    assert METHOD.assign(block, HEMParams(), RandomKey()).cluster.tolist() == [0, 0]


# Exact sizes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("schedule", ["hem:ratio=0.5", "hem:ratio=0.07", "hem:ratio=0.3:two_hop=false"])
def test_every_component_has_the_exact_size(family, schedule):
    block = FAMILIES[family](1500)
    ratio = float(schedule.split("=")[1].split(":")[0])
    nodes, supernodes = component_sizes(block, coarsen(block, schedule).levels[0].assignment.cluster)
    assert supernodes.tolist() == [reference.kept(int(n), ratio) for n in nodes]


@given(blocks(max_graphs=4), st.integers(1, 12))
def test_number_of_nodes(block, nodes):
    level = coarsen(block, [("hem", {"nodes": nodes})]).levels[0]
    sizes = np.diff(block.node_ptr)
    _, component_ptr = csr.components(block.indptr, block.indices, block.node_ptr)
    expected = np.clip(nodes, np.diff(component_ptr), np.maximum(sizes, np.diff(component_ptr)))
    assert np.diff(level.assignment.super_ptr).tolist() == expected.tolist()


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.55, 0.7, 1.0])
def test_ratios_are_decimal_numbers(ratio):
    sizes = np.arange(1, 2000)
    assert count_kept(sizes, ratio).tolist() == [reference.kept(int(n), ratio) for n in sizes]


@given(
    st.lists(st.lists(st.integers(1, 30), max_size=5), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(0, 6),
)
def test_nodes_are_divided_over_components(graphs, nodes, keep_small):
    sizes = np.array([n for graph in graphs for n in graph], np.int64)
    component_ptr = np.cumsum([0, *map(len, graphs)])
    targets = component_targets(sizes, component_ptr, SizeParams(nodes=nodes, keep_small=keep_small))
    assert ((targets >= 1) & (targets <= sizes)).all()
    assert (targets[sizes <= keep_small] == sizes[sizes <= keep_small]).all()
    for a, b in pairwise(component_ptr):
        least = sum(n if n <= keep_small else 1 for n in sizes[a:b])
        assert targets[a:b].sum() == min(max(nodes, least), sizes[a:b].sum())


def test_of_equal_remainders_the_one_of_the_larger_component_is_rounded_up():
    sizes, component_ptr = np.array([2, 4, 3, 3]), np.array([0, 2, 4])
    assert component_targets(sizes, component_ptr, SizeParams(nodes=4)).tolist() == [1, 3, 2, 2]
    assert component_targets(sizes, component_ptr, SizeParams(nodes=3)).tolist() == [1, 2, 2, 1]


def test_the_largest_remainder_is_rounded_up():
    found = component_targets(np.array([5, 4]), np.array([0, 2]), SizeParams(nodes=4))
    assert found.tolist() == [2, 2]  # 8 / 7 and 6 / 7 of the two nodes that are left


def test_small_components_stay_as_they_are():
    block = BlockCSR.concat([path(4), grid2d(6, 6)])
    joined = BlockCSR(block.indptr, block.indices, None, np.array([0, block.num_nodes]))
    cluster = coarsen(joined, "hem:ratio=0.25:keep_small=4").levels[0].assignment.cluster
    assert cluster[:4].tolist() == [0, 1, 2, 3]
    assert len(np.unique(cluster[4:])) == 9


def test_nodes_without_neighbours_stay_alone():
    assert coarsen(isolated(5), "hem:ratio=0.1").levels[0].block.num_nodes == 5
    assert coarsen(isolated(5), "hem").levels[0].block.num_nodes == 5


def test_leaves_of_a_star_are_merged():
    assert coarsen(star(101), "hem").levels[0].block.num_nodes == 51
    assert coarsen(star(101), "hem:two_hop=false").levels[0].block.num_nodes == 100


def test_leaves_are_merged_if_less_than_thirty_percent_of_the_nodes_are_removed():
    for leaves, supernodes in (
        (7, 7),
        (8, 6),
    ):  # three pairs of 10 or 11 nodes, and one or two hubs with lone leaves
        hub = np.minimum(np.arange(leaves), 2)
        block = BlockCSR.from_edge_index([hub, 3 + np.arange(leaves)], num_nodes=3 + leaves)
        assert METHOD.assign(block, HEMParams(two_hop=False), RandomKey()).num_supernodes == leaves
        assert METHOD.assign(block, HEMParams(), RandomKey()).num_supernodes == supernodes


def test_directed_edges_count_in_both_directions():
    block = directed()
    both = BlockCSR.from_edge_index(
        np.concatenate([block.edge_index(), block.edge_index()[::-1]], axis=1), node_ptr=block.node_ptr
    )
    found = [METHOD.assign(b, HEMParams(ratio=0.5), RandomKey()).cluster.tolist() for b in (block, both)]
    assert found[0] == found[1]


@pytest.mark.parametrize("edges", [[[1, 1], [0, 0]], [[0, 0], [1, 1]], [[0, 0, 1, 1], [1, 1, 0, 0]]])
def test_parallel_edges_are_merged(edges):
    graphs = make_undirected(BlockCSR.from_edge_index(edges, num_nodes=2))
    assert graphs.edge_index().tolist() == [[0, 1], [1, 0]]
    assert graphs.weight.tolist() == [len(edges[0]) / 2] * 2


# Independence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["hem", "hem:ratios=0.5/0.2"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_threads_do_not_change_the_result(schedule, count, monkeypatch):
    rng = np.random.default_rng(0)
    block = barabasi_albert(800, 3, seed=2)
    weight = rng.integers(1, 4, block.num_nodes).astype(np.float64)
    both = weight[block.rows()] * weight[block.indices]
    blocks_ = [block, BlockCSR(block.indptr, block.indices, both, block.node_ptr)]
    expected = [[level.assignment.cluster for level in coarsen(b, schedule).levels] for b in blocks_]
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    monkeypatch.setattr(large_ranking, "_MIN_NODES", 1)
    for b, levels in zip(blocks_, expected, strict=True):
        for level, cluster in zip(coarsen(b, schedule).levels, levels, strict=True):
            assert (level.assignment.cluster == cluster).all()


@given(blocks(), st.integers(2, 4), st.booleans())
def test_pairs_of_random_graphs_do_not_depend_on_threads(block, count, two_hop):
    params = HEMParams(two_hop=two_hop)
    expected = METHOD.assign(block, params, RandomKey(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "num_threads", lambda: count)
        patch.setattr(threads, "_MIN_WORK", 0)
        patch.setattr(large_ranking, "_MIN_NODES", 0)
        found = METHOD.assign(block, params, RandomKey(1))
    assert found.cluster.tobytes() == expected.cluster.tobytes()
    assert found.super_ptr.tobytes() == expected.super_ptr.tobytes()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_lone_nodes_of_hubs_are_paired_on_several_threads(count, monkeypatch):
    """Forests of stars: most nodes stay alone and are paired by their hubs, in ranges of hubs."""
    rng = np.random.default_rng(5)
    hub = rng.integers(0, 40, 3000)
    edges = np.stack([hub, np.arange(40, 3040)])
    shuffled = rng.permutation(3040)[np.concatenate([edges, edges[::-1]], 1)]
    block = BlockCSR.from_edge_index(shuffled, num_nodes=3040)
    expected = METHOD.assign(block, HEMParams(), RandomKey())
    assert expected.num_supernodes < 2000
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    monkeypatch.setattr(large_ranking, "_MIN_NODES", 1)
    assert METHOD.assign(block, HEMParams(), RandomKey()).cluster.tobytes() == expected.cluster.tobytes()


def test_graphs_do_not_depend_on_their_block():
    block = toy_block(weighted=True)
    whole = METHOD.assign(block, HEMParams(ratio=0.4), RandomKey(3))
    for g, clusters in enumerate(local_clusters(block, whole)):
        alone = METHOD.assign(block.take([g]), HEMParams(ratio=0.4), RandomKey(3))
        assert alone.cluster.tolist() == clusters


# Wrong values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ratio": 0.0}, "ratio is out of range"),
        ({"ratio": 1.5}, "ratio is out of range"),
        ({"nodes": 0}, "nodes is out of range"),
        ({"ratio": 0.5, "nodes": 3}, "given twice"),
        ({"ratios": (0.3, 0.5)}, "not descending"),
        ({"keep_small": -1}, "keep_small is out of range"),
        ({"score": "length"}, "score is unknown"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ParameterError, match=message):
        HEMParams(**values)


def test_scores_that_are_not_symmetric_are_an_error():
    def score(graphs, cluster):
        return np.arange(graphs.num_edges, dtype=np.float64) % 3

    block = BlockCSR.from_edge_index([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_matching, "_match", _no_pairs)
        with pytest.raises(GraphError, match="the same for both directions"):
            pair_matching.match_to_sizes(block, SizeParams(ratio=0.3), RandomKey(), score)


def _no_pairs(graphs, score, key, draw, free):
    alone = np.arange(graphs.num_nodes, dtype=np.int32)
    return pair_matching._Pairs(
        alone, np.empty(0), np.ones(len(alone), np.uint64), np.zeros(len(alone), bool)
    )
