"""Fields of levels in a store: round trips, schema, old stores, and damaged or forged values."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from tests.reference.refusals import refused
from tests.store.test_contents import replace_values
from tgp.errors import InputError, StoreDamagedError, StoreError, StoreMismatchError
from tgp.ragged import Field, GraphTable, Hierarchy
from tgp.store import (
    FailureRecord,
    HierarchySpec,
    MemoryWriter,
    StoreReader,
    StoreSpec,
    StoreWriter,
    data_digest,
    spec_differences,
    verify_store,
)
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.testing.stores import (
    forge_manifest,
    forge_shard,
    halving,
    random_hierarchy,
    random_level_fields,
    random_table,
)

KINDS = ("hard", "onehot", "soft")


def write(path, hierarchy, table, bounds, profile="fast", carry="auto", failures=()):
    schedule = [{"method": level.method, "params": {}} for level in hierarchy.levels]
    spec = HierarchySpec("h", schedule, 0, 1, False, carry)
    store = StoreSpec({"name": "t"}, data_digest(table), table.num_graphs, bounds, profile, (spec,))
    writer = StoreWriter.open(path, store)
    for unit, (low, high) in enumerate(pairwise(bounds)):
        ids = np.arange(low, high)
        writer.write_graphs(unit, table.take(ids))
        writer.write_hierarchy(
            unit, "h", take(hierarchy, ids), failures=[f for f in failures if low <= f.graph < high]
        )
    writer.publish()
    return path


def take(hierarchy, ids):
    """Return some consecutive graphs of a hierarchy."""

    low, high = int(ids[0]) if len(ids) else 0, int(ids[-1]) + 1 if len(ids) else 0
    node_ptr = hierarchy.node_ptr[low : high + 1] - hierarchy.node_ptr[low]
    return Hierarchy(node_ptr, tuple(_slice(level, low, high) for level in hierarchy.levels))


def _slice(level, low, high):
    block, given = level.block, level.assignment
    nodes, supers = (slice(int(ptr[low]), int(ptr[high])) for ptr in (level.node_ptr, level.super_ptr))
    edges = slice(int(block.edge_ptr[low]), int(block.edge_ptr[high]))

    def cut(values, rows, shift=0):
        if values is None:
            return None
        return (
            np.where(values[rows] < 0, -1, values[rows] - shift).astype(np.int32)
            if shift is not None
            else values[rows]
        )

    assignment = dataclasses.replace(
        given,
        super_ptr=given.super_ptr[low : high + 1] - given.super_ptr[low],
        cluster=cut(given.cluster, nodes, supers.start),
        weight=cut(given.weight, nodes, None),
        soft=cut(given.soft, nodes, None),
        theta=cut(given.theta, nodes, None),
        representative=cut(given.representative, supers, nodes.start),
    )
    coarse = dataclasses.replace(
        block,
        indptr=block.indptr[supers.start : supers.stop + 1] - block.indptr[supers.start],
        indices=block.indices[edges] - np.int32(supers.start),
        weight=None if block.weight is None else block.weight[edges],
        node_ptr=assignment.super_ptr,
    )
    fields = {name: field.take(np.arange(low, high)) for name, field in level.fields.items()}
    node_ptr = level.node_ptr[low : high + 1] - level.node_ptr[low]
    return dataclasses.replace(level, node_ptr=node_ptr, assignment=assignment, coarse=coarse, fields=fields)


def assert_same_fields(got, expected):
    assert set(got) == set(expected)
    for name, field in expected.items():
        found = got[name]
        assert (found.form, found.axis, found.shifted) == (field.form, 0, False)
        assert (found.values.dtype, found.values.shape) == (field.values.dtype, field.values.shape), name
        assert found.values.tobytes() == np.ascontiguousarray(field.values).tobytes(), name
        np.testing.assert_array_equal(found.ptr, field.ptr)


@pytest.fixture(scope="module")
def hierarchy():
    table = random_table(9, seed=3, min_nodes=0, max_nodes=9, features=2)
    return table, random_level_fields(random_hierarchy(table.node_ptr, KINDS, seed=4))


@pytest.mark.parametrize("profile", ["fast", "small"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_round_trip(tmp_path, hierarchy, profile, in_memory):
    table, levels = hierarchy
    path = write(tmp_path / "s", levels, table, (0, 4, 4, 9), profile)
    # Random levels have supernodes without nodes, which is reported.
    assert [
        f for f in verify_store(path) if not (f.field or "").endswith(("cluster", "representative"))
    ] == []
    reader = StoreReader(path, in_memory=in_memory)
    for ids in ([3, 8, 0, 3], [], range(9)):
        chosen = np.asarray(ids, np.int64)
        for found, level in zip(reader.gather_levels(ids, "h"), levels.levels, strict=True):
            assert_same_fields(found.fields, {n: f.take(chosen) for n, f in level.fields.items()})
    for graph in range(9):
        for found, level in zip(reader.read_levels(graph, "h"), levels.levels, strict=True):
            assert_same_fields(found.fields, {n: f.take(np.array([graph])) for n, f in level.fields.items()})


def test_only_chosen_fields_are_read(tmp_path, hierarchy):
    table, levels = hierarchy
    reader = StoreReader(write(tmp_path / "s", levels, table, (0, 9), "small"))
    found = reader.gather_levels([1, 2], "h", fields=["pos"])
    assert [list(level.fields) for level in found] == [["pos"]] * 3
    read = {path for _, path in reader._cache._arrays}
    assert {path for path in read if "/fields/" in path} == {f"/levels/{n}/fields/pos" for n in range(3)}
    assert [list(level.fields) for level in reader.read_levels(1, "h", fields=())] == [[]] * 3


def test_bytes_do_not_depend_on_the_kind_of_storage(tmp_path, hierarchy):
    table, levels = hierarchy
    path = write(tmp_path / "s", levels, table, (0, 9))
    schedule = [{"method": level.method, "params": {}} for level in levels.levels]
    spec = HierarchySpec("h", schedule, 0, 1, False, "auto")
    writer = MemoryWriter(StoreSpec({"name": "t"}, data_digest(table), 9, (0, 9), "fast", (spec,)))
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "h", levels)
    writer.publish()
    for name in ("manifest.json", "shard-00000.h.h5"):
        assert writer.files.read(name, 1 << 30) == (path / name).read_bytes()


def test_the_manifest_names_fields_only_if_there_are_any(tmp_path, hierarchy):
    table, levels = hierarchy
    plain = Hierarchy(
        levels.node_ptr, tuple(dataclasses.replace(level, fields={}) for level in levels.levels)
    )
    values = json.loads(
        (write(tmp_path / "p", plain, table, (0, 9), carry=None) / "manifest.json").read_text()
    )
    assert values["minor"] == 1
    assert "carry" not in values["hierarchies"][0]
    assert all("fields" not in level for level in values["hierarchies"][0]["levels"])
    values = json.loads((write(tmp_path / "c", levels, table, (0, 9)) / "manifest.json").read_text())
    assert values["minor"] == 3 and values["hierarchies"][0]["carry"] == "auto"
    names = [[field["name"] for field in level["fields"]] for level in values["hierarchies"][0]["levels"]]
    assert names == [sorted(levels.levels[0].fields)] * 3


def test_a_later_reader_ignores_fields_of_levels(tmp_path, hierarchy):
    """A reader of version 1.2 does not know the key ``fields`` of a level: it ignores the arrays."""
    table, levels = hierarchy
    path = write(tmp_path / "s", levels, table, (0, 9))

    def forget(values):
        for level in values["hierarchies"][0]["levels"]:
            del level["fields"]

    forge_manifest(path, forget)
    assert [level.fields for level in StoreReader(path).gather_levels(range(9), "h")] == [{}] * 3


def test_the_rules_are_part_of_the_identity(tmp_path, hierarchy):
    table, levels = hierarchy
    path = write(tmp_path / "s", levels, table, (0, 9), carry="pos=mean")
    spec = StoreReader(path).manifest.spec
    other = dataclasses.replace(spec, hierarchies=(dataclasses.replace(spec.hierarchies[0], carry="auto"),))
    assert other.part_fingerprint("h") != spec.part_fingerprint("h")
    (difference,) = spec_differences(spec, other)
    assert str(difference) == "hierarchy 'h': carry: pos=mean in the store, auto asked for"
    plain = dataclasses.replace(spec, hierarchies=(dataclasses.replace(spec.hierarchies[0], carry=None),))
    with pytest.raises(StoreMismatchError, match="carry: pos=mean in the store, not set asked for"):
        StoreWriter.open(path, plain)


def test_units_may_lack_fields_if_they_have_no_supernodes(tmp_path):
    """A unit whose graphs all failed has levels without fields."""
    table = random_table(4, seed=1, min_nodes=4, max_nodes=6)
    whole = random_level_fields(halving(table, 2))
    none = take(whole, np.arange(0))
    spec = HierarchySpec("h", [{"method": "halve", "params": {}}] * 2, 0, 1, False, "auto")
    writer = StoreWriter.open(
        tmp_path / "s", StoreSpec({"name": "t"}, data_digest(table), 4, (0, 2, 4), "fast", (spec,))
    )
    for unit in range(2):
        ids = np.arange(2 * unit, 2 * unit + 2)
        writer.write_graphs(unit, table.take(ids))
        found, failures = without_texts(take(whole, ids)), []
        if unit:
            found = _failed(table.take(ids).node_ptr, none)
            failures = [FailureRecord(g, 0, "failed") for g in (2, 3)]
        writer.write_hierarchy(unit, "h", found, failures=failures)
    writer.publish()
    levels = StoreReader(tmp_path / "s").gather_levels([2, 0, 3], "h")
    assert verify_store(tmp_path / "s") == []
    for number, level in enumerate(levels):
        expected = without_texts(whole).levels[number].fields
        for name, field in expected.items():
            np.testing.assert_array_equal(level.fields[name].values, field.take(np.array([0])).values)
            assert level.fields[name].ptr.tolist()[:2] == [0, 0]
    assert StoreReader(tmp_path / "s").read_levels(3, "h")[0].fields["pos"].values.shape == (0, 3)


def without_texts(hierarchy):
    return Hierarchy(
        hierarchy.node_ptr,
        tuple(
            dataclasses.replace(level, fields={n: f for n, f in level.fields.items() if f.form == "rows"})
            for level in hierarchy.levels
        ),
    )


def _failed(node_ptr, empty):
    """Return levels without supernodes and without fields over some graphs."""
    levels = []
    for level in empty.levels:
        zero = np.zeros(len(node_ptr), np.int64)
        assignment = dataclasses.replace(
            level.assignment, super_ptr=zero, cluster=np.full(int(node_ptr[-1]), -1, np.int32)
        )
        coarse = dataclasses.replace(level.block, node_ptr=zero)
        made = dataclasses.replace(level, node_ptr=node_ptr, assignment=assignment, coarse=coarse, fields={})
        levels.append(made)
        node_ptr = zero
    return Hierarchy(levels[0].node_ptr, tuple(levels))


def test_fields_that_fit_nodes_and_edges(tmp_path):
    """A unit in which every graph has as many supernodes as edges does not decide to which of them a field belongs."""
    info = FieldInfo("bond", "float32", (), 0, "rows", False, ("node", "edge"))
    level = LevelInfo("m", "hard", None, None, None, ("cluster",), (info,))
    edges = dataclasses.replace(level, fields=(dataclasses.replace(info, ptrs=("edge",)),))
    nodes = dataclasses.replace(level, fields=(dataclasses.replace(info, ptrs=("node",)),))
    (merged,) = LevelInfo.merge([((level,), (3,)), ((edges,), (3,))])
    assert merged.fields[0].ptrs == ("edge",)
    with pytest.raises(StoreError, match="bond must belong to the supernodes or to the edges"):
        LevelInfo.merge([((nodes,), (3,)), ((edges,), (3,))])
    with pytest.raises(StoreError, match="level 1 differs between units"):
        LevelInfo.merge([((level,), (3,)), ((dataclasses.replace(level, fields=()),), (3,))])
    assert LevelInfo.merge([((level,), (3,)), ((dataclasses.replace(level, fields=()),), (0,))]) == (level,)


@pytest.mark.parametrize(
    "field, message",
    [
        (Field("pos", np.zeros((2, 3)), np.array([0, 1, 2])), "one row for each supernode or for each edge"),
        (Field("so", np.zeros(4), None), "name must be a name that is not used for other parts of a level"),
        (Field("root_index", np.zeros(4), None), "name must be"),
        (Field("my_batch", np.zeros(4), None), "name must be"),
        (Field("pos", np.zeros((3, 4)), None, axis=-1), "one row for each supernode or for each edge"),
        (Field("pos", np.zeros(4, np.int64), None, shifted=True), "shifted must be false"),
        (Field("pos", np.zeros(4), None, form="stacked"), "form must be"),
        (Field("pos", np.array(["a"] * 4), None), "cannot be stored"),
    ],
)
def test_the_writer_refuses_wrong_fields(tmp_path, field, message):
    table = GraphTable(np.array([0, 4, 8]), {"x": Field("x", np.zeros(8), np.array([0, 4, 8]))})
    table.fields["edge_index"] = Field(
        "edge_index", np.array([[0, 1, 0, 1], [1, 0, 1, 0]]), np.array([0, 2, 4]), axis=-1, shifted=True
    )
    levels = halving(table, 1).levels
    ptr = levels[0].super_ptr if field.ptr is None else field.ptr
    level = dataclasses.replace(levels[0], fields={field.name: dataclasses.replace(field, ptr=ptr)})
    with pytest.raises(InputError, match=message):
        write(tmp_path / "s", Hierarchy(table.node_ptr, (level,)), table, (0, 2))


# Forged stores -------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path, hierarchy):
    table, levels = hierarchy
    return write(tmp_path / "s", levels, table, (0, 4, 9))


def gather(reader):
    return reader.gather_levels(range(4), "h")


def set_bytes(path):
    """Correct the number of bytes of the levels in the manifest."""
    import h5py

    with h5py.File(path / "shard-00000.h.h5") as file:
        sizes = []
        for number in range(3):
            sizes.append(0)

            def add(_, item):
                sizes[-1] += item.nbytes if isinstance(item, h5py.Dataset) else 0

            file[f"levels/{number}"].visititems(add)
    forge_manifest(path, lambda v: v["hierarchies"][0]["shards"][0].update(bytes=sizes))


@pytest.mark.parametrize(
    "name, dtype", [("train_mask", "<u2"), ("half", "<f4"), ("short", "<u4"), ("z", "<f8"), ("pos", "<f8")]
)
def test_stored_types_are_exact(store, name, dtype):
    path = f"levels/0/fields/{name}"
    forge_shard(store, lambda file: replace_values(file, path, file[path][:].astype(dtype)), "h")
    set_bytes(store)
    refused(store, f"/{path}", gather)


@pytest.mark.parametrize("name, value", [("train_mask", 255), ("short", None), ("title", 0xFF)])
def test_values_are_values_of_the_original_type(store, name, value):
    path = f"levels/0/fields/{name}"

    def edit(file):
        if value is None:  # 2^15 fits uint16, but not int16
            replace_values(file, path, np.full(len(file[path]), 2**15, "<u2"))
        else:
            file[path][0] = value

    forge_shard(store, edit, "h")
    set_bytes(store)
    refused(store, f"/{path}", gather)
    graphs = [g for g in range(4) if StoreReader(store).sizes("h", 1)[0][g]]
    with pytest.raises(StoreDamagedError, match=path):
        StoreReader(store).read_levels(graphs[0], "h")
    assert any(finding.field == f"/{path}" for finding in verify_store(store))


@pytest.mark.parametrize("rows", [-1, 1])
@pytest.mark.parametrize("name", ["pos", "edge_attr", "no_columns"])
def test_fields_have_one_row_per_element(store, name, rows):
    path = f"levels/0/fields/{name}"

    def edit(file):
        old = file[path]
        replace_values(file, path, np.zeros((len(old) + rows, *old.shape[1:]), old.dtype))

    forge_shard(store, edit, "h")
    set_bytes(store)
    refused(store, f"/{path}", gather)


def test_fields_are_not_missing(store):
    forge_shard(store, lambda file: file.__delitem__("levels/0/fields/pos"), "h")
    set_bytes(store)
    refused(store, "/levels/0/fields/pos is missing", gather)


@pytest.mark.parametrize(
    "key, value", [("ptr", "own"), ("ptr", "edge"), ("form", "stacked"), ("axis", -1), ("shifted", 1)]
)
def test_attributes_of_fields(store, key, value):
    def edit(file):
        attributes = file["levels/0/fields/pos"].attrs
        kind = np.dtype(f"S{len(value)}") if isinstance(value, str) else np.int64
        attributes.create(key, value.encode() if isinstance(value, str) else value, shape=(), dtype=kind)

    forge_shard(store, edit, "h")
    refused(store, f"/levels/0/fields/pos@{key}", gather)


def test_offsets_of_texts(store):
    path = "levels/0/ptr/title"

    def edit(file):
        values = file[path][:]
        values[1] = values[-1] + 1
        file[path][:] = values

    forge_shard(store, edit, "h")
    refused(store, f"/{path}", gather)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "so"}, {"name": ""}, {"name": "x" * 2000}, {"name": "edge_index"}, {"name": "y"}, {"dtype": "object"},
        {"tail": [2**40]}, {"tail": [-1]}, {"tail": [1] * 15}, {"axis": -1}, {"form": "stacked"}, {"form": "str"},
        {"shifted": True}, {"ptrs": []}, {"ptrs": ["graph"]}, {"ptrs": ["own"]}, {"ptrs": ["node", "own"]},
        {"encoding": "json"}, {"ptrs": "node"},
    ],
)  # fmt: skip
def test_the_manifest_is_checked(store, change):
    def edit(values):
        (field,) = [f for f in values["hierarchies"][0]["levels"][0]["fields"] if f["name"] == "pos"]
        field.update(change)

    forge_manifest(store, edit)
    with pytest.raises(StoreDamagedError, match=r"levels\[0\]"):
        StoreReader(store)


@pytest.mark.parametrize("carry", ["", 3, None, "x" * 2000])
def test_the_rules_of_a_manifest_are_checked(store, carry):
    forge_manifest(store, lambda values: values["hierarchies"][0].update(carry=carry))
    with pytest.raises(StoreDamagedError, match="carry"):
        StoreReader(store)
