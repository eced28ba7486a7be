"""k-MIS as a level method: golden sets, equality with the reference, independence of position."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.reference import kmis as reference
from tgp.engine import parse_schedule, threads
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import kmis
from tgp.engine.methods.kmis import METHOD, KMISParams, assign_by_order, assign_by_score
from tgp.errors import InputError, ParameterError
from tgp.kernels import _prims
from tgp.ragged import BlockCSR
from tgp.testing.graphs import complete, from_pairs, isolated, karate, path, star
from tgp.testing.strategies import blocks, graphs

HEURISTICS = [None, "greedy", "w-greedy"]


def assign(block, key=None, **params):
    return METHOD.assign(block, KMISParams(**params), key or RandomKey()).validate(block.node_ptr)


@given(blocks())
def test_degrees_rank_nodes_like_their_fractions(block):
    """Unweighted graphs are ranked by the degree, which is sorted faster than ``d / (d + 1)``."""
    block = BlockCSR(block.indptr, block.indices, None, block.node_ptr)
    found = assign(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tgp.engine.methods.kmis._ranks_by_degree", lambda *given: False)
        expected = assign(block)
    assert found.cluster.tobytes() == expected.cluster.tobytes()
    assert found.representative.tobytes() == expected.representative.tobytes()


def test_neighbouring_degrees_have_different_fractions():
    degree = np.arange(2**26 - 10**5, 2**26, dtype=np.float64)
    assert (np.diff(degree / (degree + 1.0)) > 0.0).all()


def members(block, **params):
    return assign(block, **params).representative.tolist()


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_golden_karate_one_hop(heuristic):
    assert members(karate(), score_heuristic=heuristic) == [0, 16, 24, 33]


@pytest.mark.parametrize(("heuristic", "expected"), [("greedy", [7, 16, 33]), ("w-greedy", [1, 16, 24, 29])])
def test_golden_karate_two_hops(heuristic, expected):
    assert members(karate(), order_k=2, score_heuristic=heuristic) == expected


def test_golden_karate_two_hops_where_ties_decide():
    # The golden table has {6, 33}. Nodes 5 and 6 both have degree 4, and an unstable sort can put either first.
    # In tgp the smaller index is first.
    found = assign(karate(), order_k=2, score_heuristic=None)
    assert found.weight[5] == found.weight[6] == 4
    assert found.representative.tolist() == [5, 33]


def test_golden_path_and_isolated_node():
    block = from_pairs(6, [(0, 1), (1, 2), (2, 3), (3, 4)])
    found = assign(block)
    assert found.representative.tolist() == [1, 3, 5]
    assert found.cluster.tolist() == [0, 0, 0, 1, 1, 2]
    assert found.weight.tolist() == [1, 2, 2, 2, 1, 0]
    assert found.weight.dtype == np.float32


def scores(scorer, part, key, edges, weights):
    n = part.num_nodes
    if scorer == "degree":
        return reference.in_degree(n, edges, weights)
    if scorer == "random":
        return np.array([_prims.hash_uniform(key.seed, key.level, i, 0) for i in range(n)])
    return np.ones(n) if scorer == "constant" else -np.arange(n, dtype=float)


@pytest.mark.parametrize("scorer", ["random", "constant", "canonical", "degree"])
@pytest.mark.parametrize("heuristic", HEURISTICS)
@given(block=graphs(min_nodes=1, max_nodes=10), k=st.integers(1, 3), forced=st.booleans())
def test_equal_to_the_reference(scorer, heuristic, block, k, forced):
    key = RandomKey(5, 2)
    edges, weights = block.edge_index().T.tolist(), block.weight
    if forced:
        edges, weights = reference.max_both_ways(edges, weights)
    else:
        edges, weights = reference.both_ways(edges, weights)
    score = scores(scorer, block, key, edges, weights)
    order = reference.ranking(score, block.num_nodes, edges, k, heuristic)
    chosen, clusters = reference.rounds(order, block.num_nodes, edges, k)
    found = assign(block, key, scorer=scorer, score_heuristic=heuristic, order_k=k, force_undirected=forced)
    assert found.representative.tolist() == chosen.tolist()
    assert found.cluster.tolist() == clusters.tolist()
    assert found.weight.tolist() == score.astype(np.float32).tolist()


@given(graphs(min_nodes=1, max_nodes=14, max_edges=30), st.integers(1, 4))
def test_the_set_is_independent_and_maximal(block, k):
    found = assign(block, order_k=k)
    edges, _ = reference.both_ways(block.edge_index().T)
    step = (reference.counts(block.num_nodes, edges) + np.eye(block.num_nodes)) > 0
    near = np.linalg.matrix_power(step.astype(float), k) > 0
    chosen = found.representative
    assert (near[np.ix_(chosen, chosen)] == np.eye(len(chosen))).all()
    assert near[chosen[found.cluster], np.arange(block.num_nodes)].all()


@given(
    blocks(max_nodes=9),
    st.sampled_from(["random", "canonical", "degree"]),
    st.sampled_from(HEURISTICS),
    st.randoms(use_true_random=False),
)
def test_a_hierarchy_does_not_depend_on_the_block(block, scorer, heuristic, random):
    order = list(range(block.num_graphs))
    random.shuffle(order)
    params = {"scorer": scorer, "score_heuristic": heuristic}
    moved = assign(block.take(order), **params)
    alone = [assign(part, **params) for part in block.split()]
    assert np.diff(moved.super_ptr).tolist() == [alone[g].num_supernodes for g in order]
    nodes = block.take(order).node_ptr
    for place, g in enumerate(order):
        mine = slice(nodes[place], nodes[place + 1])
        assert (moved.cluster[mine] - moved.super_ptr[place]).tolist() == alone[g].cluster.tolist()
        assert np.array_equal(moved.weight[mine], alone[g].weight, equal_nan=True)
        members = moved.representative[moved.super_ptr[place] : moved.super_ptr[place + 1]] - nodes[place]
        assert members.tolist() == alone[g].representative.tolist()


def test_the_result_does_not_depend_on_threads(monkeypatch):
    block = BlockCSR.concat([karate(), path(70), star(9), isolated(3), complete(12)] * 8)
    expected = assign(block, order_k=2, scorer="random")
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    for count in (2, 3, 7):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        found = assign(block, order_k=2, scorer="random")
        assert np.array_equal(found.cluster, expected.cluster)
        assert np.array_equal(found.weight, expected.weight)


@given(seed=st.integers(0, 10**6))
def test_relabelling_nodes_relabels_the_set(seed):
    # Degrees from random weights are all different.
    rng = np.random.default_rng(seed)
    n = 15
    pairs, weight, order = rng.integers(0, n, (25, 2)), rng.random(25), rng.permutation(n)
    before = set(members(from_pairs(n, pairs, weight), score_heuristic=None))
    after = set(members(from_pairs(n, order[pairs], weight), score_heuristic=None))
    # Isolated nodes all have degree 0, but each of them is a member.
    assert {int(order[i]) for i in before} == after


def test_random_scores_are_seeded_per_level():
    block = path(50)
    first = assign(block, RandomKey(1, 0), scorer="random").weight
    assert np.array_equal(first, assign(block, RandomKey(1, 0), scorer="random").weight)
    assert not np.array_equal(first, assign(block, RandomKey(2, 0), scorer="random").weight)
    assert not np.array_equal(first, assign(block, RandomKey(1, 1), scorer="random").weight)
    assert first.min() >= 0 and first.max() <= 1


def test_canonical_scores_count_inside_each_graph():
    # tgp 1.0.2 counts through the batch. Here the scores must not depend on the position.
    found = assign(BlockCSR.concat([path(3), path(3)]), scorer="canonical", score_heuristic=None)
    assert found.weight.tolist() == [0, -1, -2, 0, -1, -2]
    assert found.representative.tolist() == [0, 2, 3, 5]


def test_weighted_greedy_on_isolated_nodes_is_not_a_number_and_harmless():
    block = from_pairs(5, [(0, 1), (1, 2)])
    found = assign(block, score_heuristic="w-greedy")
    # 1/3 < 2/4 < 0/0: the isolated nodes 3 and 4 rank first, then the middle of the path.
    assert found.representative.tolist() == [1, 3, 4]
    assert found.cluster.tolist() == [0, 0, 0, 1, 2]
    assert found.weight.tolist() == [1, 2, 1, 0, 0]


def test_self_loops_change_scores_only():
    plain, looped = from_pairs(3, [(0, 1), (1, 2)]), from_pairs(3, [(0, 1), (1, 2), (0, 0), (0, 0)])
    assert members(plain, score_heuristic=None) == [1]
    assert assign(looped, score_heuristic=None).weight.tolist() == [3, 2, 1]
    assert members(looped, score_heuristic=None) == [0, 2]


def test_large_k_is_one_cluster_per_component():
    block = from_pairs(7, [(0, 1), (1, 2), (2, 3), (4, 5)])
    assert assign(block, order_k=99).cluster.tolist() == [0, 0, 0, 0, 1, 1, 2]


def test_a_huge_k_ends_when_nothing_changes(monkeypatch):
    """Sums over paths of many hops are infinite, and more hops cannot change them."""
    passes = []
    add_incoming = kmis._add_incoming
    monkeypatch.setattr(kmis, "_add_incoming", lambda *args: passes.append(1) or add_incoming(*args))
    block = from_pairs(7, [(0, 1), (1, 2), (2, 3), (4, 5)])
    assert assign(block, order_k=2**40).cluster.tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert len(passes) <= 1100
    assert assign_by_order(block, order_k=2**40).cluster.tolist() == [0, 0, 0, 0, 1, 1, 2]


def test_directed_edges_count_both_ways():
    # tgp 1.0.2 follows the direction of edges, so that node 2 has no neighbour 1.
    arrows = from_pairs(4, [(1, 0), (1, 2), (3, 2)], both_ways=False)
    assert members(arrows) == members(path(4)) == [1, 3]
    [level] = coarsen(arrows, "kmis").levels
    assert level.block.edge_index().tolist() == [[0, 1], [1, 0]]
    # A graph whose edges all have a reverse edge keeps its weights, even if they differ.
    uneven = from_pairs(3, [(0, 1), (1, 0), (1, 2), (2, 1)], [1.0, 5.0, 1.0, 1.0], both_ways=False)
    assert assign(uneven, score_heuristic=None).weight.tolist() == [5, 2, 1]
    assert assign(uneven, force_undirected=True).weight.tolist() == [5, 6, 1]


def test_given_scores_and_orders():
    params = KMISParams(score_heuristic=None)
    assert assign_by_score(path(4), [0, 3, 2, 9], params).representative.tolist() == [1, 3]
    assert assign_by_score(path(4), [0, np.nan, 2, 9], params).representative.tolist() == [1, 3]
    assert assign_by_order(path(4)).representative.tolist() == [0, 2]
    assert assign_by_order(path(4), [3, 2, 1, 0]).representative.tolist() == [1, 3]
    assert assign_by_order(path(4), order_k=3).cluster.tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match=r"\[4\]"):
        assign_by_score(path(4), [1.0], params)
    for order in ([0, 1, 2], [0, 0, 1, 2], [0, 1, 2, 4]):
        with pytest.raises(InputError, match="0 to 3"):
            assign_by_order(path(4), order)


def test_coarse_graph_ignores_scores():
    [level] = coarsen(path(5), "kmis:count_edges=true").levels
    assert level.assignment.representative.tolist() == [1, 3]
    assert level.block.weight.tolist() == [1, 1]
    assert coarsen(path(5), "kmis").levels[0].block.weight is None


def test_parameters():
    assert KMISParams().scorer == "degree"
    schedule = "kmis:order_k=2:scorer=random:score_heuristic=none:force_undirected=true"
    assert coarsen(path(9), schedule, seed=3).levels[0].assignment.num_supernodes >= 2
    with pytest.raises(ParameterError, match=r"order_k .*got 0"):
        KMISParams(order_k=0)
    with pytest.raises(ParameterError, match="got 'linear'"):
        KMISParams(scorer="linear")
    with pytest.raises(ParameterError, match="got 'best'"):
        KMISParams(scorer="best")
    with pytest.raises(ParameterError, match="w-greedy"):
        KMISParams(score_heuristic="lazy")


def test_blocks_without_nodes():
    for block in (BlockCSR.concat([]), BlockCSR.concat([isolated(0), isolated(0)])):
        found = assign(block, order_k=2)
        assert found.num_supernodes == 0 and len(found.cluster) == 0


# Divided clusters --------------------------------------------------------------------------------------------------


def test_a_large_cluster_is_divided_by_the_index_of_its_nodes():
    """The hub is the representative of its part, and the smallest node that of the others."""
    found = assign(star(11), max_size=4)
    assert found.cluster.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert found.representative.tolist() == [0, 4, 8]
    hub_last = from_pairs(6, [(5, i) for i in range(5)])
    divided = assign(hub_last, max_size=3)
    assert divided.cluster.tolist() == [0, 0, 0, 1, 1, 1]
    assert divided.representative.tolist() == [0, 5]
    assert members(star(11), max_size=11) == members(star(11))


@given(blocks(), st.integers(2, 5), st.sampled_from(["degree", "random"]))
def test_divided_clusters_equal_the_reference(block, max_size, scorer):
    whole, divided = assign(block, scorer=scorer), assign(block, scorer=scorer, max_size=max_size)
    clusters = {}
    for node, cluster in enumerate(whole.cluster.tolist()):
        clusters.setdefault(cluster, []).append(node)
    expected = {}
    for cluster, nodes in clusters.items():
        count = -(-len(nodes) // max_size)
        parts = [[n for i, n in enumerate(nodes) if i * count // len(nodes) == p] for p in range(count)]
        assert max(map(len, parts)) <= max_size
        for part in parts:
            member = whole.representative[cluster]
            expected[int(member) if member in part else part[0]] = part
    names = sorted(expected)
    assert divided.representative.tolist() == names
    assert all(divided.cluster[node] == names.index(name) for name in names for node in expected[name])
    assert divided.weight.tobytes() == whole.weight.tobytes()
    for graph, (low, high) in enumerate(pairwise(block.node_ptr.tolist())):
        assert sum(low <= name < high for name in names) == np.diff(divided.super_ptr)[graph]


def test_levels_do_not_collapse_with_a_largest_size():
    block = FAMILIES["BA"](20_000)
    assert coarsen(block, "kmis*3").levels[-1].block.num_nodes == 1
    sizes = [
        block.num_nodes,
        *(level.block.num_nodes for level in coarsen(block, "kmis:max_size=8*3").levels),
    ]
    assert all(after >= before / 8 for before, after in pairwise(sizes))


def test_the_largest_size_in_schedules_and_layers():
    [plain], [changed] = (parse_schedule(text).to_json() for text in ("kmis", "kmis:max_size=4"))
    assert "max_size" not in plain["params"] and changed["params"]["max_size"] == 4
    for wrong in ("1", "0", "-3", "2.5"):
        with pytest.raises(ParameterError, match="max_size"):
            parse_schedule(f"kmis:max_size={wrong}")
    import torch

    from tgp.poolers import get_pooler

    layer = get_pooler("kmis", scorer="degree", max_size=4)
    out = layer(x=torch.ones(11, 1), adj=torch.from_numpy(star(11).edge_index()))
    assert out.so.cluster.tolist() == assign(star(11), max_size=4).cluster.tolist()
    assert out.so.mis.tolist() == [0, 4, 8]
