"""Memory maps stay valid after the file is closed, are read-only, and are released with their last view."""

import gc
import os

import numpy as np
import pytest

from tgp.errors import StoreDamagedError
from tgp.store import StoreReader
from tgp.store.io.portable import map_file

pytestmark = pytest.mark.linux


def count_maps(path):
    """Return the number of memory maps of a file in this process."""
    with open("/proc/self/maps") as maps:
        return sum(str(path) in line for line in maps)


def test_a_map_is_released_with_its_last_view(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 64)
    before = len(os.listdir("/proc/self/fd"))
    with open(path, "rb") as file:
        whole = map_file(file)
    assert len(os.listdir("/proc/self/fd")) == before
    view = whole[256:512].view("<u4")
    del whole
    gc.collect()
    assert count_maps(path) == 1
    np.testing.assert_array_equal(view.view(np.uint8), np.arange(256, dtype=np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    del view
    gc.collect()
    assert count_maps(path) == 0


def test_an_empty_file_is_mapped_to_an_empty_array(tmp_path):
    (tmp_path / "none").write_bytes(b"")
    with open(tmp_path / "none", "rb") as file:
        assert map_file(file).shape == (0,)


def test_a_shard_that_was_replaced_by_the_same_bytes_is_read(store, table):
    """A second writer of the same store replaces shards by the same bytes. Other bytes must be refused."""
    reader = StoreReader(store)
    before = reader.gather_graphs([0]).fields["edge_index"].values
    for file in sorted(store.glob("*.h5")):
        copy = file.with_name("copy")
        copy.write_bytes(file.read_bytes())
        os.replace(copy, file)
    assert np.array_equal(reader.gather_graphs([0]).fields["edge_index"].values, before)
    for file in sorted(store.glob("*.h5")):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        copy.write_bytes(content)
        os.replace(copy, file)
    with pytest.raises(StoreDamagedError, match="replaced"):
        reader.gather_graphs([0])
