"""Malicious shards: each is refused with its name, quickly, and without much memory."""

import zlib

import h5py
import numpy as np
import pytest

from tests.reference.refusals import refused
from tgp.errors import StoreDamagedError, StoreError, StoreMissingError
from tgp.store import StoreReader, verify_store
from tgp.testing.stores import build_store, forge_shard, readmit_shard

GRAPHS = "shard-00000.graphs.h5"


# Links and storage -----------------------------------------------------------------------------------


def replace(file, path, make):
    """Replace an array by another object with the same attributes."""
    attributes = dict(file[path].attrs)
    del file[path]
    make()
    if file.get(path, getlink=True).__class__ is h5py.HardLink:
        for key, value in attributes.items():
            if isinstance(value, (bytes, np.bytes_, str)):
                data = value if isinstance(value, bytes) else str(value).encode()
                file[path].attrs.create(key, data, shape=(), dtype=h5py.string_dtype("utf-8", len(data)))
            else:
                file[path].attrs.create(key, value, shape=(), dtype="<i8")


def test_soft_link(fast_store):
    def edit(file):
        file["fields/z"] = h5py.SoftLink("/fields/x")

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/z is a soft or external link")


def test_external_link(fast_store):
    def edit(file):
        file["fields/z"] = h5py.ExternalLink("/etc/passwd", "/x")

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/z is a soft or external link")


def test_damaged_index_of_creation_order(fast_store):
    def edit(file):
        group = file.create_group("many", track_order=True)
        for number in range(9):  # groups with fewer members have no index
            group[f"array{number}"] = np.zeros(4)

    forge_shard(fast_store, edit)
    path = fast_store / GRAPHS
    data = bytearray(path.read_bytes())
    index = data.index(b"BTHD\0\6")
    data[index + 20] ^= 1
    path.write_bytes(data)
    with h5py.File(path) as file:
        assert file["many/array0"][0] == 0  # the names have an index of their own
    readmit_shard(fast_store)
    refused(fast_store, "is not a valid HDF5 file")


def test_external_storage(fast_store, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"the password" * 1000)

    def edit(file):
        shape = file["fields/x"].shape
        replace(
            file,
            "fields/x",
            lambda: file.create_dataset("fields/x", shape, "<f4", external=[(str(secret), 0, 12000)]),
        )

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x keeps its data in another file")


def test_virtual_dataset(fast_store, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.ones(20)

    def edit(file):
        layout = h5py.VirtualLayout((20,), "<i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (20,))
        replace(file, "fields/y", lambda: file.create_virtual_dataset("fields/y", layout))

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/y is a virtual or compact dataset")


def test_unknown_filter(fast_store):
    def edit(file):
        values = file["fields/x"][:]
        replace(file, "fields/x", lambda: file.create_dataset("fields/x", data=values, compression="lzf"))

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x uses filters [32000]")


def test_compact_dataset(fast_store):
    def edit(file):
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((20,))
        replace(
            file,
            "fields/y",
            lambda: h5py.h5d.create(file.id, b"fields/y", h5py.h5t.NATIVE_UINT8, space, properties),
        )

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/y is a virtual or compact dataset")


# Types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        h5py.string_dtype(),
        h5py.vlen_dtype(np.int32),
        h5py.ref_dtype,
        np.dtype([("a", "<i4"), ("b", "<f4")]),
        np.dtype("V8"),
        np.dtype("S5"),
        h5py.enum_dtype({"A": 0}),
        np.dtype(">i4"),
        np.dtype(("<i4", (2,))),
        np.longdouble,
    ],
    ids=str,
)
def test_unsupported_types(fast_store, dtype):
    def edit(file):
        replace(file, "fields/y", lambda: file.create_dataset("fields/y", (20,), dtype))

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/y")


def test_a_committed_type_instead_of_an_array(fast_store):
    def edit(file):
        file["fields/z"] = np.dtype("<f8")

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/z is neither an array nor a group")


def test_attribute_of_variable_length(fast_store):
    def edit(file):
        file["fields/x"].attrs["form"] = "rows"  # stored as a string of variable length

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x@form must be one integer or one string of fixed length")


def test_huge_attribute(fast_store):
    def edit(file):
        file["fields/x"].attrs.create("z", b"z" * 60_000, dtype="S60000")

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x@z")


# Sizes -----------------------------------------------------------------------------------------------


def test_a_declared_size_of_petabytes(fast_store):
    def edit(file):
        replace(file, "fields/x", lambda: file.create_dataset("fields/x", (1 << 47, 7), "<f4"))

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x declares")


def test_a_declared_size_of_petabytes_without_chunks(fast_store):
    def edit(file):
        replace(
            file,
            "fields/x",
            lambda: file.create_dataset(
                "fields/x", (1 << 47, 7), "<f4", chunks=(1024, 7), compression="gzip"
            ),
        )

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x declares")


def test_a_declared_size_that_its_chunks_cannot_hold(fast_store):
    """Deflate compresses at most 1032 to 1."""

    def edit(file):
        dataset = file.create_dataset("fields/z", (1 << 40,), "u1", chunks=(1 << 20,), compression="gzip")
        dataset[: 1 << 20] = 0

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/z declares")


def test_a_chunk_larger_than_its_array(fast_store):
    """Twenty numbers in a chunk that is decompressed to 256 MB."""
    packer = zlib.compressobj()
    packed = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(256)), packer.flush()])

    def edit(file):
        options = {"maxshape": (None,), "chunks": (1 << 28,), "compression": "gzip"}
        replace(file, "fields/y", lambda: file.create_dataset("fields/y", (20,), "u1", **options))
        file["fields/y"].id.write_direct_chunk((0,), packed)

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/y declares")


def test_too_many_objects(fast_store, monkeypatch):
    monkeypatch.setattr("tgp.store.format.constants.MAX_OBJECTS", 200)

    def edit(file):
        for number in range(300):
            file.create_group(f"g{number}")

    forge_shard(fast_store, edit)
    refused(fast_store, "one object too many")


def test_a_group_that_contains_itself(fast_store):
    def edit(file):
        file["fields/loop"] = file["fields"]

    forge_shard(fast_store, edit)
    refused(fast_store, "nests deeper")


# Offsets and ids -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part, path", [("graphs", "node_ptr"), ("graphs", "edge_ptr"), ("halve", "levels/1/edge_ptr")]
)
@pytest.mark.parametrize(
    "change",
    [
        lambda ptr: ptr[::-1],
        lambda ptr: ptr + 1,
        lambda ptr: np.r_[ptr[:-1], ptr[-1] - 1],
        lambda ptr: np.r_[ptr[0], ptr[2], ptr[1], ptr[3:]],
    ],
    ids=["reversed", "not from zero", "not to the end", "decreasing"],
)
def test_invalid_offsets(fast_store, part, path, change):
    def edit(file):
        ptr = file[path][:]
        file[path][:] = change(ptr.astype(np.int64)).astype(ptr.dtype)

    forge_shard(fast_store, edit, part)
    refused(fast_store, f"/{path} must start at 0", lambda r: r.gather_levels([0], "halve"))


def test_too_few_offsets(fast_store):
    def edit(file):
        values = file["node_ptr"][:-1]
        replace(file, "node_ptr", lambda: file.create_dataset("node_ptr", data=values))

    forge_shard(fast_store, edit)
    refused(fast_store, "/node_ptr must hold 21 offsets")


@pytest.mark.parametrize("array", ["edge_index", "cluster", "representative"])
def test_ids_of_other_graphs(fast_store, array):
    def edit(file):
        file[f"levels/0/{array}"][..., -1] = 200

    forge_shard(fast_store, edit, "halve")
    for read in (lambda r: r.gather_levels([0, 19], "halve"), lambda r: r.read_levels(19, "halve")):
        refused(fast_store, f"/levels/0/{array} holds an id outside its graph", read)


def test_invalid_ids_of_the_input_graphs(fast_store):
    def edit(file):
        file["fields/edge_index"][1, 0] = 255

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/edge_index holds")


def test_invalid_ids_are_found_when_their_graph_is_gathered(fast_store):
    def edit(file):
        file["levels/0/cluster"][-1] = 100

    forge_shard(fast_store, edit, "halve")
    reader = StoreReader(fast_store)
    reader.gather_levels([0, 1, 2], "halve")
    with pytest.raises(StoreDamagedError, match="cluster holds an id outside its graph"):
        reader.gather_levels([3, 19], "halve")


def test_a_hierarchy_over_graphs_of_other_sizes(fast_store):
    def edit(file):
        ptr = file["node_ptr"]
        ptr[1] = ptr[1] + 1

    forge_shard(fast_store, edit, "halve")
    refused(fast_store, "/node_ptr must equal the offsets", lambda r: r.gather_levels([0], "halve"))


def test_a_missing_array(fast_store):
    def edit(file):
        del file["levels/2/cluster"]

    forge_shard(fast_store, edit, "halve")
    refused(fast_store, "/levels/2/cluster is missing", lambda r: r.gather_levels([0], "halve"))


def test_an_array_of_the_wrong_shape(fast_store):
    def edit(file):
        replace(file, "fields/x", lambda: file.create_dataset("fields/x", data=np.ones((3, 7), "<f4")))

    forge_shard(fast_store, edit)
    refused(fast_store, "/fields/x must have shape")


@pytest.mark.parametrize(
    "key, value", [("axis", 5), ("shifted", 1), ("form", b"str "), ("ptr", b"over"), ("dtype", b"object_")]
)
def test_attributes_that_contradict_the_manifest(fast_store, key, value):
    def edit(file):
        attributes = file["fields/x"].attrs
        if isinstance(value, int):
            attributes.create(key, value, shape=(), dtype="<i8")
        else:
            attributes.create(key, value, shape=(), dtype=h5py.string_dtype("utf-8", len(value)))

    forge_shard(fast_store, edit)
    refused(fast_store, f"/fields/x@{key} must")


def test_a_shard_of_random_bytes(fast_store):
    (fast_store / GRAPHS).write_bytes(np.random.default_rng(0).bytes(50_000))
    readmit_shard(fast_store)
    refused(fast_store, "is not a valid HDF5 file")


def test_random_damage_with_a_matching_digest(fast_store):
    """Reading may succeed or raise a ``StoreError``, and nothing else."""
    rng = np.random.default_rng(11)
    file = fast_store / GRAPHS
    original = file.read_bytes()
    for _ in range(40):
        data = bytearray(original)
        for position in rng.integers(0, len(data), 8):
            data[position] = int(rng.integers(256))
        file.write_bytes(data)
        readmit_shard(fast_store)
        try:
            StoreReader(fast_store).gather_graphs([0, 7])
        except StoreError:
            continue


def test_a_shard_of_another_version(fast_store):
    def edit(file):
        file.attrs.create("version", 2, shape=(), dtype="<i8")

    forge_shard(fast_store, edit)
    refused(fast_store, "@version must be 1, got 2")


def test_verify_needs_a_store(tmp_path):
    with pytest.raises(StoreMissingError):
        verify_store(tmp_path)


def test_a_declared_size_that_its_chunks_cannot_hold_in_the_small_profile(tmp_path, table):
    path = tmp_path / "s"
    build_store(path, table, profile="small")

    def edit(file):
        shape = file["fields/x"].shape
        replace(
            file,
            "fields/x",
            lambda: file.create_dataset(
                "fields/x", (1 << 32, shape[1]), "<f4", chunks=(1 << 14, 7), compression="gzip"
            ),
        )

    forge_shard(path, edit)
    refused(path, "/fields/x declares")
