"""The schema check of a shard: types, counts and limits that no reader may rely on otherwise."""

import json

import h5py
import numpy as np
import pytest

from tests.reference.refusals import bounded, refused
from tgp.errors import StoreDamagedError
from tgp.kernels.gather import copy_rows, find_rows
from tgp.ragged import Field, GraphTable
from tgp.store import (
    FailureRecord,
    HierarchySpec,
    StoreReader,
    StoreSpec,
    StoreWriter,
    data_digest,
    verify_store,
)
from tgp.store.format import constants as fmt
from tgp.store.format.schema import FieldInfo, LevelInfo
from tgp.store.format.strict_json import Document
from tgp.testing.stores import (
    build_store,
    forge_manifest,
    forge_shard,
    halving_spec,
    random_hierarchy,
    random_table,
    write_store,
)

GRAPHS = 12


def table_of(**fields):
    """Return graphs of 3 nodes with the given fields: arrays of one row per node."""
    node_ptr = np.arange(0, 3 * GRAPHS + 1, 3)
    return GraphTable(node_ptr, {name: Field(name, values, node_ptr) for name, values in fields.items()})


def write(path, table, profile="fast"):
    """Write a store of two units without hierarchies."""
    spec = StoreSpec({"name": "t"}, data_digest(table), GRAPHS, (0, GRAPHS // 2, GRAPHS), profile)
    writer = StoreWriter.open(path, spec)
    for unit in range(2):
        writer.write_graphs(unit, table.take(np.arange(unit * GRAPHS // 2, (unit + 1) * GRAPHS // 2)))
    writer.publish()
    return path


def replace_values(file, path, values):
    """Replace an array and keep its attributes."""
    attributes = {key: file[path].attrs[key] for key in file[path].attrs}
    types = {key: file[path].attrs.get_id(key).dtype for key in attributes}
    del file[path]
    file.create_dataset(path, data=values)
    for key, value in attributes.items():
        file[path].attrs.create(key, value, shape=(), dtype=types[key])


def set_bytes(path, unit=0):
    """Correct the number of bytes of the graphs in the manifest."""
    with h5py.File(path / f"shard-{unit:05d}.graphs.h5") as file:
        sizes = []
        file.visititems(lambda _, item: sizes.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    forge_manifest(path, lambda values: values["shards"][unit].update(bytes=[sum(sizes)]))


# Types (S1) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, stored",
    [
        ("complex128", "<f2"), ("complex128", "<f4"), ("complex64", "<f8"), ("bool", "<u8"), ("bool", "<u2"),
        ("bool", "|i1"), ("float32", "<f2"), ("float16", "<f8"), ("int16", "<u4"), ("uint8", "|i1"), ("uint16", "<i2"),
    ],
)  # fmt: skip
def test_stored_types_are_exact(tmp_path, dtype, stored):
    path = write(tmp_path / "s", table_of(z=np.zeros((3 * GRAPHS, 4), dtype)))

    def edit(file):
        replace_values(file, "fields/z", file["fields/z"][:].astype(stored))

    forge_shard(path, edit)
    set_bytes(path)
    refused(path, "/fields/z")


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_flags_are_zero_or_one(tmp_path, profile):
    path = write(tmp_path / "s", table_of(m=np.ones(3 * GRAPHS, bool)), profile)

    def edit(file):
        file["fields/m"][4] = 255

    forge_shard(path, edit)
    refused(path, "/fields/m holds a value that is not valid", lambda r: r.gather_graphs([0, 1]))
    refused(path, "/fields/m", lambda r: r.read_graph(1))
    assert StoreReader(path).gather_graphs([0]).fields["m"].values.all()


def test_numbers_beyond_the_original_type(tmp_path):
    path = write(tmp_path / "s", table_of(a=np.ones(3 * GRAPHS, np.int8)))

    def edit(file):
        file["fields/a"][4] = 200

    forge_shard(path, edit)
    refused(path, "/fields/a holds a number above 127")
    refused(path, "/fields/a", lambda r: r.read_graph(1))


@pytest.mark.parametrize("in_memory", [False, True])
def test_complex_numbers_in_memory(tmp_path, in_memory):
    values = np.arange(3 * GRAPHS) + 1j
    path = write(tmp_path / "s", table_of(z=values))
    found = StoreReader(path, in_memory=in_memory).gather_graphs([5, 0]).fields["z"].values
    assert found.tolist() == [*values[15:18], *values[:3]]


def test_text_is_valid_utf8(tmp_path):
    node_ptr = np.arange(0, 3 * GRAPHS + 1, 3)
    text = np.frombuffer("ä".encode() * GRAPHS, np.uint8)
    table = GraphTable(node_ptr, {"name": Field("name", text, np.arange(0, 2 * GRAPHS + 1, 2), form="str")})
    path = write(tmp_path / "s", table)

    def edit(file):
        file["fields/name"][3] = 0xFF

    forge_shard(path, edit)
    refused(path, "/fields/name holds a value that is not valid", lambda r: r.gather_graphs([0, 1]))
    refused(path, "/fields/name", lambda r: r.read_graph(1))


# Counts (S2, S3) -----------------------------------------------------------------------------------


def test_the_sum_of_counts_does_not_overflow():
    offsets = np.array([0, 2**62 - 1], np.uint64)
    units = np.arange(4)
    tables = np.stack([np.full((4, 1), value) for value in (offsets.ctypes.data, 3, 2**62 - 1)])
    starts, ptrs = np.empty((1, 4), np.int64), np.empty((1, 5), np.int64)
    columns, positions = np.zeros((0, 8), np.int64), np.empty(1, np.int64)
    assert find_rows(units, np.arange(5), units, tables, columns, starts, ptrs, positions) == 0


def test_a_small_buffer_is_not_written_to():
    values = np.arange(8)
    ptrs, starts = np.array([[0, 8]]), np.zeros((1, 1), np.int64)
    columns = np.array([[0, 0, -1, 1, 1, 8, 0, 1]])
    tables = np.array([[[values.ctypes.data]], [[0]], [[8]]])
    buffer = np.full(63, 7, np.uint8)
    unit, at, dropped = (np.zeros(1, np.int64) for _ in range(3))
    assert copy_rows(unit, starts, ptrs, columns, tables, buffer, buffer.ctypes.data, at, dropped) == -2
    assert (buffer == 7).all()


@pytest.mark.parametrize("count", [21, 2**34, 2**52])
def test_supernodes_that_no_byte_supports(tmp_path, count):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3))

    def edit(file):
        ptr = file["levels/2/super_ptr"][:].astype(np.uint64)
        ptr[-1] = ptr[-2] + np.uint64(count)
        replace_values(file, "levels/2/super_ptr", ptr)
        del file["levels/2/representative"]

    forge_shard(path, edit, "halve")

    def totals(values):
        hierarchy = values["hierarchies"][0]
        hierarchy["levels"][2]["arrays"].remove("representative")
        with h5py.File(path / "shard-00000.halve.h5") as file:
            hierarchy["shards"][0]["nodes"][2] = int(file["levels/2/super_ptr"][-1])
            hierarchy["shards"][0]["bytes"][2] = sum(a.nbytes for a in file["levels/2"].values())

    forge_manifest(path, totals)
    refused(path, "/levels/2/super_ptr", lambda r: r.gather_levels([0], "halve"))


def test_nodes_that_no_byte_supports(tmp_path):
    node_ptr = np.arange(0, 3 * GRAPHS + 1, 3)
    table = GraphTable(node_ptr, {"y": Field("y", np.arange(GRAPHS), np.arange(GRAPHS + 1))})
    path = write(tmp_path / "s", table)

    def edit(file):
        ptr = file["node_ptr"][:].astype(np.uint64)
        ptr[-1] = 2**34
        replace_values(file, "node_ptr", ptr)

    forge_shard(path, edit)
    set_bytes(path)
    forge_manifest(path, lambda values: values["shards"][0].update(nodes=[2**34]))
    refused(path, "/node_ptr declares too many rows")


@pytest.mark.parametrize("key", ["nodes", "edges", "bytes", "size", "failures"])
def test_sums_of_totals_are_limited(tmp_path, key):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3))

    def edit(values):
        for shard in values["hierarchies"][0]["shards"]:
            shard[key] = 2**53 if key in ("size", "failures") else [2**52, 2**52, 2**52]

    forge_manifest(path, edit)
    with bounded(), pytest.raises(StoreDamagedError, match="sum of"):
        StoreReader(path)


def test_the_number_of_graphs_is_limited_by_the_files(tmp_path):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3))

    def edit(values):
        values["num_graphs"] = values["bounds"][-1] = 2**40
        spec = StoreSpec.from_json(
            Document(values, "m"),
            tuple(HierarchySpec.from_json(Document(h, "h")) for h in values["hierarchies"]),
        )
        values["fingerprint"] = spec.fingerprint

    forge_manifest(path, edit)
    with bounded(), pytest.raises(StoreDamagedError, match=r"file of \d+ graphs"):
        StoreReader(path)


# Bombs (S5) ----------------------------------------------------------------------------------------


def test_many_attributes(tmp_path):
    path = write(tmp_path / "s", table_of(a=np.ones(3 * GRAPHS)))

    def edit(file):
        for number in range(fmt.MAX_ATTRIBUTES + 1):
            file["fields/a"].attrs.create(f"n{number}", 1, dtype="<i8")

    forge_shard(path, edit)
    refused(path, "too many attributes")


def test_many_json_values(tmp_path):
    path = write(tmp_path / "s", table_of(a=np.ones(3 * GRAPHS)))
    (path / "manifest.json").write_bytes(b'{"a":[' + b"[]," * fmt.MAX_JSON_VALUES + b"[]]}")
    with bounded(), pytest.raises(StoreDamagedError, match="values"):
        StoreReader(path)


# Entries of the manifest (S7) ----------------------------------------------------------------------

FIELD = FieldInfo("x", "float32", (4,), 0, "rows", False, ("node", "own"))
EDGES = FieldInfo("edge_index", "int64", (2,), -1, "rows", True, ("edge", "own"))
LEVEL = LevelInfo("graclus", "hard", None, None, "float32", ("edge_weight", "cluster"))


@pytest.mark.parametrize(
    "entry, changes, key",
    [
        (FIELD, {"name": ""}, "name"),
        (FIELD, {"name": "pooled_data"}, "name"),
        (FIELD, {"name": "ä" * 600}, "name"),
        (FIELD, {"tail": [2**40]}, "tail"),
        (FIELD, {"tail": [0, 2**40]}, "tail"),
        (FIELD, {"tail": [1] * 20}, "tail"),
        (FIELD, {"form": "str"}, "dtype"),
        (FIELD, {"form": "str", "dtype": "uint8"}, "tail"),
        (FIELD, {"form": "json", "dtype": "uint8", "tail": []}, "form"),
        (FIELD, {"encoding": "json"}, "form"),
        (FIELD, {"form": "str", "encoding": "json"}, "dtype"),
        (FIELD, {"form": "str", "encoding": "json", "dtype": "uint8"}, "tail"),
        (FIELD, {"form": "str", "encoding": "xml", "dtype": "uint8", "tail": []}, "encoding"),
        (FIELD, {"form": "str", "encoding": None, "dtype": "uint8", "tail": []}, "encoding"),
        (FIELD, {"form": "int", "tail": []}, "dtype"),
        (FIELD, {"form": "int", "tail": [], "dtype": "int64"}, "ptrs"),
        (FIELD, {"form": "stacked"}, "ptrs"),
        (FIELD, {"form": "stacked", "axis": -1, "ptrs": ["graph", "own"]}, "axis"),
        (FIELD, {"shifted": True}, "dtype"),
        (FIELD, {"ptrs": []}, "ptrs"),
        (FIELD, {"ptrs": ["own", "own"]}, "ptrs"),
        (FIELD, {"name": "num_nodes"}, "form"),
        (FIELD, {"name": "batch", "dtype": "complex64"}, "dtype"),
        (EDGES, {"tail": [3]}, "tail"),
        (EDGES, {"dtype": "complex64"}, "dtype"),
        (EDGES, {"shifted": False}, "shifted"),
        (EDGES, {"axis": 0}, "axis"),
        (EDGES, {"ptrs": ["node", "own"]}, "ptrs"),
        (LEVEL, {"width": 2**61}, "width"),
        (LEVEL, {"width": 3}, "width"),
        (LEVEL, {"kind": "onehot"}, "width"),
        (LEVEL, {"kind": "onehot", "width": 2**40}, "width"),
        (LEVEL, {"kind": "soft", "width": 3}, "arrays"),
        (LEVEL, {"modes": 2}, "modes"),
        (LEVEL, {"modes": 2**61, "arrays": ["edge_weight", "cluster", "theta"]}, "modes"),
        (LEVEL, {"weight_dtype": "int64"}, "weight_dtype"),
        (LEVEL, {"weight_dtype": None}, "weight_dtype"),
        (LEVEL, {"arrays": ["edge_weight", "cluster", "soft"]}, "arrays"),
        (LEVEL, {"method": "m" * 2000}, "method"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit_together(entry, changes, key):
    assert type(entry).from_json(Document(entry.to_json(), "m")) == entry
    with pytest.raises(StoreDamagedError) as caught:
        type(entry).from_json(Document(entry.to_json() | changes, "m"))
    assert caught.value.item == key


@pytest.mark.parametrize(
    "text", ['"1e400"', "1e400", "-1e999", '"\\ud800"', '["\\udc00x"]', "NaN"], ids=range(6)
)
def test_json_values_that_cannot_be_written_again(tmp_path, text):
    path = write(tmp_path / "s", table_of(a=np.ones(3 * GRAPHS)))
    if text == '"1e400"':
        forge_manifest(path, lambda values: values["dataset"].update(name="1e400"))
        assert verify_store(path) == []
        return
    data = (path / "manifest.json").read_text().replace('"name": "t"', f'"name": {text}')
    (path / "manifest.json").write_text(data)
    with pytest.raises(StoreDamagedError, match="not valid JSON"):
        StoreReader(path)


@pytest.mark.parametrize("name", ["x/nodes", "9/nodes", "0/", "nodes", "00/nodes", "-1/nodes"])
def test_names_of_metrics(tmp_path, name):
    path = tmp_path / "s"
    build_store(path, random_table(10, seed=3), num_units=1)
    forge_manifest(path, lambda values: values["hierarchies"][0].update(metrics=[name]))
    with pytest.raises(StoreDamagedError, match="metrics"):
        StoreReader(path)


@pytest.mark.parametrize(
    "attribute, values", [("S1000000000", None), ("complex64", None), ("int64", np.ones((20, 2, 2), np.uint8)), ("int64", np.ones(7, np.uint8))]
)  # fmt: skip
def test_metrics_of_another_type_or_shape(tmp_path, attribute, values):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3))

    def edit(file):
        if values is not None:
            replace_values(file, "metrics/0/nodes", values)
        file["metrics/0/nodes"].attrs.create("dtype", attribute.encode(), dtype=f"S{len(attribute)}")

    forge_shard(path, edit, "halve")
    refused(path, "/metrics/0/nodes", lambda r: r.metrics("halve", 0))


# Content that only `verify` can judge (S8) ---------------------------------------------------------


def test_a_unit_without_its_level_weights(tmp_path):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3, weighted=True))

    def edit(file):
        del file["levels/2/edge_weight"]

    forge_shard(path, edit, "halve")

    def totals(values):
        with h5py.File(path / "shard-00000.halve.h5") as file:
            size = sum(a.nbytes for a in file["levels/2"].values())
        values["hierarchies"][0]["shards"][0]["bytes"][2] = size

    forge_manifest(path, totals)
    assert any("is not the contraction" in finding.message for finding in verify_store(path))


def test_failures_of_other_graphs(tmp_path):
    table = random_table(6, seed=1)
    spec = StoreSpec({}, data_digest(table), 6, (0, 6), hierarchies=(halving_spec("h", 1),))
    writer = StoreWriter.open(tmp_path / "s", spec)
    writer.write_graphs(0, table)
    levels = random_hierarchy(table.node_ptr, ["hard"])
    writer.write_hierarchy(0, "h", levels, failures=[FailureRecord(2, 0, "no")])
    writer.publish()

    def edit(file):
        file["failures/graph"][0] = 200

    forge_shard(tmp_path / "s", edit, "h")
    with pytest.raises(StoreDamagedError, match="/failures/graph"):
        StoreReader(tmp_path / "s").failures("h")


# Minor version -------------------------------------------------------------------------------------


def test_engine_revision_and_metrics_are_part_of_the_fingerprint(tmp_path):
    base = {"name": "h", "schedule": [{"method": "halve", "params": {}}], "seed": 0}
    spec = [
        StoreSpec({}, "0" * 64, 1, (0, 1), hierarchies=(HierarchySpec(**base, **more),))
        for more in ({}, {"engine": 1}, {"engine": 2}, {"metrics": True}, {"metrics": False})
    ]
    assert len({s.fingerprint for s in spec}) == 5
    for one in spec:
        entry = one.hierarchies[0]
        assert HierarchySpec.from_json(Document(json.loads(json.dumps(entry.to_json())), "h")) == entry


def test_a_manifest_names_the_minor_version_only_if_it_needs_it(tmp_path):
    table = random_table(6, seed=1)
    for name, more in (("old", {}), ("new", {"engine": 1, "metrics": True})):
        entry = HierarchySpec(name="halve", schedule=halving_spec("halve").schedule, **more)
        spec = StoreSpec({}, data_digest(table), 6, (0, 6), hierarchies=(entry,))
        write_store(StoreWriter.open(tmp_path / name, spec), table)
        assert verify_store(tmp_path / name) == []
        values = json.loads((tmp_path / name / "manifest.json").read_bytes())
        assert values.get("minor") == (1 if more else None)
        assert StoreReader(tmp_path / name).manifest.spec.hierarchies[0] == entry
    shards = [(tmp_path / name / "shard-00000.halve.h5").read_bytes() for name in ("old", "new")]
    assert shards[0] == shards[1]


def test_a_later_minor_version_is_readable(tmp_path):
    path = tmp_path / "s"
    build_store(path, random_table(20, seed=1))

    def edit(values):
        values.update(minor=fmt.MINOR + 1, unknown={"key": 1}, fingerprint="1" * 64)
        values["hierarchies"][0]["levels"][0]["unknown"] = [1]

    forge_manifest(path, edit)
    assert verify_store(path) == []
    assert len(StoreReader(path).gather_levels([0], "halve")) == 3
    forge_manifest(path, lambda values: values.update(minor=fmt.MINOR))
    with pytest.raises(StoreDamagedError, match="fingerprint"):
        StoreReader(path)


def test_clusters_stored_as_unsigned_numbers(tmp_path):
    path = tmp_path / "s"
    build_store(path, random_table(40, seed=3))
    before = StoreReader(path).cluster_sizes("halve", 0, np.arange(40)).tolist()
    forge_shard(
        path,
        lambda file: replace_values(file, "levels/0/cluster", file["levels/0/cluster"][:].astype("<u8")),
        "halve",
    )

    def totals(values):
        with h5py.File(path / "shard-00000.halve.h5") as file:
            size = sum(a.nbytes for a in file["levels/0"].values())
        values["hierarchies"][0]["shards"][0]["bytes"][0] = size

    forge_manifest(path, totals)
    assert verify_store(path)[0].shard.startswith("records")  # the manifest was changed without its records
    assert StoreReader(path).cluster_sizes("halve", 0, np.arange(40)).tolist() == before
