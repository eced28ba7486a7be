"""Compressed arrays: every chunk is decoded with a limit and must have its exact size."""

import zlib

import h5py
import numpy as np
import pytest

from tests.reference.refusals import refused
from tests.store.test_contents import GRAPHS, table_of, write
from tgp.errors import InputError
from tgp.store import StoreReader
from tgp.store.format import constants as fmt
from tgp.store.io.chunks import _fletcher32, decode_array
from tgp.testing.stores import forge_shard


def replace_chunk(path, data):
    """Replace the only chunk of the field ``a`` by other stored bytes, or remove it."""

    def edit(file):
        old = file["fields/a"]
        attributes = dict(old.attrs)
        types = {key: old.attrs.get_id(key).dtype for key in attributes}
        options = {"shuffle": True, "compression": 4, "fletcher32": True}
        shape, values = old.shape, old[:]
        del file["fields/a"]
        found = file.create_dataset("fields/a", shape, "<f8", chunks=shape, **options)
        found[:] = values
        if data is not None:
            found.id.write_direct_chunk((0,), data(found.id.read_direct_chunk((0,))[1]))
        for key, value in attributes.items():
            found.attrs.create(key, value, shape=(), dtype=types[key])

    forge_shard(path, edit)


SIZE = 8 * 3 * GRAPHS // 2


def sealed(data):
    """Append the checksum of the fletcher32 filter."""
    return data + _fletcher32(data)


@pytest.mark.parametrize(
    "data, why",
    [
        (lambda _: b"x" * 4096, "has the wrong size"),
        (lambda _: sealed(zlib.compress(bytes(SIZE - 8))), f"must decode to {SIZE} bytes, got {SIZE - 8}"),
        (lambda _: sealed(zlib.compress(bytes(SIZE + 8))), f"must decode to {SIZE} bytes"),
        (lambda old: sealed(old[:-12]), "must decode to"),
        (lambda old: sealed(old[:-8]), "must decode to"),  # all data, but no end of the stream
        (lambda old: old[:-1] + bytes([old[-1] ^ 1]), "wrong checksum"),
        (lambda _: b"abc", "wrong checksum"),
        (lambda old: old[:20] + bytes([old[20] ^ 1]) + old[21:], "cannot be decoded"),
    ],
    ids=["large", "short", "long", "truncated", "without-end", "checksum", "empty", "flipped"],
)
def test_chunks_that_do_not_decode_to_their_size(tmp_path, data, why):
    """libhdf5 returns uninitialized memory for a chunk that decodes to fewer bytes."""
    path = write(tmp_path / "s", table_of(a=np.arange(3.0 * GRAPHS)), "small")
    replace_chunk(path, None)
    assert StoreReader(path).gather_graphs([0]).fields["a"].values.tolist() == [0, 1, 2]
    replace_chunk(path, data)
    refused(path, why)


def test_a_chunk_that_was_never_written(tmp_path):
    path = write(tmp_path / "s", table_of(a=np.random.default_rng(0).random(3 * GRAPHS)), "small")

    def edit(file):
        old = file["fields/a"]
        attributes = dict(old.attrs)
        types = {key: old.attrs.get_id(key).dtype for key in attributes}
        del file["fields/a"]
        found = file.create_dataset("fields/a", (18,), "<f8", chunks=(9,), compression=4)
        found[:9] = np.random.default_rng(0).random(9)
        for key, value in attributes.items():
            found.attrs.create(key, value, shape=(), dtype=types[key])

    forge_shard(path, edit)
    refused(path, "the chunk at [9] is missing")


@pytest.mark.parametrize("dtype", ["|u1", "<i2", "<f4", "<f8"])
@pytest.mark.parametrize(
    "shape, chunks", [((700,), (300,)), ((7, 5), (3, 2)), ((2, 999), (2, 100)), ((3,), (3,))]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"compression": 4}, {"fletcher32": True}, {"shuffle": True, "compression": 1, "fletcher32": True}],
    ids=str,
)
def test_decoded_arrays_equal_those_of_libhdf5(tmp_path, dtype, shape, chunks, options):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, scale in (("zero", 0), ("some", 1)):
            values = (np.random.default_rng(1).integers(0, 200, shape) * scale).astype(dtype)
            found = file.create_dataset(name, data=values, chunks=chunks, **options)
            assert np.array_equal(decode_array(found), values)
        if options == {"fletcher32": True}:
            data = bytearray(found.id.read_direct_chunk((0,) * len(shape))[1])
            data[0] ^= 1
            found.id.write_direct_chunk((0,) * len(shape), bytes(data))
            with pytest.raises(ValueError, match="wrong checksum"):
                decode_array(found)


def test_the_writer_refuses_arrays_that_readers_refuse(tmp_path, monkeypatch):
    monkeypatch.setattr(fmt, "MAX_DECODED_BYTES", 4000)
    with pytest.raises(InputError, match="too large for the small profile"):
        write(tmp_path / "s", table_of(a=np.zeros((3 * GRAPHS, 100))), "small")
    half = np.zeros((3 * GRAPHS, 25))  # each array is within the limit
    with pytest.raises(InputError, match="too large for the small profile"):
        write(tmp_path / "u", table_of(a=half, b=half), "small")
    assert list(tmp_path.rglob("*.h5")) == []
    assert write(tmp_path / "t", table_of(a=np.zeros((3 * GRAPHS, 100))), "fast")
