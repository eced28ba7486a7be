"""SEP as a level method: golden partitions, equality with the reference, independence of position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import sep as reference
from tgp.engine import threads
from tgp.engine.coarsening import coarsen, coarsen_with_failures
from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import sep
from tgp.engine.methods.sep import METHOD, SEPParams
from tgp.errors import GraphError, ParameterError
from tgp.kernels import coding_tree
from tgp.ragged import BlockCSR
from tgp.testing.graphs import complete, from_pairs, grid2d, isolated, karate, path, star
from tgp.testing.strategies import blocks, graphs


def labels(block, levels=1):
    """Return the cluster of every input node at every level."""
    node, ptr, out = np.arange(block.num_nodes), block.node_ptr, []
    for assignment in METHOD.assign_levels(block, SEPParams(), RandomKey(), levels):
        assert assignment.validate(ptr).weight is None
        node, ptr = assignment.cluster[node], assignment.super_ptr
        out.append(node)
    return out


def sizes(block, levels=1):
    return [len(set(l.tolist())) for l in labels(block, levels)]


def entropy(block, layers):
    return reference.entropy(block.num_nodes, block.edge_index().T, block.weight, layers)


@pytest.mark.parametrize(
    ("levels", "counts", "h"), [(1, [2], 3.83316), (2, [10, 2], 3.14960), (3, [15, 10, 2], 2.90332)]
)
def test_golden_karate(levels, counts, h):
    found = labels(karate(), levels)
    assert [l.max() + 1 for l in found] == counts
    assert sorted(np.bincount(found[-1])) == [16, 18]
    assert entropy(karate(), found) == pytest.approx(h, abs=5e-6)
    assert entropy(karate(), []) == pytest.approx(4.70442, abs=5e-6)


def test_golden_paths():
    assert labels(path(3))[0].tolist() == [0, 0, 1]
    # {2,3} is created last: at one level supernodes are numbered by creation.
    assert labels(path(6))[0].tolist() == [0, 0, 2, 2, 1, 1]
    assert entropy(path(6), labels(path(6))) == pytest.approx(1.56276, abs=5e-6)
    bottom, top = METHOD.assign_levels(path(6), SEPParams(), RandomKey(), 2)
    assert bottom.cluster.tolist() == [0, 0, 1, 1, 2, 2]
    assert top.cluster.tolist() == [0, 0, 1]
    assert labels(path(6), 3)[0].tolist() == list(range(6))
    assert sizes(path(6), 3) == [6, 3, 2]
    assert sizes(path(3), 3) == [3, 3, 2]


def test_golden_small_graphs():
    # A component of two nodes is never pooled, at any level.
    assert [l.tolist() for l in labels(path(2), 4)] == [[0, 1]] * 4
    assert sorted(np.bincount(labels(star(7))[0])) == [1, 1, 1, 1, 3]
    assert sorted(np.bincount(labels(complete(6))[0])) == [2, 4]
    assert [l.tolist() for l in labels(isolated(3), 2)] == [[0, 1, 2]] * 2


def test_supernodes_stay_inside_components_and_graphs():
    block = BlockCSR.concat([isolated(2), path(5), from_pairs(6, [(0, 3), (3, 4), (1, 2), (2, 5)])])
    [assignment] = METHOD.assign_levels(block, SEPParams(), RandomKey(), 1)
    assert assignment.super_ptr.tolist() == [0, 2, 5, 9]
    assert assignment.cluster.tolist() == [0, 1, 2, 2, 4, 3, 3, 5, 7, 7, 5, 6, 8]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@given(block=graphs(max_nodes=16, max_edges=40, negative=False))
def test_equal_to_the_reference(block, levels):
    expected = reference.labels(block.num_nodes, block.edge_index().T.tolist(), block.weight, levels)
    assert [l.tolist() for l in labels(block, levels)] == [l.tolist() for l in expected]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40))
def test_equal_to_the_reference_with_real_weights(levels, seed, n):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (2 * n, 2))
    block = from_pairs(n, pairs, rng.random(2 * n))
    expected = reference.labels(n, block.edge_index().T.tolist(), block.weight, levels)
    found = labels(block, levels)
    assert [l.tolist() for l in found] == [l.tolist() for l in expected]
    assert entropy(block, found) <= entropy(block, expected) + 1e-12


@given(seed=st.integers(0, 10**6))
def test_relabelling_nodes_relabels_clusters(seed):
    # If all gains differ, the tree does not depend on the node ids.
    rng = np.random.default_rng(seed)
    n = 20
    pairs, weight = rng.integers(0, n, (40, 2)), rng.random(40)
    order = rng.permutation(n)
    for a, b in zip(
        labels(from_pairs(n, pairs, weight), 3), labels(from_pairs(n, order[pairs], weight), 3), strict=True
    ):
        same, same_moved = a[:, None] == a, b[:, None] == b
        assert np.array_equal(same, same_moved[np.ix_(order, order)])


@given(blocks(max_nodes=12, negative=False), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_hierarchy_does_not_depend_on_the_block(block, levels, random):
    order = list(range(block.num_graphs))
    random.shuffle(order)
    moved = METHOD.assign_levels(block.take(order), SEPParams(), RandomKey(), levels)
    alone = [METHOD.assign_levels(part, SEPParams(), RandomKey(), levels) for part in block.split()]
    for level, assignment in enumerate(moved):
        for place, graph in enumerate(order):
            mine = alone[graph][level]
            ptr = assignment.super_ptr
            assert ptr[place + 1] - ptr[place] == mine.num_supernodes
        expected = np.concatenate(
            [alone[g][level].cluster + ptr[p] for p, g in enumerate(order)] or [np.zeros(0, int)]
        )
        assert assignment.cluster.tolist() == expected.tolist()


def test_the_result_does_not_depend_on_threads(monkeypatch):
    block = BlockCSR.concat([karate(), path(30), star(9), isolated(3), complete(12)] * 8)
    expected = labels(block, 3)
    for count in (2, 3, 7):
        monkeypatch.setattr(threads, "_MIN_WORK", 0)
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        assert all(np.array_equal(a, b) for a, b in zip(labels(block, 3), expected, strict=True))


def test_unweighted_trees_ignore_direction_multiplicity_and_self_loops():
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 2)]
    expected = labels(from_pairs(6, pairs), 2)
    messy = from_pairs(6, [*pairs, (1, 0), (0, 1), (3, 3)], both_ways=False)
    assert [l.tolist() for l in labels(messy, 2)] == [l.tolist() for l in expected]


def test_trees_do_not_depend_on_the_scale_of_weights():
    block = karate()
    weighted = BlockCSR(block.indptr, block.indices, np.full(block.num_edges, 0.25), block.node_ptr)
    assert [l.tolist() for l in labels(weighted, 3)] == [l.tolist() for l in labels(block, 3)]


def test_zero_weights_are_no_edges():
    block = from_pairs(4, [(0, 1), (1, 2), (2, 3)], [1.0, 0.0, 1.0])
    assert labels(block)[0].tolist() == [0, 1, 2, 3]


def test_negative_weights_raise():
    block = BlockCSR.concat([from_pairs(3, [(0, 1)], [1.0]), from_pairs(3, [(0, 1), (1, 2)], [1.0, -2.0])])
    with pytest.raises(GraphError, match=r"node 1 \(graph 1\)") as error:
        METHOD.assign(block, SEPParams(), RandomKey())
    assert error.value.graph == 1
    # One direction can be negative if the sum of both directions is not.
    both = from_pairs(2, [(0, 1), (1, 0)], [-1.0, 3.0], both_ways=False)
    assert labels(both)[0].tolist() == [0, 1]


def test_a_graph_whose_weights_overflow_fails_alone():
    big = from_pairs(3, [(0, 1), (1, 2)], [1e308, 1e308])
    block = BlockCSR.concat([from_pairs(3, [(0, 1), (1, 2)], [1.0, 1.0]), big])
    with pytest.raises(GraphError, match=r"overflows.* \(graph 1\)"):
        coarsen(block, "sep*2")
    hierarchy, failures = coarsen_with_failures(block, "sep*2")
    # The reason does not contain the index of the graph, which was alone in its block when it failed.
    assert [f.graph for f in failures] == [1] and "(graph" not in failures[0].reason
    assert hierarchy.levels[0].assignment.cluster.tolist() == [0, 1, 2, -1, -1, -1]


def test_blocks_without_nodes():
    for block in (BlockCSR.concat([]), BlockCSR.concat([isolated(0), isolated(0)])):
        for assignment in METHOD.assign_levels(block, SEPParams(), RandomKey(), 3):
            assert assignment.num_supernodes == 0 and len(assignment.cluster) == 0


def test_levels_of_a_run_come_from_one_tree():
    # As in the golden table, the first of three levels is finer than a single level.
    run = coarsen(karate(), "sep*3")
    assert [level.block.num_nodes for level in run.levels] == [15, 10, 2]
    assert [level.block.num_nodes for level in coarsen(karate(), "sep").levels] == [2]
    # A level with other parameters starts a new tree on the coarse graph.
    assert [level.block.num_nodes for level in coarsen(karate(), "sep*2,sep:degree_norm=false").levels] == [
        10,
        2,
        2,
    ]


def test_coarse_weights_feed_the_next_contraction_not_the_tree():
    run = coarsen(karate(), "sep*2")
    expected = METHOD.assign_levels(karate(), SEPParams(), RandomKey(), 2)
    block = karate()
    for level, assignment in zip(run.levels, expected, strict=True):
        assert level.assignment.cluster.tolist() == assignment.cluster.tolist()
        block = contract(block, assignment, ContractOptions(degree_norm=True))
        block = BlockCSR(
            block.indptr, block.indices, block.weight.astype(np.float32).astype(float), block.node_ptr
        )
        assert level.block.weight.tolist() == block.weight.tolist()


def test_normalised_weights_of_a_path():
    # Unweighted path of 6 -> a triangle-free path of 3 clusters; degrees 1 2 1.
    [level] = coarsen(path(6), "sep").levels
    assert level.block.edge_index().tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    assert level.block.weight == pytest.approx([2**-0.5] * 4, abs=1e-7)


def test_parameters():
    assert SEPParams().degree_norm and SEPParams().remove_self_loops and not SEPParams().edge_weight_norm
    [level] = coarsen(path(6), "sep:degree_norm=false:count_edges=true:remove_self_loops=false").levels
    assert level.block.weight.tolist() == [2, 1, 2, 1, 1, 1, 2]
    with pytest.raises(ParameterError, match="reduce_op"):
        SEPParams(connect_red_op="median")


def test_cost_grows_faster_than_linear():
    nodes = np.array([0, 10, 1000])
    cost = METHOD.cost(nodes, 2 * nodes, SEPParams())
    assert cost[0] == 0 and cost[2] > 100 * cost[1]


def cut_entropies(block):
    """Return the entropies and the numbers of groups of both rules for one component."""
    found = [METHOD.assign(block, SEPParams(cut=rule), RandomKey()) for rule in ("greedy", "optimal")]
    return [entropy(block, [a.cluster]) for a in found], [a.num_supernodes for a in found]


def merge_tree_cuts(parent, root):
    """Yield every set of subtrees below the root that contains each item once."""
    children = {}
    for x, up in enumerate(parent):
        children.setdefault(up, []).append(x)

    def cuts(x):
        yield [x]
        if x in children:
            left, right = children[x]
            for a in cuts(left):
                for b in cuts(right):
                    yield a + b

    left, right = children[root]
    for a in cuts(left):
        for b in cuts(right):
            yield a + b


def leaves(parent, x, n):
    return [i for i in range(n) if x in chain_up(parent, i)]


def chain_up(parent, i):
    out = {i}
    while i < len(parent):
        i = parent[i]
        out.add(i)
    return out


@given(seed=st.integers(0, 10**6), n=st.integers(3, 9), weighted=st.booleans())
def test_the_optimal_cut_is_the_best_of_all_cuts_of_the_merge_tree(seed, n, weighted):
    rng = np.random.default_rng(seed)
    pairs = [(i, rng.integers(0, i)) for i in range(1, n)] + rng.integers(0, n, (n, 2)).tolist()
    block = from_pairs(n, pairs, rng.random(len(pairs)) if weighted else None)
    forest = sep._split_components(block)
    tree = (np.zeros(2 * n, np.int32), *np.zeros((3, 2 * n)))
    volumes = (forest.degree, forest.degree, forest.total)
    coding_tree.merge_parts(forest.rows, forest.ptr, np.ones(1, np.bool_), *volumes, 0, 1, tree)
    parent = tree[0][: 2 * n - 2].tolist()
    best = np.inf
    for cut in merge_tree_cuts(parent, 2 * n - 2):
        label = np.empty(n, int)
        for c, x in enumerate(cut):
            label[leaves(parent, x, n)] = c
        best = min(best, entropy(block, [label]))
    (greedy, optimal), _ = cut_entropies(block)
    assert optimal == pytest.approx(best, abs=1e-9) and optimal <= greedy + 1e-9


def test_the_optimal_cut_of_larger_graphs():
    for block, less in ((karate(), 0.0), (grid2d(24, 24), 0.5), (path(200), 0.5)):
        (greedy, optimal), (few, many) = cut_entropies(block)
        assert optimal <= greedy - less and many >= few >= 2


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_levels_of_the_optimal_cut_are_nested(levels):
    block = BlockCSR.concat([grid2d(9, 8), isolated(2), path(2), star(6)])
    ptr, count = block.node_ptr, block.num_nodes
    for assignment in METHOD.assign_levels(block, SEPParams(cut="optimal"), RandomKey(), levels):
        ptr = assignment.validate(ptr).super_ptr
        assert assignment.num_supernodes <= count
        count = assignment.num_supernodes
    # Each component of two or more nodes keeps at least two supernodes.
    assert (np.diff(ptr) >= [2, 2, 2, 2]).all() and count < block.num_nodes


def test_an_unknown_cut_is_refused():
    with pytest.raises(ParameterError, match="cut is unknown: expected one of greedy, optimal, got 'best'"):
        SEPParams(cut="best")
