"""Verification by recomputing, and by checksums of the same damage."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.inspect.conftest import DATASET
from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.engine import coarsen
from tgp.errors import InputError
from tgp.inspect import verify_by_recompute
from tgp.sources import open_source
from tgp.store import verify_store


def test_wrong_clusters_with_correct_checksums_are_found(store, tmp_path):
    """A store that was written with wrong clusters has correct checksums."""
    from tgp.store import StoreWriter, read_spec

    copy = Path(shutil.copytree(store, tmp_path / "s"))
    assert verify_by_recompute(copy, sample=7) == []
    writer = StoreWriter(copy, read_spec(copy))
    table = open_source(DATASET).table
    low, high = writer.spec.bounds[1:3]
    block = table.take(range(low, high)).to_block()
    writer.write_hierarchy(1, "graclus-x2", coarsen(block, "graclus*2", seed=99))
    writer.publish()
    assert verify_store(copy) == []
    findings = verify_by_recompute(copy, sample=None)
    assert findings and {f.shard for f in findings} == {"shard-00001.graclus-x2.h5"}
    assert all(low <= f.graph < high for f in findings)
    assert {f.field.split("/")[2] for f in findings} <= {"0", "1"}
    with pytest.raises(InputError):
        verify_by_recompute(copy, sample=0)


@pytest.fixture
def altered(tmp_path):
    """Return a function that changes one cluster of a store.

    The files are large: opening a store checks only the ends of a file, so that the change is found later.
    """
    store = tmp_path / "s"
    config = CoarsenConfig("er:num_graphs=40:num_nodes=250:degree=3", out=store, poolers=("nopool",))
    coarsen_dataset(config)
    shard = store / "shard-00000.nopool.h5"
    with h5py.File(shard, "r") as file:
        cluster = file["levels/0/cluster"]
        offset, values = cluster.id.get_offset(), cluster[:]
    assert values.dtype == np.uint8 and (values[:250] == np.arange(250)).all()

    def change(position, value):
        content = bytearray(shard.read_bytes())
        assert 8192 < offset + position < len(content) - 8192
        content[offset + position] = value
        shard.write_bytes(content)
        return store

    return change


def test_verify_names_shard_field_and_graph(altered):
    store = altered(20 * 250 + 7, 255)
    digest, outside = verify_store(store)
    assert (digest.shard, digest.field, digest.graph) == ("shard-00000.nopool.h5", None, None)
    assert (outside.shard, outside.field, outside.graph) == (digest.shard, "/levels/0/cluster", 20)
    assert verify_store(store, semantics=False) == [digest]


def test_a_finding_names_file_array_and_graph(altered):
    """Two exchanged clusters are valid, so only recomputing finds them."""
    altered(20 * 250 + 7, 8)
    store = altered(20 * 250 + 8, 7)
    found = [(f.shard, f.field, f.graph) for f in verify_by_recompute(store, sample=None)]
    assert found == [("shard-00000.nopool.h5", "/levels/0/cluster", 20)]
