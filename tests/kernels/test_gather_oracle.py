"""Batches that the compiled gather kernels copy from raw addresses equal batches that plain numpy joins."""

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.ragged import Assignment, Field, GraphTable, Hierarchy, Level
from tgp.ragged.offsets import offsets
from tgp.store import HierarchySpec, StoreReader, StoreSpec, StoreWriter, data_digest
from tgp.store.format.constants import ORIGINAL_DTYPES
from tgp.testing.stores import random_hierarchy

MAGNITUDES = (1, 100, 2**8, 2**15, 2**31, 2**33, 2**62)
"""Largest values of integer fields. Integers are stored in the smallest type that holds them."""


@st.composite
def fields(draw):
    """Draw the declaration of a field: type, shape of a row, axis, offsets, magnitude and sign."""
    dtype = draw(st.sampled_from(sorted(ORIGINAL_DTYPES)))
    cut = draw(st.sampled_from(["node", "graph", "own"]))
    is_id = np.dtype(dtype).kind in "iu" and draw(st.booleans())
    tail = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    axis = draw(st.sampled_from([0, -1]))
    return dtype, cut, tail, axis, is_id, draw(st.sampled_from(MAGNITUDES)), draw(st.booleans())


def make_values(rng, dtype, shape, magnitude, negative):
    """Return random numbers of any type."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        info = np.iinfo(dtype)
        low = max(-magnitude if negative else 0, int(info.min))
        return rng.integers(low, min(magnitude, int(info.max)), shape, dtype=np.int64).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if kind == "c" else values).astype(dtype)


def make_table(rng, sizes, declared):
    """Return graphs with the declared fields."""
    node_ptr, count = offsets(sizes), len(sizes)
    made = {}
    for number, (dtype, cut, tail, axis, is_id, magnitude, negative) in enumerate(declared):
        counts = {"node": sizes, "graph": np.ones(count, int), "own": rng.integers(0, 4, count)}[cut]
        if is_id:
            counts = np.where(sizes > 0, counts, 0)  # a graph without nodes has no valid ids
        ptr = offsets(counts)
        shape = (int(ptr[-1]), *tail) if axis == 0 else (*tail, int(ptr[-1]))
        if is_id:
            high = np.repeat(np.minimum(sizes, 100), counts)
            high = high.reshape(-1, *([1] * len(tail))) if axis == 0 else high
            values = (rng.random(shape) * high).astype(dtype)
        else:
            values = make_values(rng, dtype, shape, magnitude, negative)
        name = f"f{number}"
        made[name] = Field(name, values, ptr, axis, shifted=is_id)
    return GraphTable(node_ptr, made)


def without_weights(hierarchy):
    """Return a hierarchy without the weights of assignments and edges. Readers return ones for them."""
    levels = []
    for level in hierarchy.levels:
        given = level.assignment
        bare = Assignment(
            given.kind, given.super_ptr, given.cluster, None, given.soft, given.theta, given.representative
        )
        block = level.block
        plain = type(block)(block.indptr, block.indices, None, block.node_ptr)
        levels.append(Level(level.method, level.node_ptr, bare, plain))
    return Hierarchy(hierarchy.node_ptr, tuple(levels))


def write(path, table, bounds, profile, kinds, bare, seed):
    """Write a store and return its hierarchies, one per unit."""
    schedule = [{"method": f"any-{kind}", "params": {}} for kind in kinds]
    specs = (HierarchySpec("h", schedule, 0),) if kinds else ()
    digest = data_digest(table)
    writer = StoreWriter.open(path, StoreSpec({}, digest, table.num_graphs, bounds, profile, specs))
    parts = []
    for unit in range(len(bounds) - 1):
        part = table.take(np.arange(bounds[unit], bounds[unit + 1]))
        writer.write_graphs(unit, part)
        if kinds:
            hierarchy = random_hierarchy(part.node_ptr, kinds, seed + unit)
            parts.append(without_weights(hierarchy) if unit in bare else hierarchy)
            writer.write_hierarchy(unit, "h", parts[-1])
    writer.publish()
    return parts


def joined_field(table, name, ids, *, local):
    """Join the rows of a field with numpy."""
    field = table.fields[name]
    pieces, shift = [], 0
    for graph in ids:
        piece = field.item(graph)
        if field.shifted and not local:
            piece = (piece.astype(np.int64) + shift).astype(piece.dtype)
        pieces.append(piece)
        shift += int(table.node_ptr[graph + 1] - table.node_ptr[graph])
    axis = field.axis
    empty = np.take(field.values, np.arange(0), axis=axis)
    return np.concatenate([empty, *pieces], axis=axis)


def joined_level(parts, bounds, number, ids):
    """Join the arrays of one level with numpy; ids count through the batch."""
    found, supers, nodes = {}, 0, 0
    levels = [part.levels[number] for part in parts]
    present = {name for level in levels if level.block.num_nodes for name in level.arrays()}
    for graph in ids:
        unit = int(np.searchsorted(bounds, graph, side="right")) - 1
        level, row = levels[unit], graph - bounds[unit]
        arrays = level.arrays()
        low, high = int(level.node_ptr[row]), int(level.node_ptr[row + 1])
        first, last = int(level.super_ptr[row]), int(level.super_ptr[row + 1])
        start, end = int(level.edge_ptr[row]), int(level.edge_ptr[row + 1])
        add = found.setdefault
        add("edge_index", []).append(arrays["edge_index"][:, start:end].astype(np.int64) - first + supers)
        if "edge_weight" in present:
            weight = arrays.get("edge_weight", np.ones(level.edge_ptr[-1]))
            add("edge_weight", []).append(weight[start:end].astype(np.float32))
        if "cluster" in present:
            cluster = arrays["cluster"][low:high].astype(np.int64)
            add("cluster", []).append(np.where(cluster < 0, -1, cluster - first + supers))
        if "weight" in present:
            add("weight", []).append(arrays.get("weight", np.ones(level.node_ptr[-1], np.float32))[low:high])
        for name in ("soft", "theta"):
            if name in present:
                add(name, []).append(arrays[name][low:high])
        if "representative" in present:
            chosen = arrays["representative"][first:last].astype(np.int64)
            add("representative", []).append(chosen - low + nodes)
        supers, nodes = supers + last - first, nodes + high - low
    return {
        name: np.concatenate(pieces, axis=-1 if name == "edge_index" else 0) for name, pieces in found.items()
    }


def assert_same(got, wanted, where):
    assert got.dtype == wanted.dtype, where
    assert got.shape == wanted.shape, where
    np.testing.assert_array_equal(got, wanted, err_msg=where)


@pytest.mark.parametrize("profile", ["fast", "small"])
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    declared=st.lists(fields(), min_size=1, max_size=4),
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=7),
    units=st.integers(1, 3),
    in_memory=st.booleans(),
    local=st.booleans(),
)
def test_fields_equal_the_reference(
    tmp_path_factory, profile, seed, declared, sizes, units, in_memory, local
):
    rng = np.random.default_rng(seed)
    table = make_table(rng, np.array(sizes), declared)
    bounds = tuple(np.linspace(0, len(sizes), units + 1).astype(int).tolist())
    path = tmp_path_factory.mktemp("store")
    write(path, table, bounds, profile, (), (), seed)
    reader = StoreReader(path, in_memory=in_memory)
    plan = reader.batch_plan(None, (), local=local)
    for size in (len(sizes), 1, 9):
        ids = rng.integers(0, len(sizes), size).tolist()
        found = plan.gather(ids)
        counts = np.diff(table.node_ptr)[ids]
        assert found.node_ptr.tolist() == offsets(counts).tolist()
        for name in table.fields:
            assert_same(found.fields[name].values, joined_field(table, name, ids, local=local), name)
        if not local:
            assert found.batches[0].tolist() == np.repeat(np.arange(size), counts).tolist()
    shutil.rmtree(path)


@pytest.mark.parametrize("profile", ["fast", "small"])
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.lists(st.sampled_from(["hard", "onehot", "soft"]), min_size=1, max_size=3),
    sizes=st.lists(st.integers(0, 6), min_size=3, max_size=8),
    bare=st.sets(st.integers(0, 2)),
    in_memory=st.booleans(),
)
def test_levels_equal_the_reference(tmp_path_factory, profile, seed, kinds, sizes, bare, in_memory):
    rng = np.random.default_rng(seed)
    table = make_table(rng, np.array(sizes), [("float32", "node", (2,), 0, False, 1, False)])
    bounds = tuple(np.linspace(0, len(sizes), 4).astype(int).tolist())
    path = tmp_path_factory.mktemp("store")
    parts = write(path, table, bounds, profile, kinds, bare, seed % 1000)
    reader = StoreReader(path, in_memory=in_memory)
    ids = rng.integers(0, len(sizes), 11).tolist()
    for number, level in enumerate(reader.gather_levels(ids, "h")):
        wanted, got = joined_level(parts, bounds, number, ids), level.arrays()
        for name in wanted:
            assert_same(got[name], wanted[name], f"level {number}, {name}")
    shutil.rmtree(path)
