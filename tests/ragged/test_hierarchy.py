"""Assignments, levels and hierarchies: checks, joining, forms of the coarse graphs."""

import numpy as np
import pytest

from tgp.engine.coarsening import coarsen
from tgp.errors import InputError
from tgp.ragged import Assignment, BlockCSR, EdgeList, Hierarchy, Level
from tgp.testing.graphs import path


def i32(*values):
    return np.array(values, dtype=np.int32)


def ptr(*values):
    return np.array(values, dtype=np.int64)


def f32(values):
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("assignment", "field"),
    [
        (Assignment("hard", ptr(0, 2, 3), i32(0, 1)), "super_ptr"),
        (Assignment("hard", ptr(1, 2), i32(0, 1)), "super_ptr"),
        (Assignment("hard", ptr(0, 2), i32(0)), "cluster"),
        (Assignment("hard", ptr(0, 2), i32(0, 2)), "cluster"),
        (Assignment("hard", ptr(0, 2), i32(0, -2)), "cluster"),
        (Assignment("hard", ptr(0, 2)), "cluster"),
        (Assignment("soft", ptr(0, 2), i32(0, 1)), "soft"),
        (Assignment("hard", ptr(0, 2), i32(0, 1), weight=f32([1.0])), "weight"),
        (Assignment("hard", ptr(0, 2), i32(0, 1), theta=f32([[1.0]])), "theta"),
        (Assignment("hard", ptr(0, 2), i32(0, 1), representative=i32(0)), "representative"),
    ],
)
def test_validate_names_the_field(assignment, field):
    with pytest.raises(InputError) as caught:
        assignment.validate(ptr(0, 2))
    assert caught.value.field == field


def test_a_cluster_of_another_graph_is_refused():
    with pytest.raises(InputError, match="node 2"):
        Assignment("hard", ptr(0, 1, 2), i32(0, 0, 0)).validate(ptr(0, 2, 3))


def test_width():
    assert Assignment("hard", ptr(0, 2), i32(0, 1)).width is None
    assert Assignment("onehot", ptr(0, 0, 4), i32(0, 1)).width == 4
    assert Assignment("soft", ptr(0, 3), soft=f32(np.ones((2, 3)))).width == 3
    assert Assignment("onehot", ptr(0), i32()).width == 0


def test_concat_shifts_ids():
    left = Assignment("hard", ptr(0, 1, 2), i32(0, 0, 1), representative=i32(1, 2))
    right = Assignment("hard", ptr(0, 2), i32(1, -1, 0), representative=i32(2, 0))
    both = Assignment.concat([left, right]).validate(ptr(0, 2, 3, 6))
    assert both.super_ptr.tolist() == [0, 1, 2, 4]
    assert both.cluster.tolist() == [0, 0, 1, 3, -1, 2]
    assert both.representative.tolist() == [1, 2, 5, 3]
    assert both.num_graphs == 3
    assert both.weight is None


def test_concat_with_failed_parts():
    failed = Assignment("hard", ptr(0, 0), i32(-1, -1))
    soft = Assignment("soft", ptr(0, 2), soft=f32([[0.25, 0.75]]))
    both = Assignment.concat([failed, soft]).validate(ptr(0, 2, 3))
    assert both.kind == "soft"
    assert both.soft.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.25, 0.75]]
    onehot = Assignment("onehot", ptr(0, 2), i32(1), theta=f32([[0.5]]), weight=f32([2.0]))
    mixed = Assignment.concat([onehot, failed]).validate(ptr(0, 1, 3))
    assert mixed.cluster.tolist() == [1, -1, -1]
    assert mixed.theta.tolist() == [[0.5], [0.0], [0.0]]
    assert mixed.weight.tolist() == [2.0, 1.0, 1.0]
    assert mixed.width == 2
    assert Assignment.concat([failed, failed]).cluster.tolist() == [-1] * 4
    assert Assignment.concat([]).num_graphs == 0


def test_concat_refuses_several_kinds():
    hard = Assignment("hard", ptr(0, 1), i32(0))
    soft = Assignment("soft", ptr(0, 2), soft=f32([[0.25, 0.75]]))
    with pytest.raises(InputError, match="one kind"):
        Assignment.concat([hard, soft])


def test_validate_compares_consecutive_levels():
    first = Level("graclus", ptr(0, 4), Assignment("hard", ptr(0, 2), i32(0, 0, 1, 1)), path(2))
    second = Level("graclus", ptr(0, 2), Assignment("hard", ptr(0, 1), i32(0, 0)), path(1))
    good = Hierarchy(ptr(0, 4), (first, second)).validate()
    assert (good.depth, good.num_graphs) == (2, 1)
    with pytest.raises(InputError, match="supernodes"):
        Hierarchy(ptr(0, 4), (Level("graclus", ptr(0, 4), first.assignment, path(3)),)).validate()
    with pytest.raises(InputError) as caught:
        Hierarchy(ptr(0, 4), (first, first)).validate()
    assert caught.value.field == "node_ptr"
    broken = BlockCSR(ptr(0, 2, 2), i32(1, 0), None, ptr(0, 2))
    with pytest.raises(InputError, match="sorted"):
        Hierarchy(ptr(0, 4), (Level("graclus", ptr(0, 4), first.assignment, broken),)).validate()


def test_levels_convert_between_rows_and_edges():
    assignment = Assignment("hard", ptr(0, 2, 3), i32(0, 1, 2), representative=i32(0, 1, 2))
    block = BlockCSR.from_edge_index([[0, 1], [1, 0]], [0.1, 0.1], node_ptr=ptr(0, 2, 3))
    rows = Level("x", ptr(0, 2, 3), assignment, block)
    assert rows.block is block and rows.edges is rows.edges
    assert rows.edge_index.tolist() == [[0, 1], [1, 0]] and rows.edge_ptr.tolist() == [0, 2, 2]
    assert rows.edge_weight.dtype == np.float32
    assert Level("x", ptr(0, 2, 3), assignment, block, np.float64).edge_weight.dtype == np.float64
    edges = Level("x", ptr(0, 2, 3), assignment, EdgeList(*rows.edges))
    assert edges.block.validate().indices.tolist() == [1, 0]
    assert edges.arrays().keys() == {"edge_index", "edge_weight", "cluster", "representative"}
    assert edges.num_graphs == 2 and edges.super_ptr is assignment.super_ptr


@pytest.mark.parametrize("schedule", ["graclus", "kmis", "nmf:k=2", "eigen:k=2", "ndp"])
def test_levels_of_single_graphs_concatenate_to_the_level_of_the_block(schedule):
    block = BlockCSR.concat([path(4), path(1), path(7)])
    whole = coarsen(block, schedule).levels[0]
    parts = [coarsen(block.take([graph]), schedule).levels[0] for graph in range(3)]
    joined = Level.concat(parts)
    assert np.array_equal(joined.node_ptr, whole.node_ptr) and joined.method == whole.method
    assert np.array_equal(joined.edge_ptr, whole.edge_ptr)
    assert joined.arrays().keys() == whole.arrays().keys()
    for name, array in whole.arrays().items():
        assert np.array_equal(joined.arrays()[name], array), name
