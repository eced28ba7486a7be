"""Attributes of nodes that methods need: they reach every level as means over the input nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import METHODS, coarsen, coarsen_with_failures, parse_schedule
from tgp.engine.coarsening import count_levels
from tgp.engine.contraction import ConnectParams, contract
from tgp.engine.level_method import LevelMethod
from tgp.errors import GraphError, InputError
from tgp.ragged import Assignment, BlockCSR, Field, GraphTable
from tgp.registry import Entry
from tgp.testing.graphs import cycle, path, with_attributes
from tgp.testing.strategies import blocks, schedules

SEEN = []
"""Attributes that the method below got: blocks, level by level."""


class SpyParams(ConnectParams):
    pass


def assign(block, params, key):
    """Merge nodes 2 i and 2 i + 1 of each graph. A graph whose first feature is above 100 fails."""
    SEEN.append(block)
    x = block.node_values("x")
    for graph, first in enumerate(block.node_ptr[:-1]):
        if first < block.num_nodes and x[first, 0] > 100:
            raise GraphError("the first feature is too large", graph=graph)
    sizes = np.diff(block.node_ptr)
    super_ptr = np.concatenate([[0], np.cumsum((sizes + 1) // 2)])
    local = np.arange(block.num_nodes) - np.repeat(block.node_ptr[:-1], sizes)
    return Assignment("hard", super_ptr, (local // 2 + np.repeat(super_ptr[:-1], sizes)).astype(np.int32))


def connect(block, assignment, params):
    return contract(block, assignment, params.contract_options())


SPY = LevelMethod("spy", SpyParams, assign, connect, contracts=True, needs=("x",))


@pytest.fixture(autouse=True)
def spy():
    METHODS.register(Entry("spy", f"{__name__}:SPY", ""), loaded=SPY)
    SEEN.clear()
    yield SEEN
    METHODS._drop("spy")


def members(hierarchy):
    """Return, for each level, the weight of every input node in every supernode."""
    found = np.eye(int(hierarchy.node_ptr[-1]))
    for level in hierarchy.levels:
        given = level.assignment
        matrix = np.zeros((found.shape[1], given.num_supernodes))
        if given.soft is None:
            kept = np.flatnonzero(given.cluster >= 0)
            matrix[kept, given.cluster[kept]] = 1.0
        else:
            for graph in range(level.num_graphs):
                rows = slice(*level.node_ptr[graph : graph + 2])
                first, last = given.super_ptr[graph : graph + 2]
                matrix[rows, first:last] = given.soft[rows, : last - first]
        found = found @ matrix
        yield found


@given(blocks(max_graphs=3, negative=False), schedules(max_levels=3), st.integers(0, 5))
def test_attributes_of_levels_are_means_of_the_input_nodes(block, schedule, seed):
    hierarchy = coarsen(block, schedule, seed)
    for level, weight in zip(hierarchy.levels, members(hierarchy), strict=True):
        if not level.block.num_nodes or level.block.attributes is None:
            continue
        for name in ("x", "pos"):
            total = weight.sum(0)[:, None]
            x = block.node_values(name).astype(np.float64)
            expected = np.where(total > 0, weight.T @ x / np.where(total > 0, total, 1.0), 0.0)
            found = level.block.node_values(name)
            assert found.dtype == block.node_values(name).dtype
            np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(level.block.attributes.members, weight.sum(0), atol=1e-5)


def test_a_method_sees_input_nodes_first_and_then_means(spy):
    block = path(7).with_values(x=np.arange(7), pos=np.zeros((7, 2)))
    coarsen(block, "spy*3")
    assert [b.node_values("x")[:, 0].tolist() for b in spy] == [
        [0, 1, 2, 3, 4, 5, 6],
        [0.5, 2.5, 4.5, 6],
        [1.5, 5],  # the mean of 4, 5 and 6, not the mean of 4.5 and 6
    ]
    assert spy[2].attributes.members.tolist() == [4, 3]


def test_attributes_pass_methods_that_do_not_need_them_and_size_limits(spy):
    block = BlockCSR.concat([path(8), path(3)]).with_values(x=np.arange(11.0))
    coarsen(block, "graclus:order=index,spy")
    assert spy[-1].node_values("x")[:, 0].tolist() == [0.5, 2.5, 4.5, 6.5, 8.5, 10]
    coarsen(block, "graclus:order=index:until=4,spy")
    assert spy[-1].node_values("x")[:, 0].tolist() == [0.5, 2.5, 4.5, 6.5, 8, 9, 10]
    assert count_levels(block, parse_schedule("spy:until=1*")) == 3


def test_failed_graphs_do_not_shift_attributes(spy):
    block = BlockCSR.concat([path(4), path(4), cycle(5)]).with_values(
        x=[0, 1, 2, 3, 200, 0, 0, 0, 8, 9, 10, 11, 12]
    )
    hierarchy, failures = coarsen_with_failures(block, "spy*2")
    assert [failure.graph for failure in failures] == [1]
    last = hierarchy.levels[-1].block
    assert last.node_values("x")[:, 0].tolist() == [1.5, 9.5, 12]
    hierarchy, failures = coarsen_with_failures(block, "spy,nmf:k=2,spy")
    assert np.diff(hierarchy.levels[-1].block.node_ptr).tolist() == [1, 0, 1]


def test_a_block_without_the_attribute_is_an_error():
    for run in (coarsen, coarsen_with_failures):
        with pytest.raises(
            InputError, match="spy needs the node attribute 'x': expected a block with it, got pos"
        ):
            run(path(4).with_values(pos=np.zeros((4, 2))), "graclus,spy")
    with pytest.raises(InputError, match="spy needs the node attribute 'x'"):
        count_levels(path(4), parse_schedule("spy*"))
    with pytest.raises(InputError, match=r"no node attribute 'x'.*got no attributes"):
        path(4).node_values("x")
    assert coarsen(BlockCSR.concat([]), "spy*2").levels[1].block.num_nodes == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), r"wrong shape: expected \[4, D\].*got \[3\]"),
        (np.zeros((4, 0)), r"wrong shape: .*at least one column, got \[4, 0\]"),
        (np.zeros((4, 2, 2)), r"wrong shape: .*got \[4, 2, 2\]"),
        (np.array(list("abcd")), "wrong type: expected real numbers, got <U1"),
        (np.zeros(4, complex), "wrong type: expected real numbers, got complex128"),
        ([0, 1, np.nan, 2], "not finite: expected finite numbers, got nan at node 0 of graph 1"),
        ([0, np.inf, 1, -np.inf], "not finite: expected finite numbers, got inf at node 1 of graph 0"),
    ],
)
def test_wrong_values(values, message):
    with pytest.raises(InputError, match=message) as error:
        BlockCSR.concat([path(2), path(2)]).with_values(x=values)
    assert error.value.field == "x"


def test_types_of_values():
    block = path(3).with_values(
        a=[1, 2, 3], b=np.ones((3, 2), np.float32), c=[True, False, True], d=[1e308] * 3
    )
    assert {name: (v.dtype.name, v.shape) for name, v in block.attributes.values.items()} == {
        "a": ("float64", (3, 1)),
        "b": ("float32", (3, 2)),
        "c": ("float64", (3, 1)),
        "d": ("float64", (3, 1)),
    }


@given(blocks(min_graphs=1))
def test_attributes_follow_their_graphs(block):
    order = np.arange(block.num_graphs)[::-1]
    moved = block.take(order)
    for place, graph in enumerate(order.tolist()):
        mine, theirs = moved.take([place]), block.take([graph])
        if mine.num_nodes:
            assert mine.node_values("x").tolist() == theirs.node_values("x").tolist()
    joined = BlockCSR.concat(block.split())
    assert not block.num_nodes or joined.node_values("pos").tolist() == block.node_values("pos").tolist()


def test_joining_blocks():
    one, other = path(2).with_values(x=[1, 2], pos=[3, 4]), path(1).with_values(x=[5])
    joined = BlockCSR.concat([one, BlockCSR.concat([]), other])
    assert joined.node_values("x").tolist() == [[1], [2], [5]]
    assert list(joined.attributes.values) == ["x"]
    assert BlockCSR.concat([one, path(2)]).attributes is None
    pooled = coarsen(with_attributes(path(4)), "graclus:order=index").levels[0].block
    both = BlockCSR.concat([pooled, with_attributes(path(1))])
    assert both.attributes.members.tolist() == [2, 2, 1]


def table_of(**fields):
    edges = Field("edge_index", np.array([[0, 1], [1, 0]]), np.array([0, 2, 2]), -1, shifted=True)
    return GraphTable(np.array([0, 2, 3]), {"edge_index": edges, **fields})


def test_attributes_of_a_table():
    table = table_of(x=Field("x", np.arange(3.0), np.array([0, 2, 3])))
    assert table.to_block().attributes is None
    assert table.to_block({"x": "spy"}).node_values("x").tolist() == [[0], [1], [2]]
    with pytest.raises(
        InputError, match=r"spy needs the node attribute 'pos': .* got graphs with edge_index, x"
    ):
        table.to_block({"pos": "spy"})
    wrong = table_of(x=Field("x", np.arange(3.0), np.array([0, 1, 3])))
    with pytest.raises(
        InputError, match=r"'x' \(needed by spy\) has the wrong shape: .* got 1 for 2 nodes in graph 0"
    ):
        wrong.to_block({"x": "spy"})
    stacked = table_of(x=Field("x", np.arange(2.0), np.array([0, 1, 2]), form="stacked"))
    with pytest.raises(InputError, match="got another form in graph 0"):
        stacked.to_block({"x": "spy"})


def test_needs_of_a_schedule():
    assert parse_schedule("graclus").needs == {}
    assert parse_schedule("graclus,spy*2,simmatch").needs == {"x": "spy"}
