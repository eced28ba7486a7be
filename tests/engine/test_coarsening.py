"""Coarsening: chains of levels, runs of equal levels, rounding, and graphs that fail."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from tgp.engine import GraphFailure, coarsen, coarsen_with_failures, parse_schedule
from tgp.engine.coarsening import assign_level, connect_level
from tgp.engine.level_method import LevelMethod, RandomKey
from tgp.engine.methods import METHODS
from tgp.engine.methods.graclus import METHOD as GRACLUS
from tgp.errors import GraphError, InputError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import TOY_GRAPHS, cycle, from_pairs, grid2d, karate, path, toy_block


@dataclass(frozen=True)
class NoParams:
    pass


def install(monkeypatch, **functions):
    """Replace the method ``sep`` by a method of the test."""
    method = LevelMethod("sep", NoParams, **{"assign": halve, "connect": GRACLUS.connect, **functions})
    if "connect" not in functions:
        method = LevelMethod(
            "sep",
            NoParams,
            functions.get("assign", halve),
            lambda block, assignment, _: GRACLUS.connect(block, assignment, GRACLUS.params()),
            functions.get("assign_levels"),
        )
    monkeypatch.setitem(METHODS._loaded, "sep", method)


def halve(block, params, key):
    return GRACLUS.assign(block, GRACLUS.params(order="index"), key)


def same(a, b):
    assert a.depth == b.depth
    for x, y in zip(a.levels, b.levels, strict=True):
        np.testing.assert_array_equal(x.assignment.super_ptr, y.assignment.super_ptr)
        np.testing.assert_array_equal(x.assignment.cluster, y.assignment.cluster)
        np.testing.assert_array_equal(x.block.indptr, y.block.indptr)
        np.testing.assert_array_equal(x.block.indices, y.block.indices)
        assert (x.block.weight is None) == (y.block.weight is None)
        if x.block.weight is not None:
            assert x.block.weight.tobytes() == y.block.weight.tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "schedule", ["graclus*3", "random*2,graclus", "nopool", "graclus:order=degree,nopool,random"]
)
def test_hierarchies_of_toy_graphs_are_valid(schedule, weighted):
    block = toy_block(weighted=weighted)
    hierarchy = coarsen(block, schedule).validate()
    assert hierarchy.depth == len(parse_schedule(schedule))
    assert [level.method for level in hierarchy.levels] == [spec.method for spec in parse_schedule(schedule)]
    same(hierarchy, coarsen(block, parse_schedule(schedule)))


def test_graclus_of_a_path_of_eight():
    first, second = coarsen(path(8), "graclus:order=index:count_edges=true*2").levels
    assert first.assignment.cluster.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert first.block.edge_index().tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert first.block.weight.tolist() == [1.0] * 6
    assert second.assignment.cluster.tolist() == [0, 0, 1, 1]
    assert second.block.edge_index().tolist() == [[0, 1], [1, 0]]


def test_all_weights_negative_is_the_identity():
    block = from_pairs(4, [(0, 1), (1, 2), (2, 3)], [-1.0, -1.0, -1.0])
    assert coarsen(block, "graclus").levels[0].assignment.cluster.tolist() == [0, 1, 2, 3]


def test_nopool_is_the_identity():
    block = toy_block(weighted=True)
    (level,) = coarsen(block, "nopool", weight_dtype=np.float64).levels
    np.testing.assert_array_equal(level.assignment.cluster, np.arange(block.num_nodes))
    np.testing.assert_array_equal(level.assignment.representative, np.arange(block.num_nodes))
    np.testing.assert_array_equal(level.block.indices, block.indices)
    np.testing.assert_array_equal(level.block.weight, block.weight)


@pytest.mark.parametrize(
    ("ratio", "sizes"), [(0.5, [5, 2, 1]), (1.0, [10, 3, 1]), (0.07, [1, 1, 1]), (0.3, [3, 1, 1])]
)
def test_random_gives_exactly_its_ratio(ratio, sizes):
    block = BlockCSR.concat([cycle(10), path(3), path(1), path(0)])
    (level,) = coarsen(block, [("random", {"ratio": ratio})]).levels
    assert np.diff(level.block.node_ptr).tolist() == [*sizes, 0]
    assert sorted(set(level.assignment.cluster.tolist())) == list(range(sum(sizes)))


@pytest.mark.parametrize(("ratio", "expected"), [(0.07, 7), (0.0200001, 3), (5e-324, 1)])
def test_random_ratio_is_not_rounded_by_floats(ratio, expected):
    (level,) = coarsen(cycle(100), [("random", {"ratio": ratio})]).levels
    assert level.block.num_nodes == expected


def test_random_ratios_of_large_graphs_are_exact():
    block = BlockCSR(np.zeros(200_002, np.int64), np.zeros(0, np.int32), None, np.array([0, 200_001]))
    (level,) = coarsen(block, "random:ratio=0.0001").levels
    assert level.block.num_nodes == 21  # 20.0001 rounded up


def test_random_gives_exactly_its_number_of_nodes():
    block = BlockCSR.concat([cycle(10), path(3), path(4), path(0)])
    (level,) = coarsen(block, "random:nodes=4").levels
    assert np.diff(level.block.node_ptr).tolist() == [4, 3, 4, 0]
    assert sorted(set(level.assignment.cluster.tolist())) == list(range(11))


def test_the_result_depends_on_the_seed():
    block = grid2d(10, 10)
    same(coarsen(block, "graclus", 1), coarsen(block, "graclus", np.int64(1)))
    one, two = (coarsen(block, "graclus", seed).levels[0].assignment.cluster for seed in (1, 2))
    assert one.tolist() != two.tolist()


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "1", True, None])
def test_wrong_seeds_raise(seed):
    with pytest.raises(InputError, match="seed"):
        coarsen(path(3), "graclus", seed)


def test_level_is_the_position_in_the_whole_schedule():
    block = grid2d(8, 8)
    spec = parse_schedule("graclus")[0]
    hierarchy = coarsen(block, "nopool,graclus,graclus", 9)
    current = block
    for level, name in enumerate(("nopool", "graclus", "graclus")):
        chosen = parse_schedule(name)[0]
        assignment = assign_level(current, chosen, RandomKey(9, level))
        np.testing.assert_array_equal(assignment.cluster, hierarchy.levels[level].assignment.cluster)
        current = connect_level(current, assignment, chosen)
    assert (
        assign_level(block, spec, RandomKey(9, 1)).cluster.tolist()
        != assign_level(block, spec, RandomKey(9, 0)).cluster.tolist()
    )


def test_weights_are_rounded_to_what_is_stored():
    block = from_pairs(4, [(0, 1), (1, 2), (2, 3), (0, 3)], [0.1, 0.2, 0.3, 0.7])
    schedule = "graclus:order=index"
    exact = coarsen(block, schedule, weight_dtype=np.float64).levels[0].block.weight
    stored = coarsen(block, schedule).levels[0].block.weight
    assert stored.dtype == np.float64
    assert stored.tolist() == exact.astype(np.float32).astype(np.float64).tolist() != exact.tolist()


def test_a_coarse_weight_that_overflows_raises_a_graph_error():
    block = BlockCSR.concat([from_pairs(2, [(0, 1)], [1.0]), from_pairs(3, [(0, 1), (1, 2)], [1e300, 1e300])])
    with pytest.raises(GraphError, match="graph 1") as caught:
        coarsen(block, "nopool")
    assert caught.value.graph == 1
    coarsen(block, "nopool", weight_dtype=np.float64)


def test_equal_levels_of_a_tree_method_are_one_run(monkeypatch):
    calls = []

    def levels(block, params, key, number):
        calls.append((block.num_nodes, key, number))
        out = []
        for _ in range(number):
            out.append(halve(block, params, key))
            block = GRACLUS.connect(block, out[-1], GRACLUS.params())
        return out

    install(monkeypatch, assign_levels=levels)
    hierarchy = coarsen(path(16), "sep*2,nopool,sep*3", 4).validate()
    assert [level.block.num_nodes for level in hierarchy.levels] == [8, 4, 4, 2, 1, 1]
    assert calls == [(16, RandomKey(4, 0), 2), (4, RandomKey(4, 3), 3)]
    calls.clear()
    coarsen(path(16), "sep,nopool,sep")
    assert calls == [], "a single level needs no tree"


def failing(error, *, level=0, nodes=(5,)):
    """Return an ``assign`` function that raises for graphs of these sizes at this level."""

    def assign(block, params, key):
        sizes = np.diff(block.node_ptr)
        if key.level >= level and np.isin(sizes, nodes).any():
            raise error
        return halve(block, params, key)

    return assign


@pytest.mark.parametrize(
    "error",
    [
        GraphError("too hard"),
        np.linalg.LinAlgError("singular"),
        MemoryError(),
        FloatingPointError("nan"),
        ZeroDivisionError("0"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_other_graphs_are_coarsened_if_one_fails(monkeypatch, error):
    install(monkeypatch, assign=failing(error))
    block = BlockCSR.concat([path(4), path(5), cycle(6), cycle(5), path(1)])
    with pytest.raises(type(error)):
        coarsen(block, "sep,graclus")
    hierarchy, failures = coarsen_with_failures(block, "sep,graclus")
    hierarchy.validate()
    assert [(f.graph, f.level) for f in failures] == [(1, 0), (3, 0)]
    assert failures[0].reason.startswith(type(error).__name__)
    assert np.diff(hierarchy.levels[0].block.node_ptr).tolist() == [2, 0, 3, 0, 1]
    assert hierarchy.levels[0].assignment.cluster[4:9].tolist() == [-1] * 5
    good = block.take([0, 2, 4])
    install(monkeypatch)
    expected = coarsen(good, "sep,graclus")
    for ours, theirs in zip(hierarchy.levels, expected.levels, strict=True):
        np.testing.assert_array_equal(ours.block.take([0, 2, 4]).indices, theirs.block.indices)


def test_failure_at_a_later_level_keeps_the_earlier_ones(monkeypatch):
    install(monkeypatch, assign=failing(GraphError("no"), level=1, nodes=(3,)))
    block = BlockCSR.concat([path(8), path(6), path(2)])
    hierarchy, failures = coarsen_with_failures(block, "sep*3")
    assert failures == [GraphFailure(1, 1, "GraphError: no")]
    assert [np.diff(level.block.node_ptr).tolist() for level in hierarchy.validate().levels] == [
        [4, 3, 1],
        [2, 0, 1],
        [1, 0, 1],
    ]


def test_a_tree_fails_as_a_whole(monkeypatch):
    def levels(block, params, key, number):
        if (np.diff(block.node_ptr) == 5).any():
            raise GraphError("no tree")
        return [Assignment("hard", block.node_ptr, np.arange(block.num_nodes, dtype=np.int32))] * number

    install(monkeypatch, assign_levels=levels)
    hierarchy, failures = coarsen_with_failures(
        BlockCSR.concat([path(5), path(3)]), "graclus:order=index,sep*2"
    )
    assert failures == []
    hierarchy, failures = coarsen_with_failures(BlockCSR.concat([path(5), path(3)]), "nopool,sep*2")
    assert failures == [GraphFailure(0, 1, "GraphError: no tree")]
    assert [level.block.num_nodes for level in hierarchy.validate().levels] == [8, 3, 3]


def test_all_graphs_fail(monkeypatch):
    install(monkeypatch, assign=failing(GraphError("no")))
    hierarchy, failures = coarsen_with_failures(BlockCSR.concat([path(5), cycle(5)]), "sep,graclus")
    assert [f.graph for f in failures] == [0, 1]
    assert hierarchy.validate().levels[1].block.num_graphs == 2


@pytest.mark.parametrize("error", [ParameterError("wrong"), InputError("wrong"), RuntimeError("a bug")])
def test_other_errors_are_not_recorded_as_failures(monkeypatch, error):
    install(monkeypatch, assign=failing(error))
    with pytest.raises(type(error), match=str(error)):
        coarsen_with_failures(BlockCSR.concat([path(5), path(4)]), "sep")


def test_both_functions_agree_if_no_graph_fails():
    block = toy_block(weighted=True)
    hierarchy, failures = coarsen_with_failures(block, "graclus*2,random", 5)
    assert failures == []
    same(hierarchy, coarsen(block, "graclus*2,random", 5))


def test_a_block_without_graphs():
    hierarchy = coarsen(BlockCSR.concat([]), "graclus*2,random,nopool").validate()
    assert hierarchy.num_graphs == 0
    assert hierarchy.depth == 4


def test_karate_shrinks_by_less_than_half():
    sizes = [34, *(level.block.num_nodes for level in coarsen(karate(), "graclus*4").levels)]
    assert all(2 * after >= before > after for before, after in pairwise(sizes))


def test_toy_graphs_have_names():
    assert {name: make().num_nodes for name, make in TOY_GRAPHS.items()}["karate"] == 34
