"""Incomplete and altered files are found and named, and a reader never returns wrong data."""

import shutil

import numpy as np
import pytest

from tgp.errors import StoreDamagedError, StoreError, StoreVersionError
from tgp.store import StoreReader, verify_store
from tgp.testing.stores import build_store, forge_manifest


def test_an_incomplete_shard_is_refused_by_name(store):
    shard = store / "shard-00001.halve.h5"
    data = shard.read_bytes()
    shard.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreDamagedError, match=r"shard-00001\.halve\.h5 is incomplete") as caught:
        StoreReader(store)
    assert caught.value.item == "shard-00001.halve.h5"
    assert [f.shard for f in verify_store(store)] == ["shard-00001.halve.h5"]


def test_a_missing_shard_is_named(store):
    (store / "shard-00000.graphs.h5").unlink()
    with pytest.raises(StoreError, match=r"shard-00000\.graphs\.h5 does not exist"):
        StoreReader(store)
    assert [f.shard for f in verify_store(store)] == ["shard-00000.graphs.h5"]


def test_a_shard_that_is_truncated_after_opening_is_refused(store):
    reader = StoreReader(store)
    shard = store / "shard-00000.halve.h5"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(StoreDamagedError, match=r"shard-00000\.halve\.h5"):
        reader.gather_level([0], "halve", 0)
    reader.gather_level([39], "halve", 0)


def test_zeros_at_the_end_of_a_shard_are_refused(store):
    """A power cut can leave a file of the right size that ends with zeros."""
    shard = store / "shard-00000.graphs.h5"
    data = shard.read_bytes()
    shard.write_bytes(data[:-64] + bytes(64))
    with pytest.raises(StoreDamagedError, match="first or last bytes"):
        StoreReader(store).gather_graphs([0])


@pytest.mark.parametrize("part", ["graphs", "halve"])
def test_a_shard_truncated_at_any_length_is_refused(store, part):
    shard = store / f"shard-00000.{part}.h5"
    data = shard.read_bytes()
    for length in range(0, len(data), 4096):
        shard.write_bytes(data[:length])
        with pytest.raises(StoreDamagedError, match="is incomplete"):
            StoreReader(store)
        assert verify_store(store)


@pytest.mark.parametrize("length_kept", [True, False])
def test_every_flipped_bit_is_found(store, length_kept):
    """Flip fifty random bits of all files, one at a time (200 over all cases)."""
    rng = np.random.default_rng(7)
    names = sorted(str(p.relative_to(store)) for p in store.glob("**/*") if p.is_file() and p.stat().st_size)
    sizes = np.array([(store / name).stat().st_size for name in names])
    for position in rng.integers(0, sizes.sum(), 50):
        which = int(np.searchsorted(np.cumsum(sizes), position, side="right"))
        file = store / names[which]
        data = bytearray(file.read_bytes())
        at = int(position - (np.cumsum(sizes)[which] - sizes[which]))
        data[at] ^= 1 << int(rng.integers(8))
        original = file.read_bytes()
        file.write_bytes(data if length_kept else data + b"\0")
        try:
            findings = verify_store(store)
        except StoreVersionError:
            findings = [names[which]]  # the bit was in the version number
        file.write_bytes(original)
        assert findings, f"bit flip at {at} of {names[which]} not found"
    assert verify_store(store) == []


def test_a_full_check_refuses_every_flipped_bit(tmp_path, store):
    rng = np.random.default_rng(3)
    expected = StoreReader(store).gather_graphs([1, 5]).fields["x"].values
    for part in ("graphs", "halve"):
        shard = store / f"shard-00000.{part}.h5"
        original = shard.read_bytes()
        for position in rng.integers(0, len(original), 25):
            data = bytearray(original)
            data[position] ^= 1 << int(rng.integers(8))
            shard.write_bytes(data)
            reader = StoreReader(store, check="full")
            with pytest.raises(StoreDamagedError, match=f"{part}.h5"):
                reader.gather_graphs([1, 5])
                reader.gather_levels([1, 5], "halve")
        shard.write_bytes(original)
    np.testing.assert_array_equal(
        StoreReader(store, check="full").gather_graphs([1, 5]).fields["x"].values, expected
    )


def test_flipped_bits_in_compressed_arrays_are_refused(tmp_path, table):
    """The small profile has checksums in HDF5, which are checked without ``check="full"``."""
    path = tmp_path / "s"
    build_store(path, table, profile="small")
    shard = path / "shard-00000.graphs.h5"
    original = shard.read_bytes()
    expected = StoreReader(path).gather_graphs(np.arange(20))
    rng = np.random.default_rng(5)
    refused = 0
    for position in rng.integers(4096, len(original) - 4096, 60):
        data = bytearray(original)
        data[position] ^= 1 << int(rng.integers(8))
        shard.write_bytes(data)
        try:
            got = StoreReader(path).gather_graphs(np.arange(20))
        except StoreError:
            refused += 1
            continue
        for name, field in expected.fields.items():
            np.testing.assert_array_equal(got.fields[name].values, field.values)
    assert refused > 20


def test_swapped_shards_are_refused(store):
    """The files are valid and the manifest was edited to match them, but each is in the place of the other."""
    first, second = store / "shard-00000.graphs.h5", store / "shard-00001.graphs.h5"
    shutil.move(first, store / "keep")
    shutil.move(second, first)
    shutil.move(store / "keep", second)

    def swap(values):
        one, two = values["shards"]
        for key in ("size", "sha256", "ends", "nodes", "edges", "bytes"):
            one[key], two[key] = two[key], one[key]

    forge_manifest(store, swap)
    with pytest.raises(StoreDamagedError, match="@unit must be 0, got 1"):
        StoreReader(store).gather_graphs([0])
    assert len(verify_store(store)) >= 2
