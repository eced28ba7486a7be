"""Attributes of levels, compared with a reference for every reduction, kind of assignment and type."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import carry as reference
from tgp.engine.carry import REDUCTIONS, CarryRules, CarryStep, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import coarsen
from tgp.engine.contraction import contract
from tgp.ragged import Assignment, BlockCSR, EdgeList, Field, GraphTable, Hierarchy, Level
from tgp.testing.graphs import cycle, path
from tgp.testing.strategies import blocks

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
FLOATS = ["float16", "float32", "float64"]
WITHOUT = {"f": ("any", "all")}


@st.composite
def assignments(draw, node_ptr, kind):
    """Draw an assignment with dropped nodes, empty supernodes and ties."""
    counts = np.diff(node_ptr).tolist()
    if kind == "hard":
        sizes = [draw(st.integers(0, 4)) for _ in counts]
    else:
        sizes = [draw(st.integers(1, 3))] * len(counts)
    super_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if kind == "soft":
        k = sizes[0] if sizes else 1
        entry = st.sampled_from([0.0, 0.25, 0.5, 0.3, 1.0])
        rows = [[draw(entry) for _ in range(k)] for _ in range(sum(counts))]
        return Assignment("soft", super_ptr, soft=np.array(rows, np.float32).reshape(-1, k))
    cluster = [
        c if c < 0 else c + int(start)
        for count, k, start in zip(counts, sizes, super_ptr, strict=False)
        for c in draw(st.lists(st.integers(-1, k - 1), min_size=count, max_size=count))
    ]
    cluster = np.array(cluster, np.int32)
    representative = None
    if kind == "hard" and draw(st.booleans()):
        groups = reference.members(cluster.tolist(), int(super_ptr[-1]))
        if all(groups):
            representative = np.array([draw(st.sampled_from(rows)) for rows in groups], np.int32)
    return Assignment(kind, super_ptr, cluster, representative=representative)


@st.composite
def hierarchies(draw):
    """Draw graphs, the order of their edges, and up to three levels of any kinds."""
    block = draw(blocks(max_graphs=3, max_nodes=7, weighted=False))
    levels, current = [], block
    for kind in draw(st.lists(st.sampled_from(["hard", "hard", "onehot", "soft"]), min_size=1, max_size=3)):
        assignment = draw(assignments(current.node_ptr, kind))
        coarse = contract(current, assignment)
        method = (
            "nmf" if kind == "soft" else draw(st.sampled_from(["graclus", "graclus", "ndp", "graclus+sep"]))
        )
        level = Level(method, current.node_ptr, assignment, coarse)
        if draw(st.booleans()):  # as it is read from a store, in any order
            order = np.array(draw(st.permutations(range(coarse.num_edges))), np.int64)
            edges = EdgeList(level.edge_ptr, level.edge_index[:, order], None)
            level = Level(method, current.node_ptr, assignment, edges)
        levels.append(level)
        current = coarse
    edge_index = block.edge_index()
    if draw(st.booleans()):
        edge_index = edge_index[:, _shuffled(draw, block.edge_ptr)]
    return block, edge_index, Hierarchy(block.node_ptr, tuple(levels))


def _shuffled(draw, ptr):
    parts = [draw(st.permutations(range(low, high))) for low, high in pairwise(ptr)]
    return np.array([edge for part in parts for edge in part], np.int64)


def make_table(block, edge_index, fields):
    """Return the table of a block with attributes ``name -> (values, owner)``."""
    local = edge_index - np.repeat(block.node_ptr[:-1], np.diff(block.edge_ptr))
    found = {"edge_index": Field("edge_index", local, block.edge_ptr, -1, "rows", True)}
    for name, (values, owner) in fields.items():
        found[name] = Field(name, values, block.node_ptr if owner == "node" else block.edge_ptr)
    return GraphTable(block.node_ptr, found)


def draw_values(draw, count, dtype, columns):
    shape = (count,) if columns is None else (count, columns)
    size = int(np.prod(shape))
    if dtype == "bool":
        items = st.booleans()
    elif dtype in FLOATS:
        items = st.sampled_from([0.0, 0.1, -0.7, 1.5, 3.25, 1e3])
    else:
        info = np.iinfo(dtype)
        items = st.sampled_from([0, 1, 2, 2, 7, info.max // 64, max(info.min // 64, info.min)])
    values = draw(st.lists(items, min_size=size, max_size=size))
    return np.array(values, dtype).reshape(shape)


def columns_of(values):
    return values.reshape(len(values), int(np.prod(values.shape[1:]))).T


def expected_columns(values, groups, weights, reduction, first):
    """Return the result for each column, as the columns of a level attribute."""
    found = []
    parts = ("mean", "std", "max") if reduction == "stats" else (reduction,)
    for part in parts:
        found += [reference.reduced(column, groups, weights, part, first) for column in columns_of(values)]
    if reduction == "stats":
        wide = values.dtype if values.dtype.kind == "f" else np.float32
        found = [column.astype(wide) for column in found]
    return found


def compare(field, columns, ptr):
    np.testing.assert_array_equal(field.ptr, ptr)
    assert field.values.dtype == columns[0].dtype
    np.testing.assert_array_equal(columns_of(field.values), np.array(columns))


def kinds_of(dtype):
    return [r for r in REDUCTIONS if r != "none" and r not in WITHOUT.get(np.dtype(dtype).kind, ())]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
@settings(max_examples=40)
@given(data=st.data())
def test_reductions_equal_the_reference(dtype, data):
    block, edge_index, hierarchy = data.draw(hierarchies())
    columns = data.draw(st.sampled_from([None, 1, 2]))
    values = {
        "node": draw_values(data.draw, block.num_nodes, dtype, columns),
        "edge": draw_values(data.draw, block.num_edges, dtype, columns),
    }
    table = make_table(block, edge_index, {owner: (array, owner) for owner, array in values.items()})
    steps = [CarryStep("num_members", "count")]
    steps += [CarryStep(f"{o}_{r}", r, o, o) for o in values for r in [*kinds_of(dtype), "purity", "mixed"]]
    found = carry_fields(table, hierarchy, steps)
    contracted = True
    for level, (rows, best, soft, first) in zip(found.levels, reference.shares(hierarchy), strict=True):
        contracted = contracted and not soft and level.method != "ndp"
        size = level.assignment.num_supernodes
        groups = reference.members(best, size)
        weights = None
        if soft:
            weights = [[(i, row[s]) for i, row in enumerate(rows) if s in row] for s in range(size)]
        members = [sum(w for _, w in part) for part in weights] if soft else [len(part) for part in groups]
        compare(
            level.fields["num_members"],
            [np.array(members, np.float32 if soft else np.int64)],
            level.super_ptr,
        )
        for step in steps[1:]:
            if step.owner == "edge" and not contracted:
                assert step.name not in level.fields
                continue
            if step.owner == "edge":
                inside = reference.edge_members(level, best, edge_index.T.tolist())
                columns = expected_columns(values["edge"], inside, None, step.reduction, None)
                compare(level.fields[step.name], columns, level.edge_ptr)
            else:
                columns = expected_columns(values["node"], groups, weights, step.reduction, first)
                compare(level.fields[step.name], columns, level.super_ptr)


def label_table(block, labels, mask):
    fields = {"y": (np.asarray(labels), "node"), "train_mask": (np.asarray(mask, bool), "node")}
    return make_table(block, block.edge_index(), fields)


def one_level(block, cluster):
    assignment = Assignment("hard", np.array([0, max(cluster) + 1]), np.array(cluster, np.int32))
    return Hierarchy(
        block.node_ptr, (Level("graclus", block.node_ptr, assignment, contract(block, assignment)),)
    )


def carried(table, hierarchy, rules):
    return carry_fields(table, hierarchy, resolve(CarryRules.parse(rules), table)).levels


def test_training_labels_come_from_training_members_only():
    block = path(6)
    table = label_table(block, [5, 5, 3, 3, 4, 4], [False, False, True, True, True, False])
    fields = carried(table, one_level(block, [0, 0, 1, 1, 1, 2]), "y=majority")[0].fields
    assert fields["y"].values.tolist() == [5, 3, 4]
    assert fields["y_train"].values.tolist() == [-1, 3, -1]
    assert fields["y_mixed"].values.tolist() == [False, True, False]
    assert fields["y_purity"].values.tolist() == pytest.approx([1.0, 2 / 3, 1.0])
    assert "train_mask" not in fields


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_missing_training_labels_of_unsigned_types_are_minus_one(dtype):
    block = path(2)
    table = label_table(block, np.array([1, 0], dtype), [True, False])
    fields = carried(table, one_level(block, [0, 1]), "y=majority")[0].fields
    assert fields["y"].values.dtype == dtype and fields["y_train"].values.tolist() == [1, -1]


@pytest.mark.parametrize("labels", [[2**62, -(2**63), 2**62], [2**63 - 1, 2**63 - 2, 2**63 - 1]])
def test_labels_may_be_any_integers(labels):
    block = path(3)
    fields = carried(label_table(block, labels, [True] * 3), one_level(block, [0, 0, 0]), "y=majority")[
        0
    ].fields
    assert fields["y"].values.tolist() == [labels[0]]


def test_sums_of_integers_are_exact():
    block = path(2)
    table = make_table(block, block.edge_index(), {"z": (np.array([2**53, 1]), "node")})
    fields = carried(table, one_level(block, [0, 0]), "z=sum")[0].fields
    assert fields["z"].values.tolist() == [2**53 + 1]


def test_texts_are_carried_by_first_and_majority():
    block = path(5)
    names = json.dumps(["b", "a", "a", "\u00e9", "b"], ensure_ascii=False).encode()
    table = make_table(block, block.edge_index(), {})
    field = Field("names", np.frombuffer(names, np.uint8), np.array([0, len(names)]), 0, "json")
    table = GraphTable(table.node_ptr, {**table.fields, "names": field})
    hierarchy = one_level(block, [0, 0, 0, 1, -1])
    for rule, expected in {"first": ["b", "\u00e9"], "majority": ["a", "\u00e9"]}.items():
        found = carried(table, hierarchy, {"names": rule})[0].fields["names"]
        assert found.form == "json" and json.loads(found.values.tobytes()) == expected
        assert found.ptr.tolist() == [0, len(found.values)]
    assert "names" not in carried(table, hierarchy, "auto")[0].fields


def test_parallel_edges_of_an_identity_share_their_value():
    block = BlockCSR.from_edge_index([[0, 0, 1], [1, 1, 0]], num_nodes=2)
    table = make_table(block, block.edge_index(), {"edge_attr": (np.array([1.0, 3.0, 8.0]), "edge")})
    levels = carried(table, coarsen(block, "nopool,graclus"), "edge_attr=mean")
    assert levels[0].fields["edge_attr"].values.tolist() == [2.0, 2.0, 8.0]


def test_levels_after_a_kron_reduction_have_no_edge_attributes():
    block = cycle(12)
    table = make_table(block, block.edge_index(), {"edge_attr": (np.ones(block.num_edges), "edge")})
    for schedule, expected in {
        "graclus,ndp,graclus": [True, False, False],
        "graclus,nmf:k=2": [True, False],
        "kmis,eigen:k=2": [True, True],
    }.items():
        levels = carried(table, coarsen(block, schedule), "auto")
        assert ["edge_attr" in level.fields for level in levels] == expected


def test_representatives_are_the_first_members():
    block = path(9)
    table = make_table(block, block.edge_index(), {"id": (np.arange(9), "node")})
    hierarchy = coarsen(block, "kmis*2")
    levels = carried(table, hierarchy, "id=first")
    kept = hierarchy.levels[0].assignment.representative
    assert levels[0].fields["id"].values.tolist() == kept.tolist()
    chosen = kept[hierarchy.levels[1].assignment.representative]
    assert levels[1].fields["id"].values.tolist() == chosen.tolist()


@given(
    blocks(min_graphs=1, weighted=False),
    st.sampled_from(["graclus*2", "kmis,nmf:k=2", "eigen:k=2,sep", "ndp"]),
)
@settings(max_examples=30)
def test_a_graph_has_the_same_values_alone_and_in_a_block(block, schedule):
    rng = np.random.default_rng(block.num_edges)
    fields = {
        "x": (rng.random((block.num_nodes, 2)), "node"),
        "y": (rng.integers(0, 3, block.num_nodes), "node"),
        "edge_attr": (rng.random(block.num_edges), "edge"),
    }
    table = make_table(block, block.edge_index(), fields)
    rules = CarryRules.parse("x=stats,y=majority,edge_attr=mean")
    steps = resolve(rules, table)
    whole = carry_fields(table, coarsen(block, schedule), steps)
    for graph in range(block.num_graphs):
        part = table.take([graph])
        alone = carry_fields(part, coarsen(part.to_block(), schedule), steps)
        for level, single in zip(whole.levels, alone.levels, strict=True):
            assert level.fields.keys() == single.fields.keys()
            for name, field in level.fields.items():
                np.testing.assert_array_equal(field.item(graph), single.fields[name].values)


def test_nothing_is_carried_without_steps():
    hierarchy = coarsen(path(4), "graclus")
    assert carry_fields(GraphTable(np.array([0, 4])), hierarchy, ()) is hierarchy


def test_fields_of_levels_are_concatenated():
    block = cycle(6)
    table = make_table(
        block, block.edge_index(), {"x": (np.arange(6.0), "node"), "edge_attr": (np.ones(12), "edge")}
    )
    (level,) = carried(table, coarsen(block, "graclus"), "auto")
    joined = Level.concat([level, level])
    for name, field in joined.fields.items():
        np.testing.assert_array_equal(field.ptr, joined.edge_ptr if "edge" in name else joined.super_ptr)
        np.testing.assert_array_equal(field.values, np.tile(level.fields[name].values, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [0, 1, 3, 4, 7, 12])
def test_edge_sums_of_a_large_graph_equal_sums_in_the_order_of_the_edges(width, dtype):
    rng = np.random.default_rng(width)
    pairs = np.stack([rng.integers(0, 300, 3000), rng.integers(0, 300, 3000)])
    pairs[0, :1500] = 7  # a long row
    block = BlockCSR.from_edge_index(np.concatenate([pairs, pairs[::-1]], axis=1), num_nodes=300)
    edges = block.edge_index()
    values = (rng.standard_normal((block.num_edges, width)) * 10.0 ** rng.integers(-8, 8, width)).astype(
        dtype
    )
    table = make_table(block, edges, {"edge_attr": (values, "edge")})
    hierarchy = coarsen(block, "graclus*3")
    cluster = np.arange(300)
    means, sums = (carried(table, hierarchy, f"edge_attr={how}") for how in ("mean", "sum"))
    for level, mean, total in zip(hierarchy.levels, means, sums, strict=True):
        cluster = level.assignment.cluster[cluster]
        place = {pair: row for row, pair in enumerate(zip(*level.edge_index.tolist(), strict=True))}
        found = [place.get(pair, -1) for pair in zip(*cluster[edges].tolist(), strict=True)]
        expected, count = np.zeros((len(place), width)), np.zeros((len(place), 1))
        for row, value in zip(found, values.astype(np.float64), strict=True):
            if row >= 0:
                expected[row] += value
                count[row] += 1
        assert count.max() > 1
        assert total.fields["edge_attr"].values.tobytes() == expected.astype(dtype).tobytes()
        assert mean.fields["edge_attr"].values.tobytes() == (expected / count).astype(dtype).tobytes()
