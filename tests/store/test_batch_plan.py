"""Batch plans: refused ids, damaged files, and memory."""

import os

import numpy as np
import pytest

from tgp.errors import InputError, StoreDamagedError
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader
from tgp.store.io.portable import RANDOM, SOON
from tgp.store.read.parts import OpenPart
from tgp.testing.stores import build_store, forge_shard


@pytest.fixture
def plan(fast_store):
    return StoreReader(fast_store).batch_plan("halve", (0, 1, 2))


def test_ids_of_any_integer_type_are_shifted_and_checked(tmp_path, table):
    fields = {
        f"{dtype}_index": Field(f"{dtype}_index", np.ones(40, dtype), np.arange(41), shifted=True)
        for dtype in ("uint8", "int32", "uint64")
    }
    build_store(tmp_path, GraphTable(table.node_ptr, dict(table.fields) | fields))
    plan = StoreReader(tmp_path).batch_plan(None, ())
    found = plan.gather([3, 30, 3])
    for name, field in fields.items():
        assert found.fields[name].values.dtype == field.values.dtype
        assert found.fields[name].values.tolist() == (found.node_ptr[:-1] + 1).tolist()

    def edit(file):
        file["fields/uint8_index"][-1] = 99

    forge_shard(tmp_path, edit)
    plan = StoreReader(tmp_path).batch_plan(None, ())
    plan.gather([18])
    with pytest.raises(StoreDamagedError, match="uint8_index holds an id outside its graph"):
        plan.gather([19])


def test_compressed_shards_use_the_plan_within_the_limit_of_the_cache(tmp_path, table):
    build_store(tmp_path / "fast", table, 4)
    build_store(tmp_path / "small", table, 4, profile="small")
    ids = [39, 0, 20, 20, 11]
    reader = StoreReader(tmp_path / "small", cache_bytes=2000)
    plan = reader.batch_plan("halve", (0, 1, 2))
    for _ in range(2):
        found = plan.gather(ids)
        expected = StoreReader(tmp_path / "fast").batch_plan("halve", (0, 1, 2)).gather(ids)
        for left, right in zip(found.levels, expected.levels, strict=True):
            for name, array in right.arrays().items():
                np.testing.assert_array_equal(left.arrays()[name], array)
        assert reader._cache.used <= 2000
        assert not any(array.nbytes > 200 for arrays in plan._arrays.values() for array in arrays)


def test_arrays_in_memory_outlive_the_files(fast_store):
    reader = StoreReader(fast_store).load()
    plan = reader.batch_plan("halve", (0, 2))
    plan.open_all()
    for file in fast_store.iterdir():
        if file.is_file():
            file.unlink()
    assert plan.gather([0, 39]).levels[1].num_graphs == 2


def test_plans_are_cached(fast_store):
    reader = StoreReader(fast_store)
    assert reader.batch_plan("halve", [0]) is reader.batch_plan("halve", (0,))
    assert reader.batch_plan("halve", [0]) is not reader.batch_plan("halve", (0,), ["x"])


@pytest.mark.parametrize("ids", [[40], [-1], [0.5], [[1]]])
def test_invalid_graph_ids_are_refused(plan, ids):
    with pytest.raises(InputError, match="graph ids"):
        plan.gather(ids)


def test_an_empty_batch(plan):
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


@pytest.mark.parametrize(
    ("path", "part"),
    [("levels/0/edge_index", "halve"), ("levels/0/cluster", "halve"), ("fields/edge_index", "graphs")],
)
def test_an_id_outside_its_graph_is_refused_with_its_path(fast_store, path, part):
    def edit(file):
        file[path][..., -1] = 200

    forge_shard(fast_store, edit, part)
    plan = StoreReader(fast_store).batch_plan("halve", (0, 1, 2))
    plan.gather([0, 18])
    with pytest.raises(StoreDamagedError, match=rf"shard-00000\.{part}\.h5: /{path} holds an id outside"):
        plan.gather([0, 19])


def truncate(shard):
    os.truncate(shard, 100)


def replace(shard):
    other = shard.with_suffix(".new")
    other.write_bytes(shard.read_bytes()[:-8] + b"12345678")
    os.replace(other, shard)


def change(shard):
    before = shard.stat().st_mtime_ns
    with open(shard, "r+b") as file:
        file.seek(2000)
        file.write(b"x" * 100)
    os.utime(shard, ns=(before + 1, before + 1))  # the smallest step of a slow clock


@pytest.mark.parametrize("part", ["graphs", "halve"])
@pytest.mark.parametrize("harm", [truncate, replace, change, os.unlink])
def test_a_mapped_file_that_changes_is_refused_by_name(fast_store, part, harm):
    """Reading bytes that a mapped file no longer has would kill the process."""
    reader = StoreReader(fast_store)
    plan = reader.batch_plan("halve", (0, 1, 2))
    plan.gather(np.arange(40))
    reader.gather_graphs([0]), reader.gather_levels([0], "halve")
    harm(fast_store / f"shard-00000.{part}.h5")
    with pytest.raises(
        StoreDamagedError, match=rf"shard-00000\.{part}\.h5 was removed, replaced or truncated"
    ):
        plan.gather([0])
    with pytest.raises(
        StoreDamagedError, match=rf"shard-00000\.{part}\.h5 was removed, replaced or truncated"
    ):
        reader.gather_graphs([0]), reader.gather_levels([0], "halve")
    plan.gather([39])  # the other shard is unchanged
    reader.gather_levels([39], "halve")


def test_changed_offsets_cause_no_invalid_read(fast_store, monkeypatch):
    """No memory outside an array is read, even if the change of the file is not noticed."""
    monkeypatch.setattr(OpenPart, "check_unchanged", lambda self: None)
    reader = StoreReader(fast_store)
    plan = reader.batch_plan("halve", (0, 1, 2))
    plan.gather([0])
    info = reader._hierarchies["halve", 0].info("/levels/1/edge_ptr")
    with open(fast_store / "shard-00000.halve.h5", "r+b") as file:
        file.seek(info.offset)
        file.write(b"\xff" * info.nbytes)
    with pytest.raises(StoreDamagedError, match=r"shard-00000\.halve\.h5: /levels/1/edge_ptr holds offsets"):
        plan.gather([0])


def test_advice_covers_the_bytes_of_the_graphs_only(plan, monkeypatch):
    """The ranges lie in the arrays of the shards, and together they have the bytes that a gather of the graphs reads."""
    advised = []
    monkeypatch.setattr("tgp.store.read.batch_plan.advise", lambda *given: advised.append(given))
    total = int(plan.bounds[-1])
    plan.read_ahead(3, total - 2)
    arrays = [array for kept in plan._arrays.values() for array in kept]
    arrays += [ptr for kept in plan._ptrs.values() for ptr in kept if ptr is not None]
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    for address, size, advice in advised:
        assert advice == SOON
        assert any(low <= address and address + size <= high for low, high in spans)
    whole = sum(array.nbytes for array in arrays)
    assert 0.5 * whole < sum(size for _, size, _ in advised) < whole
    advised.clear()
    plan.expect_random_order()
    assert sum(size for _, size, _ in advised) == whole
    assert {advice for _, _, advice in advised} == {RANDOM}


def test_advice_does_not_change_batches(plan, fast_store):
    expected = StoreReader(fast_store).batch_plan("halve", (0, 1, 2)).gather([5, 1, 30])
    plan.expect_random_order()
    plan.read_ahead(0, int(plan.bounds[-1]))
    found = plan.gather([5, 1, 30])
    for left, right in zip(found.columns, expected.columns, strict=True):
        np.testing.assert_array_equal(left, right)
