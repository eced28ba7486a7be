"""Properties of stores of both profiles."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tgp.errors import InputError, StoreMissingError, UnknownNameError
from tgp.store import FailureRecord, StoreReader, StoreWriter, verify_store
from tgp.testing.stores import build_store, halving, halving_spec, random_table, store_spec


class StoreTests:
    """Tests that run for each profile, in a subclass."""

    profile: str

    @pytest.fixture
    def path(self, tmp_path, table):
        build_store(tmp_path / "s", table, num_units=3, profile=self.profile)
        return tmp_path / "s"

    @pytest.fixture
    def reader(self, path):
        return StoreReader(path)

    def test_a_new_store_is_valid(self, path):
        assert verify_store(path) == []

    def test_the_reader_describes_the_store(self, reader, table):
        assert reader.num_graphs == 40
        assert reader.num_shards == 3
        assert reader.fields["x"].tail == (7,)
        assert {name: info.ptr for name, info in reader.fields.items()} == {
            "edge_index": "edge",
            "edge_weight": "edge",
            "train_mask": "node",
            "x": "node",
            "y": "graph",
        }
        info = reader.hierarchies["halve"]
        assert info.depth == 3
        assert reader.level_info("halve", 1).kind == "hard"
        assert reader.level_info("halve", 1).weight_dtype == "float32"
        assert len(reader.num_bytes("halve")) == 3
        assert reader.num_bytes("halve")[0] > reader.num_bytes("halve")[2] > 0
        assert reader.num_bytes() > (table.num_nodes * 7 * 4,)
        assert reader.file_bytes() == sum(s.size for s in reader.manifest.shards["graphs"])

    def test_a_batch_is_gathered_from_several_shards(self, reader, table):
        ids = np.array([39, 0, 20, 20, 5, 13])
        expected = halving(table.take(ids))
        for got, level in zip(reader.gather_levels(ids, "halve"), expected.levels, strict=True):
            np.testing.assert_array_equal(got.edge_index, level.block.edge_index())
            np.testing.assert_array_equal(got.edge_weight, level.block.weight)
            np.testing.assert_array_equal(got.assignment.cluster, level.assignment.cluster)
            np.testing.assert_array_equal(got.assignment.representative, level.assignment.representative)
            np.testing.assert_array_equal(got.super_ptr, level.block.node_ptr)
            np.testing.assert_array_equal(got.edge_ptr, level.block.edge_ptr)
            assert got.assignment.weight is None
            assert got.edge_weight.dtype == np.float32
            assert got.assignment.cluster.dtype == got.edge_index.dtype == np.int64

    def test_results_are_writable_copies(self, reader):
        # Consecutive graphs could be views of the mapped file.
        for ids in ([0, 1, 2], [2, 0], [39, 1]):
            for field in reader.gather_graphs(ids).fields.values():
                field.values[...] = 0
            for level in reader.gather_levels(ids, "halve"):
                level.edge_index[...] = 0
                level.assignment.cluster[...] = 0
                level.edge_weight[...] = 0
        assert reader.gather_graphs([0, 1]).fields["x"].values.any()

    def test_only_the_given_fields_levels_and_arrays_are_read(self, reader):
        assert set(reader.gather_graphs([1, 2], ["y"]).fields) == {"y"}
        (level,) = reader.gather_levels([1, 2], "halve", [2], arrays=["cluster"])
        assert level.assignment.cluster is not None
        assert level.edge_weight is None
        assert level.assignment.representative is None

    def test_an_empty_batch(self, reader):
        table = reader.gather_graphs([])
        assert table.num_graphs == 0
        assert table.fields["x"].values.shape == (0, 7)
        assert table.fields["edge_index"].values.shape == (2, 0)
        assert reader.gather_level([], "halve", 0).edge_index.shape == (2, 0)

    @pytest.mark.parametrize("ids", [[40], [-1], [0.5], [[1]], [True, False], "ab"])
    def test_invalid_ids_are_refused(self, reader, ids):
        with pytest.raises(InputError, match="graph ids"):
            reader.gather_graphs(ids)

    def test_errors_suggest_the_most_similar_name(self, reader):
        with pytest.raises(UnknownNameError, match="halve"):
            reader.gather_level([0], "halv", 0)
        with pytest.raises(UnknownNameError, match="edge_weight"):
            reader.gather_graphs([0], ["edge_weigth"])
        with pytest.raises(InputError, match="no level 4: expected a level from 1 to 3"):
            reader.gather_level([0], "halve", 3)
        with pytest.raises(InputError, match="hierarchy"):
            reader.sizes(level=1)

    def test_sizes_of_every_level(self, reader, table):
        hierarchy = halving(table)
        nodes, edges = reader.sizes()
        np.testing.assert_array_equal(nodes, np.diff(table.node_ptr))
        np.testing.assert_array_equal(edges, np.diff(table.fields["edge_index"].ptr))
        for number, level in enumerate(hierarchy.levels):
            nodes, edges = reader.sizes("halve", number + 1)
            np.testing.assert_array_equal(nodes, np.diff(level.block.node_ptr))
            np.testing.assert_array_equal(edges, np.diff(level.block.edge_ptr))

    def test_a_pickled_reader_is_small(self, reader, table):
        reader.gather_graphs(np.arange(40))
        data = pickle.dumps(reader)
        assert len(data) < 20_000
        copy = pickle.loads(data)
        np.testing.assert_array_equal(
            copy.gather_graphs([3]).fields["x"].values, table.take([3]).fields["x"].values
        )

    @pytest.mark.linux
    def test_a_reader_works_after_a_fork(self, reader, table):
        expected = reader.gather_graphs([1, 30]).fields["x"].values  # opened before the fork
        child = os.fork()
        if child == 0:
            same = np.array_equal(reader.gather_graphs([1, 30]).fields["x"].values, expected)
            levels = reader.gather_levels([39, 2], "halve")  # opened after the fork
            expected_level = halving(table.take([39, 2])).levels[0]
            right = np.array_equal(levels[0].assignment.cluster, expected_level.assignment.cluster)
            os._exit(0 if same and right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        np.testing.assert_array_equal(reader.gather_graphs([1, 30]).fields["x"].values, expected)

    @pytest.mark.linux
    def test_no_file_descriptor_stays_open(self, reader, path):
        reader.gather_levels(np.arange(40), "halve")
        held = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_link(n)]
        assert not [name for name in held if name.startswith(str(path))]

    def test_metrics_and_failures_are_read_back(self, tmp_path, table):
        spec = store_spec(table, 2, self.profile)
        writer = StoreWriter.open(tmp_path / "m", spec)
        rng = np.random.default_rng(0)
        quality = rng.random((40, 2))
        for unit, (low, high) in enumerate([(0, 20), (20, 40)]):
            part = table.take(np.arange(low, high))
            writer.write_graphs(unit, part)
            writer.write_hierarchy(
                unit,
                "halve",
                halving(part),
                metrics={"1/quality": quality[low:high], "2/seconds": np.float64(unit)},
                failures=[FailureRecord(low + 3, 1, "no é"), FailureRecord(low + 1, 0, "x" * 5000)],
            )
        writer.publish()
        reader = StoreReader(tmp_path / "m")
        np.testing.assert_array_equal(reader.metrics("halve", 1)["quality"], quality)
        np.testing.assert_array_equal(reader.metrics("halve", 2)["seconds"], [0.0, 1.0])
        assert reader.metrics("halve", 0) == {}
        found = reader.failures("halve")
        assert [(f.graph, f.level) for f in found] == [(1, 0), (3, 1), (21, 0), (23, 1)]
        assert found[1].reason == "no é"
        assert len(found[0].reason) == 2000
        assert reader.hierarchies["halve"].failures == 4
        assert verify_store(tmp_path / "m") == []

    def test_imports_neither_torch_nor_numba(self, path):
        code = (
            "import sys; from tgp.store import StoreReader, verify_store;"
            f"r = StoreReader({str(path)!r}); r.read_graph(0); r.read_levels(0, 'halve'); r.cluster_sizes('halve', 0, [0, 39]);"
            f"assert verify_store({str(path)!r}) == [];"
            "assert not {'torch', 'numba', 'torch_geometric'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def _is_link(number):
    return os.path.islink(f"/proc/self/fd/{number}")


class TestFast(StoreTests):
    profile = "fast"

    def test_arrays_are_aligned_and_mapped(self, reader):
        reader.gather_levels([0], "halve")
        part = reader._hierarchies["halve", 0]
        for path, info in part.arrays.items():
            assert info.offset is not None
            assert info.offset % 64 == 0, path
        view = part.array("/levels/0/edge_index")
        assert not view.flags.owndata
        assert not view.flags.writeable


class TestSmall(StoreTests):
    profile = "small"

    def test_the_small_profile_is_smaller(self, tmp_path):
        table = random_table(2000, features=1)
        for profile in ("fast", "small"):
            build_store(tmp_path / profile, table, profile=profile)
        fast, small = (StoreReader(tmp_path / profile) for profile in ("fast", "small"))
        assert small.file_bytes("halve") < 0.7 * fast.file_bytes("halve")

    def test_decoded_arrays_stay_within_the_cache(self, path):
        reader = StoreReader(path, cache_bytes=4000)
        for ids in ([0, 39], [20, 1], [5]):
            reader.gather_levels(ids, "halve")
        assert reader._cache.used <= 4000


def test_a_missing_or_incomplete_store_is_refused(tmp_path, table):
    with pytest.raises(StoreMissingError, match="no complete store"):
        StoreReader(tmp_path)
    with pytest.raises(StoreMissingError):
        StoreReader(tmp_path / "absent")
    writer = StoreWriter.open(tmp_path / "half", store_spec(table))
    writer.write_graphs(0, table.take(np.arange(20)))
    with pytest.raises(StoreMissingError, match="no complete store"):
        StoreReader(tmp_path / "half")


def test_a_store_without_hierarchies(tmp_path, table):
    writer = StoreWriter.open(tmp_path, store_spec(table, hierarchies=()))
    for unit in range(2):
        writer.write_graphs(unit, table.take(np.arange(20 * unit, 20 * unit + 20)))
    writer.publish()
    assert StoreReader(tmp_path).hierarchies == {}


def test_a_wrong_number_of_levels_is_refused(tmp_path, table):
    writer = StoreWriter.open(tmp_path, store_spec(table, 1, hierarchies=[halving_spec(num_levels=2)]))
    with pytest.raises(InputError, match="expected 2 levels, got 3"):
        writer.write_hierarchy(0, "halve", halving(table, 3))
