"""Map from edges to coarse edges, compared with a dictionary of the pairs of supernodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_carry_fields import assignments, hierarchies
from tgp.engine import ContractOptions, coarsen, contract, edge_map
from tgp.engine.carry import CarryRules, CarryStep, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.carry_members import Groups, InputEdges, _add_edges
from tgp.engine.methods import contracts_edges
from tgp.errors import InputError, UnknownNameError
from tgp.ragged import Assignment, BlockCSR, EdgeList, Field, GraphTable, Hierarchy, Level
from tgp.testing.graphs import path
from tgp.testing.strategies import blocks


def expected_map(edge_index, cluster, coarse_index):
    """Return the coarse edge of each edge by a dictionary."""
    known = {pair: place for place, pair in enumerate(zip(*coarse_index.tolist(), strict=True))}
    pairs = zip(cluster[edge_index[0]].tolist(), cluster[edge_index[1]].tolist(), strict=True)
    return [-1 if min(pair) < 0 else known.get(pair, -1) for pair in pairs]


@settings(max_examples=150, deadline=None)
@given(st.data(), blocks(max_graphs=3, max_nodes=8), st.sampled_from(["hard", "onehot"]), st.booleans())
def test_map_equals_a_dictionary(data, block, kind, remove_self_loops):
    assignment = data.draw(assignments(block.node_ptr, kind))
    coarse = contract(block, assignment, ContractOptions(remove_self_loops=remove_self_loops))
    found = edge_map(block, assignment, coarse)
    assert found.tolist() == expected_map(block.edge_index(), assignment.cluster, coarse.edge_index())
    # A segment sum of the weights gives the coarse weights.
    kept = found >= 0
    total = np.bincount(found[kept], block.weights_or_ones()[kept], coarse.num_edges)
    if block.weight is not None:
        np.testing.assert_allclose(total, coarse.weight, rtol=1e-6, atol=1e-6)
    else:
        assert (total >= 1).all()


def test_directions_are_kept():
    block = BlockCSR.from_edge_index(np.array([[0, 1, 2, 3], [2, 3, 1, 2]]), num_nodes=4)
    pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
    coarse = contract(block, pairs)
    assert coarse.edge_index().tolist() == [[0, 1], [1, 0]]
    assert edge_map(block, pairs, coarse).tolist() == [0, 0, 1, -1]


def test_vanished_weights_have_no_coarse_edge():
    block = BlockCSR.from_edge_index(np.array([[0, 1], [2, 2]]), np.array([1.0, -1.0]), num_nodes=3)
    pair = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1], np.int32))
    assert edge_map(block, pair, contract(block, pair)).tolist() == [-1, -1]


def test_wrong_arguments():
    block = path(4)
    pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
    soft = Assignment("soft", np.array([0, 2]), soft=np.ones((4, 2), np.float32))
    with pytest.raises(InputError, match="soft"):
        edge_map(block, soft, contract(block, soft))
    with pytest.raises(InputError, match="expected 3 nodes and 2 supernodes, got 4 and 2"):
        edge_map(path(3), pairs, contract(block, pairs))
    with pytest.raises(InputError, match="other blocks"):
        edge_map(block, pairs, block)


def map_levels(block, edge_index, hierarchy, rules="edge_index=map"):
    """Return the levels with an edge map. The edges of each graph have the order of ``edge_index``."""
    shift = np.repeat(block.node_ptr[:-1], np.diff(block.edge_ptr))
    field = Field("edge_index", edge_index - shift, block.edge_ptr, -1, shifted=True)
    table = GraphTable(block.node_ptr, {"edge_index": field})
    return carry_fields(table, hierarchy, resolve(CarryRules.parse(rules), table)).levels


@settings(max_examples=150, deadline=None)
@given(hierarchies())
def test_levels_have_maps_where_edges_are_contracted(given_levels):
    block, edge_index, hierarchy = given_levels
    fine, fine_ptr = edge_index, block.edge_ptr
    for level in map_levels(block, edge_index, hierarchy):
        if level.assignment.soft is None and contracts_edges(level.method):
            field = level.fields["edge_map"]
            assert (field.values.dtype, field.shifted) == (np.int64, True)
            np.testing.assert_array_equal(field.ptr, fine_ptr)
            start = np.repeat(level.edge_ptr[:-1], np.diff(fine_ptr))
            found = np.where(field.values < 0, -1, field.values + start)
            assert found.tolist() == expected_map(fine, level.assignment.cluster, level.edge_index)
        else:
            assert "edge_map" not in level.fields
        fine, fine_ptr = level.edge_index, level.edge_ptr


def test_maps_of_two_levels_pool_attributes():
    rng = np.random.default_rng(0)
    block = BlockCSR.from_edge_index(rng.integers(0, 60, (2, 300)), num_nodes=60)
    edges, values = block.edge_index(), rng.random((block.num_edges, 3))
    table = GraphTable(
        block.node_ptr,
        {
            "edge_index": Field("edge_index", edges, block.edge_ptr, -1, shifted=True),
            "edge_attr": Field("edge_attr", values, block.edge_ptr),
        },
    )
    steps = resolve(CarryRules.parse("edge_index=map,edge_attr=sum"), table)
    first, second = carry_fields(table, coarsen(block, "graclus*2"), steps).levels
    composed = np.append(second.fields["edge_map"].values, -1)[first.fields["edge_map"].values]
    total = np.zeros((second.edges.edge_index.shape[1], 3))
    np.add.at(total, composed[composed >= 0], values[composed >= 0])
    np.testing.assert_array_equal(total, second.fields["edge_attr"].values)


def test_levels_after_a_kron_reduction_have_a_map_again():
    block = path(9)
    levels = map_levels(block, block.edge_index(), coarsen(block, "ndp,graclus"))
    assert [list(level.fields) for level in levels] == [["num_members"], ["num_members", "edge_map"]]
    assert len(levels[1].fields["edge_map"].values) == levels[0].edge_index.shape[1]


def test_rules():
    assert str(CarryRules.parse("pos=mean,edge_index=map")) == "edge_index=map,pos=mean"
    assert str(CarryRules.parse({"edge_index": "map"})) == "edge_index=map"
    with pytest.raises(UnknownNameError, match="map"):
        CarryRules.parse("pos=map")
    block = path(3)
    edges = Field("edge_index", block.edge_index(), block.edge_ptr, -1, shifted=True)
    own = Field("edge_map", np.zeros(block.num_edges), block.edge_ptr)
    table = GraphTable(block.node_ptr, {"edge_index": edges, "edge_map": own})
    count = CarryStep("num_members", "count")
    # The name is that of the map. An attribute of the same name is not carried.
    assert resolve(CarryRules.parse("auto"), table) == (count,)
    wanted = CarryStep("edge_map", "map", "edge", "edge_index")
    assert resolve(CarryRules.parse("auto,edge_index=map"), table) == (count, wanted)
    with pytest.raises(InputError, match="levels have their own"):
        resolve(CarryRules.parse("edge_map=mean"), table)
    with pytest.raises(InputError, match="levels have their own"):
        resolve(CarryRules.parse("edge_index=first"), table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", range(10))
@pytest.mark.parametrize("mean", [False, True])
def test_sums_of_any_number_of_columns(dtype, width, mean):
    """The kernel adds four columns at a time. Values have the bits of a sum in float64, row after row."""
    rng = np.random.default_rng(width)
    block = BlockCSR.from_edge_index(rng.integers(0, 40, (2, 400)), num_nodes=40)
    cluster = rng.integers(-1, 7, 40)
    assignment = Assignment("hard", np.array([0, 7]), cluster.astype(np.int32))
    coarse = contract(block, assignment)
    values = rng.standard_normal((block.num_edges, width)).astype(dtype)
    values[::5] = -0.0
    found = edge_map(block, assignment, coarse)
    total, count = (
        np.zeros((coarse.num_edges, width)),
        np.bincount(found[found >= 0], minlength=coarse.num_edges),
    )
    np.add.at(total, found[found >= 0], values[found >= 0].astype(np.float64))
    if mean:
        total /= count[:, None]
    nodes = Groups(cluster, 7, assignment.super_ptr)
    rows = InputEdges(block.indptr, block.indices)._rows(nodes, coarse)
    assert _add_edges(rows, 7, values, mean).tobytes() == total.astype(dtype).tobytes()


def test_parallel_coarse_edges():
    """A level that does not change its graphs keeps parallel edges. The last one of them is found."""
    block = path(2)
    level = Level(
        "nopool",
        block.node_ptr,
        Assignment("hard", block.node_ptr, np.arange(2, dtype=np.int32)),
        EdgeList(np.array([0, 3]), np.array([[0, 0, 1], [1, 1, 0]])),
    )
    (found,) = map_levels(block, block.edge_index(), Hierarchy(block.node_ptr, (level,)))
    assert found.fields["edge_map"].values.tolist() == [1, 2]
