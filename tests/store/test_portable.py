"""Maps outlive their file handle, are read-only, and go with their last view."""

import gc
import os

import numpy as np
import pytest

from tgp.errors import StoreDamagedError
from tgp.store import StoreReader
from tgp.store.io.portable import map_file


def mapped(path):
    with open("/proc/self/maps") as maps:
        return sum(str(path) in line for line in maps)


def test_map_lives_as_long_as_a_view(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 64)
    before = len(os.listdir("/proc/self/fd"))
    with open(path, "rb") as file:
        whole = map_file(file)
    assert len(os.listdir("/proc/self/fd")) == before
    view = whole[256:512].view("<u4")
    del whole
    gc.collect()
    assert mapped(path) == 1
    np.testing.assert_array_equal(view.view(np.uint8), np.arange(256, dtype=np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    del view
    gc.collect()
    assert mapped(path) == 0


def test_an_empty_file_is_an_empty_array(tmp_path):
    (tmp_path / "none").write_bytes(b"")
    with open(tmp_path / "none", "rb") as file:
        assert map_file(file).shape == (0,)


def test_a_file_replaced_by_itself_is_still_read(store, table):
    """A second writer of the same store does that; other bytes in its place are refused."""
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
