"""Local variation as a level method: equality with a dense reference, exact sizes, independence of threads and position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import hub_graphs
from tests.reference import hem, lv
from tests.reference.eigen import affinity, components
from tgp.engine import threads
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.level_spec import LevelSpec
from tgp.engine.methods import lv as method
from tgp.engine.methods.lv import METHOD, LVParams
from tgp.engine.undirected import make_undirected
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, cycle, from_pairs, grid2d, isolated, path, star


@st.composite
def weighted_graphs(draw):
    """Draw a graph with random weights, whose eigenvalues are different from each other."""
    size = draw(st.integers(1, 14))
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    return from_pairs(size, chosen, rng.uniform(0.5, 2.0, len(chosen)).tolist())


def rows_of(block):
    return [
        [(int(block.indices[e]), float(block.weights_or_ones()[e])) for e in range(*block.indptr[i : i + 2])]
        for i in range(block.num_nodes)
    ]


def has_gaps(block, modes):
    """Return True if the span of the modes of every component is well defined."""
    matrix = affinity(block)
    for part in components(matrix):
        nodes = sorted(part)
        values = np.linalg.eigvalsh(lv.laplacian(matrix[np.ix_(nodes, nodes)]))
        if len(values) > modes and values[modes] - values[modes - 1] < 1e-3:
            return False
    return True


@given(weighted_graphs(), st.sampled_from([2, 3, 10]), st.booleans(), st.integers(0, 5))
def test_one_matching_equals_the_reference(block, modes, two_hop, seed):
    if not has_gaps(block, modes):
        return
    found = METHOD.assign(block, LVParams(num_modes=modes, two_hop=two_hop), RandomKey(seed, 1))
    expected = hem.match_once(rows_of(block), seed, 1, lv.Scores(modes), two_hop)
    assert found.validate(block.node_ptr).cluster.tolist() == expected


@given(weighted_graphs(), st.sampled_from([2, 3, 10]), st.booleans(), st.booleans(), st.integers(0, 5))
def test_nested_levels_equal_the_reference(block, modes, two_hop, balanced, seed):
    if not has_gaps(block, modes):
        return
    ratios = (0.6, 0.35, 0.1)
    params = LVParams(num_modes=modes, two_hop=two_hop, ratios=ratios, balanced=balanced)
    found = METHOD.assign_levels(block, params, RandomKey(seed, 2), 3)
    scores = hem.Balanced(lv.Scores(modes)) if balanced else lv.Scores(modes)
    expected = hem.match_to_ratios(rows_of(block), seed, 2, ratios, scores, 0.3 if two_hop else 0.05)
    assert [level.cluster.tolist() for level in found] == expected


@given(hub_graphs(), st.integers(0, 999), st.sampled_from([0.9, 0.7, 0.5]))
def test_pairs_of_neighbours_are_kept_before_pairs_of_distant_nodes(block, seed, ratio):
    """The reference takes pairs over a common neighbour after all others."""
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, block.num_edges)
    block = make_undirected(BlockCSR(block.indptr, block.indices, weight, block.node_ptr))
    if not has_gaps(block, 3):
        return
    found = METHOD.assign(block, LVParams(num_modes=3, ratio=ratio), RandomKey(seed))
    expected = hem.match_to_ratios(rows_of(block), seed, 0, (ratio,), lv.Scores(3))
    assert found.cluster.tolist() == expected[0]


def neighborhoods(**options):
    return LVParams(sets="neighborhoods", **options)


@given(weighted_graphs(), st.sampled_from([2, 3, 10]), st.booleans(), st.booleans(), st.integers(0, 5))
def test_one_round_of_neighborhoods_equals_the_reference(block, modes, two_hop, balanced, seed):
    if not has_gaps(block, modes):
        return
    params = neighborhoods(num_modes=modes, two_hop=two_hop, balanced=balanced)
    found = METHOD.assign(block, params, RandomKey(seed, 1)).validate(block.node_ptr)
    expected = lv.Neighborhoods(modes, two_hop, balanced, method.MOST_CUTS)
    assert found.cluster.tolist() == expected.merge_once(rows_of(block), seed, 1)


@given(
    weighted_graphs(), st.sampled_from([2, 3, 10]), st.booleans(), st.booleans(), st.sampled_from([0, 1, 8]),
    st.integers(0, 5),
)  # fmt: skip
def test_nested_levels_of_neighborhoods_equal_the_reference(block, modes, two_hop, balanced, cuts, seed):
    if not has_gaps(block, modes):
        return
    ratios = (0.6, 0.35, 0.1)
    params = neighborhoods(num_modes=modes, two_hop=two_hop, balanced=balanced, ratios=ratios)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "MOST_CUTS", cuts)
        found = METHOD.assign_levels(block, params, RandomKey(seed, 2), 3)
    expected = lv.Neighborhoods(modes, two_hop, balanced, cuts).merge_to_ratios(
        rows_of(block), seed, 2, ratios
    )
    assert [level.cluster.tolist() for level in found] == expected


def test_later_rounds_merge_neighborhoods_too():
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 39).tolist()
    graph = from_pairs(40, [(i, i + 1) for i in range(39)], weights)
    found = METHOD.assign(graph, neighborhoods(ratio=0.1), RandomKey()).cluster
    expected = lv.Neighborhoods(10, True, False, method.MOST_CUTS).merge_to_ratios(
        rows_of(graph), 0, 0, (0.1,)
    )
    assert found.tolist() == expected[0]


@pytest.mark.parametrize("graph", [grid2d(12, 15), barabasi_albert(400, 2, seed=3), star(50), path(100)])
@pytest.mark.parametrize("ratio", [0.5, 0.1])
@pytest.mark.parametrize("sets", ["edges", "neighborhoods"])
def test_the_ratio_is_exact(graph, ratio, sets):
    level = coarsen(graph, f"lv:ratio={ratio}:sets={sets}").levels[0]
    assert level.block.num_nodes == int(np.ceil(ratio * graph.num_nodes))


@pytest.mark.parametrize("sets", ["edges", "neighborhoods"])
def test_nodes_and_small_components(sets):
    graph = from_pairs(30, [(i, i + 1) for i in range(19)] + [(i, i + 1) for i in range(20, 29)])
    assert coarsen(graph, f"lv:nodes=7:sets={sets}").levels[0].block.num_nodes == 7
    assert coarsen(graph, f"lv:ratio=0.1:keep_small=10:sets={sets}").levels[0].block.num_nodes == 2 + 10


def test_the_smoothest_pairs_of_a_path_are_at_its_ends():
    """The second eigenvector of a path is a cosine: it is flat at the ends."""
    found = METHOD.assign(path(12), LVParams(num_modes=2, nodes=10), RandomKey())
    assert found.cluster.tolist() == [0, 0, *range(1, 9), 9, 9]


def test_a_bridge_is_contracted_last():
    clique = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    graph = from_pairs(8, clique + [(i + 4, j + 4) for i, j in clique] + [(0, 4)])
    found = coarsen(graph, "lv:nodes=2:num_modes=2").levels[0].assignment.cluster
    assert found.tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("sets", ["edges", "neighborhoods"])
def test_edges_without_weight_are_taken_last(sets):
    graph = from_pairs(4, [(0, 1), (0, 2), (2, 3)], [1.0, 0.0, 1.0])  # nodes 0 and 2 have equal modes
    assert METHOD.assign(graph, LVParams(nodes=2, sets=sets), RandomKey()).cluster.tolist() == [0, 0, 1, 1]
    assert METHOD.assign(graph, LVParams(nodes=1, sets=sets), RandomKey()).cluster.tolist() == [0, 0, 0, 0]


def test_edges_without_weight_belong_to_no_neighborhood():
    graph = from_pairs(4, [(0, 1), (0, 2), (2, 3)], [1.0, 0.0, 1.0])
    assert METHOD.assign(graph, neighborhoods(), RandomKey()).cluster.tolist() == [0, 0, 1, 1]
    assert METHOD.assign(graph, neighborhoods(ratio=0.5), RandomKey()).cluster.tolist() == [0, 0, 1, 1]


def test_a_star_is_one_set_and_is_cut_to_reach_a_size():
    assert METHOD.assign(star(30), neighborhoods(), RandomKey()).num_supernodes == 1
    found = METHOD.assign(star(30), neighborhoods(nodes=10), RandomKey()).cluster
    assert np.bincount(found).tolist() == [21] + [1] * 9


def test_a_star_with_many_leaves_takes_one_set():
    assert METHOD.assign(star(100_000), neighborhoods(ratio=0.1), RandomKey()).num_supernodes == 10_000


@given(weighted_graphs(), st.integers(0, 5))
def test_sets_with_a_centre_are_connected(block, seed):
    found = METHOD.assign(block, neighborhoods(two_hop=False), RandomKey(seed)).cluster
    matrix = affinity(block) * (found[:, None] == found)
    assert sorted(map(min, components(matrix))) == sorted(np.unique(found, return_index=True)[1].tolist())


def test_without_a_centre_the_neighbours_of_a_node_can_be_merged():
    cross = from_pairs(9, [(4, 1), (4, 3), (4, 5), (4, 7), (1, 0), (1, 2), (7, 6), (7, 8), (3, 0), (5, 2), (3, 6), (5, 8)])  # fmt: skip
    clusters = [METHOD.assign(cross, neighborhoods(two_hop=on), RandomKey()) for on in (True, False)]
    assert clusters[0].num_supernodes < clusters[1].num_supernodes


def test_no_free_neighbours_remain():
    graph = barabasi_albert(300, 3, seed=5)
    for two_hop in (True, False):
        found = METHOD.assign(graph, neighborhoods(two_hop=two_hop), RandomKey()).cluster
        alone = np.bincount(found)[found] == 1
        source, target = graph.edge_index()
        assert not (alone[source] & alone[target]).any()


def test_self_loops_have_no_effect():
    graph = grid2d(6, 7)
    source, target = graph.edge_index()
    loops = np.arange(graph.num_nodes)
    edges = np.concatenate([np.stack([source, target]), np.stack([loops, loops])], 1)
    looped = BlockCSR.from_edge_index(edges, num_nodes=graph.num_nodes)
    found = [METHOD.assign(block, neighborhoods(ratio=0.2), RandomKey()).cluster for block in (graph, looped)]
    assert found[0].tolist() == found[1].tolist()


def test_another_seed_merges_other_sets_of_equal_cost():
    graph, params = cycle(12), neighborhoods(num_modes=12)  # all modes: no node differs from the others
    found = {tuple(METHOD.assign(graph, params, RandomKey(seed)).cluster) for seed in range(6)}
    assert len(found) > 1


def test_a_component_that_waits_keeps_its_modes():
    costs = method._NegativeCosts(5)
    block = BlockCSR.concat([grid2d(5, 7), path(9)])
    costs(block, None)
    before = costs.basis.copy()
    cluster = np.concatenate([np.arange(35), np.repeat([35, 36, 37], 3)]).astype(np.int32)
    coarse = BlockCSR.concat([grid2d(5, 7), path(3)])
    costs(coarse, cluster)
    assert costs.basis[:35].tobytes() == before[:35].tobytes()
    assert not np.allclose(costs.basis[35:, 0], before[[35, 38, 41], 0])


@pytest.mark.parametrize("sets", ["edges", "neighborhoods"])
def test_a_graph_without_edges_stays(sets):
    assert METHOD.assign(isolated(3), LVParams(sets=sets), RandomKey()).cluster.tolist() == [0, 1, 2]
    assert METHOD.assign(isolated(3), LVParams(sets=sets, nodes=1), RandomKey()).num_supernodes == 3


@pytest.mark.parametrize("sets", ["edges", "neighborhoods"])
def test_threads_and_position_have_no_effect(monkeypatch, sets):
    graph = barabasi_albert(2500, 3, seed=1)  # solved by iterations
    small = grid2d(9, 9)
    block = BlockCSR.concat([small, graph, small])
    params = LVParams(ratios=(0.5, 0.2), sets=sets)
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    levels = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        levels.append([a.cluster for a in METHOD.assign_levels(block, params, RandomKey(), 2)])
    for first, second in zip(*levels, strict=True):
        assert first.tobytes() == second.tobytes()
    alone = [a.cluster for a in METHOD.assign_levels(graph, params, RandomKey(), 2)]
    assert (levels[0][0][81:-81] - levels[0][0][81]).tolist() == alone[0].tolist()
    others = levels[0][0][:81].max() + 1  # supernodes of the small graph
    assert (levels[0][1][others:-others] - levels[0][1][others]).tolist() == alone[1].tolist()


def test_modest_eigenvectors_give_nearly_the_costs_of_exact_ones():
    from tgp.engine.laplacian_eigs import EXACT
    from tgp.engine.methods import lv as method

    graph = barabasi_albert(3000, 2, seed=2)
    fast = method._NegativeCosts(10)(graph, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "MODES", EXACT)
        exact = method._NegativeCosts(10)(graph, None)
    assert np.abs(fast - exact).sum() < -0.2 * exact.sum()


@pytest.mark.parametrize(
    "params",
    [
        {"num_modes": 1},
        {"num_modes": True},
        {"ratio": 0.0},
        {"ratio": 0.5, "nodes": 3},
        {"sets": "cliques"},
        {"sets": None},
    ],
)
def test_wrong_parameters(params):
    with pytest.raises(ParameterError, match="expected"):
        LVParams(**params)


def test_an_unknown_family_of_sets_is_named():
    with pytest.raises(ParameterError, match="expected one of edges, neighborhoods, got 'cliques'"):
        LVParams(sets="cliques")
    with pytest.raises(ParameterError, match="lv:sets"):
        coarsen(path(3), "lv:sets=stars")


def test_edges_are_the_default_and_stay_out_of_the_stored_parameters():
    assert LVParams() == LVParams(sets="edges")
    assert "sets" not in LevelSpec.of("lv").to_json()["params"]
    spec = LevelSpec.of("lv", {"sets": "neighborhoods"})
    assert spec.to_json()["params"]["sets"] == "neighborhoods" and str(spec) == "lv:sets=neighborhoods"


def test_bounds_of_neighborhoods_are_larger():
    sizes = GraphSizes(np.array([5000]), np.array([40000]), np.array([300]))
    edges, sets = (METHOD.bound(sizes, LVParams(sets=name)) for name in ("edges", "neighborhoods"))
    assert sets.seconds[0] > edges.seconds[0] and sets.memory[0] > edges.memory[0]
