"""Batches by plan: what is refused, and what is left to the general way."""

import os

import numpy as np
import pytest

from tgp.errors import InputError, StoreDamagedError
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.store.read.parts import OpenPart
from tgp.testing.stores import build_store, forge_shard


@pytest.fixture
def plan(fast_store):
    return StoreReader(fast_store).batch_plan("halve", (0, 1, 2))


def test_only_where_arrays_can_be_addressed(tmp_path, table):
    build_store(tmp_path / "small", table, profile="small")
    assert StoreReader(tmp_path / "small").batch_plan("halve", (0,)) is None
    ids = Field("short_index", np.zeros(40, np.int32), np.arange(41), shifted=True)
    build_store(tmp_path / "short", GraphTable(table.node_ptr, dict(table.fields) | {"short_index": ids}))
    reader = StoreReader(tmp_path / "short")
    assert reader.batch_plan("halve", (0,)) is None
    assert reader.batch_plan("halve", (0,), ["x"]) is not None


@pytest.mark.parametrize("ids", [[40], [-1], [0.5], [[1]]])
def test_graphs_that_are_not_there(plan, ids):
    with pytest.raises(InputError, match="graph ids"):
        plan.gather(ids)


def test_no_graphs(plan):
    found = plan.gather([])
    assert found.node_ptr.tolist() == [0]
    assert found.levels[2].edge_index.shape == (2, 0)


def test_only_needed_shards_are_opened(fast_store):
    reader = StoreReader(fast_store)
    plan = reader.batch_plan("halve", (0,))
    plan.gather([0, 1])
    assert list(reader._graphs) == [0]
    plan.gather([39, 0])
    assert sorted(reader._graphs) == [0, 1]


def test_labels_do_not_keep_a_batch_alive(plan):
    found = plan.gather([3, 4])
    assert found.fields["y"].values.base is None
    assert found.fields["x"].values.base is not None


def test_bytes_go_where_they_are_asked_to(plan):
    room = np.zeros(1 << 20, np.uint8)
    found = plan.gather([3, 4], lambda size: room[:size])
    assert np.shares_memory(found.fields["x"].values, room)
    assert np.shares_memory(found.levels[1].edge_index, room)


@pytest.mark.parametrize(
    ("path", "part"),
    [("levels/0/edge_index", "halve"), ("levels/0/cluster", "halve"), ("fields/edge_index", "graphs")],
)
def test_ids_of_other_graphs_are_refused_by_name(fast_store, path, part):
    def edit(file):
        file[path][..., -1] = 200

    forge_shard(fast_store, edit, part)
    plan = StoreReader(fast_store).batch_plan("halve", (0, 1, 2))
    plan.gather([0, 18])
    with pytest.raises(StoreDamagedError, match=rf"shard-00000\.{part}\.h5: /{path} holds an id outside"):
        plan.gather([0, 19])


def cut(shard):
    os.truncate(shard, 100)


def replace(shard):
    other = shard.with_suffix(".new")
    other.write_bytes(shard.read_bytes()[:-8] + b"somebody")
    os.replace(other, shard)


def change(shard):
    before = shard.stat().st_mtime_ns
    with open(shard, "r+b") as file:
        file.seek(2000)
        file.write(b"x" * 100)
    os.utime(shard, ns=(before + 1, before + 1))  # a clock that ticks slowly


@pytest.mark.parametrize("part", ["graphs", "halve"])
@pytest.mark.parametrize("harm", [cut, replace, change, os.unlink])
def test_a_mapped_file_that_changes_is_named(fast_store, part, harm):
    """Reading bytes that a mapped file has lost would kill the process."""
    reader = StoreReader(fast_store)
    plan = reader.batch_plan("halve", (0, 1, 2))
    plan.gather(np.arange(40))
    reader.gather_graphs([0]), reader.gather_levels([0], "halve")
    harm(fast_store / f"shard-00000.{part}.h5")
    with pytest.raises(StoreDamagedError, match=rf"shard-00000\.{part}\.h5 was removed, replaced or cut"):
        plan.gather([0])
    with pytest.raises(StoreDamagedError, match=rf"shard-00000\.{part}\.h5 was removed, replaced or cut"):
        reader.gather_graphs([0]), reader.gather_levels([0], "halve")
    plan.gather([39])  # the other shard is sound
    reader.gather_levels([39], "halve")


def test_offsets_changed_behind_our_back_lead_nowhere(fast_store, monkeypatch):
    """Even if the change is not seen, nothing outside an array is read."""
    monkeypatch.setattr(OpenPart, "check_unchanged", lambda self: None)
    reader = StoreReader(fast_store)
    plan = reader.batch_plan("halve", (0, 1, 2))
    plan.gather([0])
    info = reader._hierarchies["halve", 0].info("/levels/1/edge_ptr")
    with open(fast_store / "shard-00000.halve.h5", "r+b") as file:
        file.seek(info.offset)
        file.write(b"\xff" * info.nbytes)
    with pytest.raises(StoreDamagedError, match=r"shard-00000\.halve\.h5: /edges 1 holds offsets"):
        plan.gather([0])
