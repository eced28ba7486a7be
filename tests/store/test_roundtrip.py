"""Stores return the graphs and levels that were written: every type, form and kind, in both profiles."""

import os
import tempfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import gather
from tgp.ragged import Assignment, BlockCSR, Field, GraphTable, Hierarchy, Level
from tgp.ragged.offsets import offsets
from tgp.store import HierarchySpec, StoreReader, StoreSpec, StoreWriter, data_digest, verify_store
from tgp.testing.stores import random_hierarchy

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


# A file system in memory, if there is one, avoids writing hundreds of small stores to the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def random_values(rng, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        info = np.iinfo(dtype)
        # Small numbers and extreme ones, so that all stored types occur.
        low, high = [(0, 3), (max(info.min, -1), 100), (info.min, info.max)][rng.integers(3)]
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    values = rng.standard_normal(shape)
    if values.size:
        values.flat[0] = [np.nan, np.inf, -0.0, 1.5][rng.integers(4)]
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if kind == "c" else values.astype(dtype)


@st.composite
def tables(draw):
    """Draw graphs with fields of every scope and form, including empty graphs and no graphs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(0, 6), max_size=7))
    node_ptr = offsets(sizes)
    count = len(sizes)
    degrees = [int(rng.integers(0, 9)) if n else 0 for n in sizes]
    edge_ptr = offsets(degrees)
    fields = {}
    if draw(st.booleans()):
        ends = (rng.random((2, sum(degrees))) * np.repeat(sizes, degrees)).astype(np.int64)
        fields["edge_index"] = Field("edge_index", ends, edge_ptr, axis=-1, shifted=True)
    for number in range(draw(st.integers(0, 4))):
        dtype = draw(st.sampled_from(DTYPES))
        tail = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
        scope = draw(st.sampled_from(["node", "edge", "graph", "free"]))
        free = [int(n) for n in rng.integers(0, 4, count)]
        ptr = {"node": node_ptr, "edge": edge_ptr, "graph": np.arange(count + 1), "free": offsets(free)}[
            scope
        ]
        axis = draw(st.sampled_from([0, -1])) if scope != "graph" else 0
        length = int(ptr[-1])
        shape = (length, *tail) if axis == 0 else (*tail, length)
        form = draw(st.sampled_from(["rows", "stacked"])) if scope == "graph" else "rows"
        name = draw(st.sampled_from(["x", "pos", "edge_attr", "a/b", "..", "größe", "%41"])) + str(number)
        fields[name] = Field(name, random_values(rng, shape, dtype), ptr, axis, form)
    one_each = np.arange(count + 1)
    fields["n"] = Field("n", rng.integers(-5, 5, count), one_each, form="int")
    fields["f"] = Field("f", rng.standard_normal(count), one_each, form="float")
    fields["b"] = Field("b", rng.random(count) < 0.5, one_each, form="bool")
    texts = [("graph ü" * int(rng.integers(0, 3))).encode() for _ in range(count)]
    text = np.frombuffer(b"".join(texts), np.uint8)
    fields["s"] = Field("s", text, offsets([len(t) for t in texts]), form="str")
    anchors = np.array([int(rng.integers(n)) for n in sizes if n], np.int64)
    dtype = draw(st.sampled_from(["int64", "int32", "int16", "uint8"]))
    fields["root"] = Field("root", anchors.astype(dtype), offsets([int(n > 0) for n in sizes]), shifted=True)
    return GraphTable(node_ptr, fields)


@st.composite
def cuts(draw, count):
    """Draw the bounds of shards of any size, including empty ones."""
    inner = draw(st.lists(st.integers(0, count), max_size=3))
    return (0, *sorted(inner), count)


def assert_same_table(got, expected):
    np.testing.assert_array_equal(got.node_ptr, expected.node_ptr)
    assert set(got.fields) == set(expected.fields)
    for name, field in expected.fields.items():
        found = got.fields[name]
        assert (found.axis, found.form, found.shifted) == (field.axis, field.form, field.shifted)
        assert found.values.dtype == field.values.dtype, name
        assert found.values.shape == field.values.shape, name
        # Bit for bit: NaN, -0.0 and the like included.
        assert np.ascontiguousarray(found.values).tobytes() == np.ascontiguousarray(field.values).tobytes(), (
            name
        )
        np.testing.assert_array_equal(found.ptr, field.ptr)


def take_hierarchy(hierarchy, ids):
    """Return the arrays of each level of the given graphs, graph by graph, with ids that count through the batch."""
    node_ptr, levels = hierarchy.node_ptr, []
    for level in hierarchy.levels:
        given, block = level.assignment, level.block
        supers, edges = given.super_ptr, block.edge_ptr
        ends = block.edge_index()
        out = {
            k: []
            for k in ("edge_index", "edge_weight", "cluster", "weight", "soft", "theta", "representative")
        }
        n = k = 0
        for g in ids:
            a, b, c, d, e, f = node_ptr[g], node_ptr[g + 1], supers[g], supers[g + 1], edges[g], edges[g + 1]
            out["edge_index"].append(ends[:, e:f] - c + k)
            out["edge_weight"].append(block.weight[e:f])
            if given.cluster is not None:
                out["cluster"].append([x - c + k if x >= 0 else -1 for x in given.cluster[a:b].tolist()])
            if given.representative is not None:
                out["representative"].append(given.representative[c:d] - a + n)
            for name in ("weight", "soft", "theta"):
                if getattr(given, name) is not None:
                    out[name].append(getattr(given, name)[a:b])
            n, k = n + b - a, k + d - c
        levels.append(out)
        node_ptr = supers
    return levels


def assert_same_levels(found, expected):
    for got, wanted in zip(found, expected, strict=True):
        for name, pieces in wanted.items():
            if pieces:
                axis = -1 if name == "edge_index" else 0
                expected_array = np.concatenate(pieces, axis=axis)
                np.testing.assert_array_equal(got.arrays()[name], expected_array, err_msg=name)


def assert_equals_oracle(reader, ids, hierarchy=None):
    """Compare every way to read graphs with the plain version."""
    depth = len(reader.hierarchies[hierarchy].levels) if hierarchy else 0
    table = gather.gather_graphs(reader, ids)
    levels = gather.gather_levels(reader, ids, hierarchy) if hierarchy else []
    assert_same_table(reader.gather_graphs(ids), table)
    got = reader.batch_plan(hierarchy, range(depth)).gather(ids)
    joined = {
        name: replace(field, values=_joined_ids(field, table.node_ptr))
        for name, field in table.fields.items()
    }
    assert_same_table(GraphTable(got.node_ptr, got.fields), GraphTable(table.node_ptr, joined))
    assert_equal_levels(got.levels, levels)
    if hierarchy:
        assert_equal_levels(reader.gather_levels(ids, hierarchy), levels)
        for number, level in enumerate(levels):
            if level.assignment.cluster is not None:
                chosen = sorted(set(ids))
                cluster = gather.gather_levels(reader, chosen, hierarchy)[number].assignment.cluster
                counts = np.bincount(cluster[cluster >= 0], minlength=0)
                sizes = reader.cluster_sizes(hierarchy, number, chosen)
                np.testing.assert_array_equal(sizes[: len(counts)], counts)
                assert not sizes[len(counts) :].any()
    ptrs = [table.node_ptr, *(level.super_ptr for level in levels)]
    for batch, ptr in zip(got.batches, ptrs, strict=True):
        np.testing.assert_array_equal(batch, np.repeat(np.arange(len(ids)), np.diff(ptr)))
    for graph in ids[:2]:
        assert_same_table(reader.read_graph(graph), gather.gather_graphs(reader, [graph]))
        if hierarchy:
            one = gather.gather_levels(reader, [graph], hierarchy)
            assert_equal_levels(reader.read_levels(graph, hierarchy), one)


def _joined_ids(field, node_ptr):
    """Return the values of a field with node ids that count through the batch."""
    if not field.shifted:
        return field.values
    shift = np.repeat(node_ptr[:-1], np.diff(field.ptr)).astype(field.values.dtype)
    return field.values + shift


def assert_equal_levels(found, expected):
    for left, right in zip(found, expected, strict=True):
        assert (left.method, left.assignment.kind) == (right.method, right.assignment.kind)
        for name in ("node_ptr", "super_ptr", "edge_ptr"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
        assert left.arrays().keys() == right.arrays().keys()
        for name, array in right.arrays().items():
            np.testing.assert_array_equal(left.arrays()[name], array, err_msg=name)
            assert left.arrays()[name].dtype == array.dtype, name


def make(path, table, bounds, profile, hierarchy=None, seed=0):
    specs = ()
    if hierarchy is not None:
        specs = (
            HierarchySpec("h", [{"method": level.method, "params": {}} for level in hierarchy.levels], seed),
        )
    spec = StoreSpec({"name": "drawn"}, data_digest(table), table.num_graphs, bounds, profile, specs)
    return StoreWriter.open(path, spec)


@pytest.mark.parametrize("profile", ["fast", "small"])
@settings(max_examples=40)
@given(data=st.data())
def test_fields_are_read_bit_for_bit(profile, data):
    table = data.draw(tables())
    bounds = data.draw(cuts(table.num_graphs))
    ids = data.draw(st.lists(st.integers(0, table.num_graphs - 1), max_size=9)) if table.num_graphs else []
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        writer = make(folder, table, bounds, profile)
        for unit in range(len(bounds) - 1):
            writer.write_graphs(unit, table.take(np.arange(bounds[unit], bounds[unit + 1])))
        writer.publish()
        reader = StoreReader(folder)
        assert reader.num_graphs == table.num_graphs
        assert_same_table(reader.gather_graphs(np.arange(table.num_graphs)), table)
        assert_same_table(reader.gather_graphs(ids), table.take(np.array(ids, np.int64)))
        assert_equals_oracle(reader, ids)
        assert_equals_oracle(reader.load(), ids)
        nodes, edges = reader.sizes()
        np.testing.assert_array_equal(nodes, np.diff(table.node_ptr))
        expected = np.diff(table.fields["edge_index"].ptr) if "edge_index" in table.fields else 0 * nodes
        np.testing.assert_array_equal(edges, expected)
        assert verify_store(folder) == []


@pytest.mark.parametrize("profile", ["fast", "small"])
@settings(max_examples=40)
@given(data=st.data())
def test_levels_are_read_in_any_order(profile, data):
    sizes = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=8))
    kinds = data.draw(st.lists(st.sampled_from(["hard", "onehot", "soft"]), min_size=1, max_size=3))
    seed = data.draw(st.integers(0, 2**20))
    bounds = data.draw(cuts(len(sizes)))
    ids = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=9))
    table = GraphTable(offsets(sizes))
    # One hierarchy per shard, as `coarsen_dataset` writes them. They are joined for the comparison.
    units = [
        random_hierarchy(table.take(np.arange(low, high)).node_ptr, kinds, seed + low)
        for low, high in pairwise(bounds)
    ]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        writer = make(folder, table, bounds, profile, units[0])
        for unit, (low, high) in enumerate(pairwise(bounds)):
            writer.write_graphs(unit, table.take(np.arange(low, high)))
            writer.write_hierarchy(unit, "h", units[unit])
        writer.publish()
        reader = StoreReader(folder)
        found = reader.gather_levels(ids, "h")
        whole = _joined(units, bounds, table)
        assert_same_levels(found, take_hierarchy(whole, ids))
        assert_equals_oracle(reader, ids, "h")
        assert_equals_oracle(reader.load(), ids, "h")
        for number, level in enumerate(whole.levels):
            nodes, edges = reader.sizes("h", number + 1)
            np.testing.assert_array_equal(nodes, np.diff(level.assignment.super_ptr))
            np.testing.assert_array_equal(edges, np.diff(level.block.edge_ptr))
            one = reader.gather_level(ids, "h", number)
            np.testing.assert_array_equal(one.edge_index, found[number].edge_index)


def _joined(units, bounds, table):
    filled = [u for u in units if u.num_graphs]
    levels, node_ptr = [], table.node_ptr
    for number, first in enumerate(filled[0].levels):
        assignment = Assignment.concat([u.levels[number].assignment for u in filled])
        block = BlockCSR.concat([u.levels[number].block for u in filled])
        levels.append(Level(first.method, node_ptr, assignment, block))
        node_ptr = assignment.super_ptr
    return Hierarchy(table.node_ptr, tuple(levels))
