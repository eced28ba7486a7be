"""Local variation as a level method: equality with a dense reference, exact sizes, independence of threads and position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import hem, lv
from tests.reference.eigen import affinity, components
from tgp.engine import threads
from tgp.engine.coarsening import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.lv import METHOD, LVParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, from_pairs, grid2d, isolated, path, star


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


@pytest.mark.parametrize("graph", [grid2d(12, 15), barabasi_albert(400, 2, seed=3), star(50), path(100)])
@pytest.mark.parametrize("ratio", [0.5, 0.1])
def test_the_ratio_is_exact(graph, ratio):
    level = coarsen(graph, f"lv:ratio={ratio}").levels[0]
    assert level.block.num_nodes == int(np.ceil(ratio * graph.num_nodes))


def test_nodes_and_small_components():
    graph = from_pairs(30, [(i, i + 1) for i in range(19)] + [(i, i + 1) for i in range(20, 29)])
    assert coarsen(graph, "lv:nodes=7").levels[0].block.num_nodes == 7
    assert coarsen(graph, "lv:ratio=0.1:keep_small=10").levels[0].block.num_nodes == 2 + 10


def test_the_smoothest_pairs_of_a_path_are_at_its_ends():
    """The second eigenvector of a path is a cosine: it is flat at the ends."""
    found = METHOD.assign(path(12), LVParams(num_modes=2, nodes=10), RandomKey())
    assert found.cluster.tolist() == [0, 0, *range(1, 9), 9, 9]


def test_a_bridge_is_contracted_last():
    clique = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    graph = from_pairs(8, clique + [(i + 4, j + 4) for i, j in clique] + [(0, 4)])
    found = coarsen(graph, "lv:nodes=2:num_modes=2").levels[0].assignment.cluster
    assert found.tolist() == [0] * 4 + [1] * 4


def test_edges_without_weight_are_taken_last():
    graph = from_pairs(4, [(0, 1), (0, 2), (2, 3)], [1.0, 0.0, 1.0])  # nodes 0 and 2 have equal modes
    assert METHOD.assign(graph, LVParams(nodes=2), RandomKey()).cluster.tolist() == [0, 0, 1, 1]
    assert METHOD.assign(graph, LVParams(nodes=1), RandomKey()).cluster.tolist() == [0, 0, 0, 0]


def test_a_graph_without_edges_stays():
    assert METHOD.assign(isolated(3), LVParams(), RandomKey()).cluster.tolist() == [0, 1, 2]


def test_threads_and_position_have_no_effect(monkeypatch):
    graph = barabasi_albert(2500, 3, seed=1)  # solved by iterations
    small = grid2d(9, 9)
    block = BlockCSR.concat([small, graph, small])
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    levels = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        levels.append(
            [a.cluster for a in METHOD.assign_levels(block, LVParams(ratios=(0.5, 0.2)), RandomKey(), 2)]
        )
    for first, second in zip(*levels, strict=True):
        assert first.tobytes() == second.tobytes()
    alone = METHOD.assign_levels(graph, LVParams(ratios=(0.5, 0.2)), RandomKey(), 2)[0].cluster
    assert (levels[0][0][81:-81] - levels[0][0][81]).tolist() == alone.tolist()


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
    "params", [{"num_modes": 1}, {"num_modes": True}, {"ratio": 0.0}, {"ratio": 0.5, "nodes": 3}]
)
def test_wrong_parameters(params):
    with pytest.raises(ParameterError, match="expected"):
        LVParams(**params)
