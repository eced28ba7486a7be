"""Stores in memory: the same bytes as on disk, behind the same reader."""

import io
import pickle

import h5py
import numpy as np
import pytest

from tgp.errors import StoreDamagedError, StoreError, StoreMissingError
from tgp.store import MemoryFiles, MemoryWriter, StoreReader, StoreWriter, verify_store
from tgp.store.format import constants as fmt
from tgp.store.io.sink import MemorySink, Sink
from tgp.testing.stores import random_table, store_spec, write_store


@pytest.fixture
def table():
    return random_table(20)


def written(writer, table):
    write_store(writer, table)
    return writer


@pytest.mark.parametrize("profile", ["fast", "small"])
def test_same_bytes_as_on_disk(tmp_path, table, profile):
    spec = store_spec(table, num_units=3, profile=profile)
    memory, disk = written(MemoryWriter(spec), table), written(StoreWriter.open(tmp_path, spec), table)
    assert memory.pending() == disk.pending() == []
    assert memory.files.contents == {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    assert verify_store(memory.files) == []


def test_reader_reads_the_same_arrays(tmp_path, table):
    spec = store_spec(table, num_units=3)
    memory = written(MemoryWriter(spec), table)
    written(StoreWriter.open(tmp_path, spec), table)
    readers = pickle.loads(pickle.dumps(StoreReader(memory.files))), StoreReader(tmp_path)
    ids = [3, 17, 3, 0]
    first, second = (reader.gather_graphs(ids) for reader in readers)
    for name, field in second.fields.items():
        np.testing.assert_array_equal(first.fields[name].values, field.values)
    name = spec.hierarchies[0].name
    for a, b in zip(*(reader.gather_levels(ids, name) for reader in readers), strict=True):
        np.testing.assert_array_equal(a.assignment.cluster, b.assignment.cluster)
        np.testing.assert_array_equal(a.block.indices, b.block.indices)


def test_an_incomplete_store_is_not_published(table):
    writer = MemoryWriter(store_spec(table, num_units=2))
    writer.write_graphs(0, table.take(np.arange(*writer.spec.bounds[:2])))
    assert len(writer.pending()) == 2 * len(writer.parts) - 1
    with pytest.raises(StoreError, match="not written yet"):
        writer.publish()
    with pytest.raises(StoreMissingError, match="no complete store"):
        StoreReader(writer.files)


def test_changed_bytes_are_found(table):
    writer = written(MemoryWriter(store_spec(table)), table)
    name = fmt.part_file(0, fmt.GRAPHS)
    content = writer.files.contents[name]
    writer.files.contents[name] = content[:-1] + bytes([content[-1] ^ 1])
    with pytest.raises(StoreDamagedError, match="was modified"):
        StoreReader(writer.files).gather_graphs([0])


def test_files_in_memory():
    files = MemoryFiles({"a": b"abc"})
    assert (files.size("a"), files.read("a", 3), files.path_of("a")) == (3, b"abc", None)
    assert files.map("a").tobytes() == files.open("a").read() == b"abc"
    assert not files.map("a").flags.writeable
    with pytest.raises(StoreDamagedError, match="at most 2 bytes, got 3"):
        files.read("a", 2)
    with pytest.raises(StoreMissingError, match="no b in memory"):
        files.size("b")


def test_memory_sink_behaves_like_a_file(tmp_path):
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        sinks = Sink(file.fileno()), MemorySink()
        for sink in sinks:
            sink.seek(7)
            sink.write(b"abc")
            sink.seek(2)
            sink.write_all(b"de")
            sink.truncate(20)
            sink.truncate(15)
            sink.seek(0, io.SEEK_END)
            sink.write(b"z")
            sink.truncate(30)
            sink.seek(6)
        buffers = bytearray(12), bytearray(12)
        assert [sink.readinto(b) for sink, b in zip(sinks, buffers, strict=True)] == [12, 12]
        assert buffers[0] == buffers[1]
        assert (tmp_path / "file").read_bytes() == bytes(sinks[1].content)


def test_hdf5_writes_to_memory():
    sink = MemorySink()
    with h5py.File(sink, "w") as file:
        file["a"] = np.arange(1000)
    with h5py.File(io.BytesIO(bytes(sink.content)), "r") as file:
        assert file["a"][-1] == 999
