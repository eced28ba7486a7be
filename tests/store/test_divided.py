"""Graphs and levels that are divided over several files by row range: the same data, bytes, resumption, findings of ``verify``."""

import json
import os
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.store.divided_stores import halved, open_writer, random_kinds, sorted_table, write_one
from tests.store.mutation_stores import Forge
from tgp.errors import InputError, StoreDamagedError, StoreError, StoreMismatchError
from tgp.ragged import Field, GraphTable
from tgp.store import StoreReader, StoreSpec, StoreWriter, large_contraction, verify_store
from tgp.store.contraction_check import first_wrong_contraction, unit_edges
from tgp.store.read.piece_array import PieceArray, iter_blocks
from tgp.store.write.divided import find_ranges
from tgp.store.write.part_writer import PartWriter


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """Synchronizing every file with the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def monkeypatch_module():
    """Hypothesis refuses fixtures of a single test."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


LEVELS = {"halved": halved, "random": random_kinds}


def edges_for(cuts, table):
    """Return the setting with which the input graph has about this number of pieces."""
    return max(-(-table.fields["edge_index"].values.shape[1] // cuts), 1)


def assert_same_arrays(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype, name
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def arrays_of(reader):
    """Return everything that a reader returns, by two ways, and the figures of the store."""
    found = {}
    tables = {"gather": reader.gather_graphs([0]), "read": reader.read_graph(0)}
    levels = {"gather": reader.gather_levels([0], "h"), "read": reader.read_levels(0, "h")}
    for way, table in tables.items():
        found |= {f"{way}/{name}": field.values for name, field in table.fields.items()}
    for way, some in levels.items():
        for number, level in enumerate(some):
            assigned = vars(level.assignment) | {
                "edge_index": level.edges.edge_index,
                "w": level.edges.edge_weight,
            }
            assigned |= {name: field.values for name, field in level.fields.items()}
            found |= {
                f"{way}/{number}/{name}": value
                for name, value in assigned.items()
                if isinstance(value, np.ndarray)
            }
    for number, info in enumerate(reader.hierarchies["h"].levels):
        if info.kind == "hard":
            found[f"{number}/sizes"] = reader.cluster_sizes("h", number, [0])
    return found | {"cut": reader.metrics("h", 0)["cut"]}


@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("cuts", [1, 2, 7])
def test_a_divided_store_has_the_same_data(tmp_path, cuts, kind):
    table = sorted_table(weighted=kind == "halved")
    spec, hierarchy = LEVELS[kind](table)
    whole = StoreReader(write_one(tmp_path / "whole", table, spec, hierarchy))
    expected = arrays_of(whole)
    path = write_one(tmp_path / "divided", table, spec, hierarchy, edges_for(cuts, table))
    assert len(list(path.glob("*.graphs.r*.h5"))) == (cuts if cuts > 1 else 0)
    found = verify_store(path)
    assert found == verify_store(tmp_path / "whole") and (kind == "random" or not found)
    reader = StoreReader(path)
    assert_same_arrays(arrays_of(reader), expected)
    assert_same_arrays(arrays_of(reader.load()), expected)
    assert reader.num_bytes("h") == whole.num_bytes("h") and reader.num_bytes() == whole.num_bytes()
    files = [file for part in ("graphs", "h") for file in path.glob(f"*.{part}.*h5")]
    assert sum(map(reader.file_bytes, ("graphs", "h"))) == sum(file.stat().st_size for file in files)
    assert reader.manifest.minor == 5 and whole.manifest.minor < 5


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 99), st.integers(2, 40), st.integers(1, 60), st.sampled_from(sorted(LEVELS)))
def test_any_cut_has_the_same_data(tmp_path_factory, seed, nodes, shard_edges, kind):
    folder, table = tmp_path_factory.mktemp("cuts"), sorted_table(seed, nodes, weighted=True)
    spec, hierarchy = LEVELS[kind](table, seed=seed)
    paths = [write_one(folder / str(n), table, spec, hierarchy, n) for n in (None, shard_edges)]
    findings = [verify_store(path) for path in paths]  # the representatives of random levels are not valid
    assert findings[0] == findings[1] and (kind == "random" or not findings[0])
    found = [arrays_of(StoreReader(path)) for path in paths]
    assert_same_arrays(*found)


def test_what_is_not_divided(tmp_path):
    """Small graphs, several graphs in a unit, and edges that are not sorted stay in one file."""
    table = sorted_table()
    spec, hierarchy = halved(table)
    path = write_one(tmp_path / "small", table, spec, hierarchy, 10**6)
    assert len(list(path.glob("*.h5"))) == 2 and verify_store(path) == []
    index = table.fields["edge_index"]
    backwards = replace(index, values=np.ascontiguousarray(index.values[:, ::-1]))
    table = replace(table, fields={**table.fields, "edge_index": backwards})
    path = write_one(tmp_path / "unsorted", table, *halved(table), 10)
    assert not list(path.glob("*.graphs.r*")) and list(path.glob("*.h.r*"))
    assert verify_store(path) == []
    with pytest.raises(InputError, match="fast profile"):
        StoreSpec({}, "0" * 64, 1, (0, 1), "small", shard_edges=5)


# Ranges and arrays --------------------------------------------------------------------------------------------


def slow_ranges(sources, num_rows, limit):
    cuts = sorted({int(sources[k]) for k in range(limit, len(sources), limit)} - {0})
    rows = [0, *cuts, num_rows]
    return rows, [*(int(np.searchsorted(sources, row)) for row in rows[:-1]), len(sources)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 15), st.integers(1, 9))
def test_ranges_depend_on_the_edges_only(sources, limit, chunk):
    edges = np.sort(np.array(sources, np.int64))
    pieces = [edges[low : low + chunk] for low in range(0, len(edges), chunk)]
    found = find_ranges(15, len(edges), [*pieces[:1], edges[:0], *pieces[1:]], limit)
    rows, bounds = slow_ranges(edges, 15, limit)
    if len(edges) <= limit or len(rows) == 2:
        assert found is None
    else:
        assert (list(found.rows), list(found.edges)) == (rows, bounds)
        assert max(np.diff(bounds)) <= limit + max(np.bincount(edges))


def test_too_many_pieces_are_refused():
    with pytest.raises(InputError, match="expected at least 101"):
        find_ranges(10**6, 10**6, [], 100)


class Piece:
    """Open file with one array."""

    def __init__(self, values):
        self.values, self.checks = values, 0

    def check_unchanged(self):
        self.checks += 1

    def array(self, path):
        return self.values


def pieces_of(values, bounds, axis):
    parts = tuple(Piece(np.take(values, np.arange(a, b), axis)) for a, b in pairwise(bounds))
    tail = values.shape[1:] if axis == 0 else values.shape[:-1]
    return PieceArray(parts, "x", np.array(bounds), values.dtype, tail, axis, 0, bounds[-1])


@settings(deadline=None)
@given(st.data(), st.sampled_from([(0, ()), (0, (3,)), (-1, (2,))]), st.integers(1, 20))
def test_an_array_in_pieces_is_indexed_like_an_array(data, form, count):
    axis, tail = form
    values = data.draw(hnp.arrays(np.uint16, (count, *tail) if axis == 0 else (*tail, count)))
    cuts = data.draw(st.lists(st.integers(0, count), max_size=4))
    array = pieces_of(values, [0, *sorted(cuts), count], axis)
    low, high = sorted(data.draw(st.tuples(st.integers(-25, 25), st.integers(-25, 25))))
    ids = data.draw(hnp.arrays(np.int64, st.integers(0, 9), elements=st.integers(-count, count - 1)))
    flags = data.draw(hnp.arrays(bool, count))
    if axis == 0:
        pairs = [(array, values)]
    else:
        np.testing.assert_array_equal(array[:, low:high], values[:, low:high])
        np.testing.assert_array_equal(array[:, ids], values[:, ids])
        np.testing.assert_array_equal(array[..., flags], values[..., flags])
        pairs = list(zip(array, values, strict=True))
    for got, expected in pairs:
        assert got.shape == expected.shape and got.ndim == expected.ndim and len(got) == len(expected)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(got.astype(np.int64), expected)
        np.testing.assert_array_equal(got[low:high], expected[low:high])
        np.testing.assert_array_equal(got[low:high][1:], expected[low:high][1:])
        np.testing.assert_array_equal(got[ids], expected[ids])
        np.testing.assert_array_equal(got[flags], expected[flags])
        np.testing.assert_array_equal(got[count - 1], expected[count - 1])
        blocks = [block for _, block in iter_blocks(got, 3)]
        assert all(len(block) <= 3 for block in blocks)
        np.testing.assert_array_equal(np.concatenate(blocks), expected)
        with pytest.raises(IndexError, match="out of range"):
            got[np.array([count])]


def test_only_the_files_that_are_needed_are_read():
    array = pieces_of(np.arange(10), [0, 4, 6, 10], 0)
    assert array[np.array([5, 4])].tolist() == [5, 4]
    assert [part.checks for part in array.parts] == [0, 1, 0]
    assert np.asarray(array[7:9]).tolist() == [7, 8]
    assert [part.checks for part in array.parts] == [0, 1, 1]


# Writing ------------------------------------------------------------------------------------------------------


def contents(path):
    return {
        file.name: file.read_bytes() for file in sorted(path.rglob("*")) if file.suffix in (".h5", ".json")
    }


@pytest.mark.parametrize("stop", [1, 3, 6])
def test_an_interrupted_run_continues_with_the_next_piece(tmp_path, monkeypatch, stop):
    table = sorted_table()
    spec, hierarchy = halved(table)
    expected = contents(write_one(tmp_path / "whole", table, spec, hierarchy, 30))
    written, write_piece = [], PartWriter.write_piece

    def write(writer, unit, part, number, *arguments):
        if len(written) == stop:
            raise KeyboardInterrupt
        written.append((part, number))
        return write_piece(writer, unit, part, number, *arguments)

    monkeypatch.setattr(PartWriter, "write_piece", write)
    with pytest.raises(KeyboardInterrupt):
        write_one(tmp_path / "store", table, spec, hierarchy, 30)
    stop = None
    write_one(tmp_path / "store", table, spec, hierarchy, 30)
    assert len(set(written)) == len(written)
    assert contents(tmp_path / "store") == expected


def test_lost_and_torn_pieces_are_written_again(tmp_path):
    table = sorted_table()
    spec, hierarchy = halved(table)
    path = write_one(tmp_path / "store", table, spec, hierarchy, 30)
    expected = contents(path)
    (path / "shard-00000.graphs.r0001.h5").unlink()
    with open(path / "shard-00000.h.r0000.h5", "r+b") as file:
        file.truncate(100)
    writer = open_writer(path, table, spec, 30)
    assert not writer.is_complete and {task.part for task in writer.pending()} == {"graphs", "h"}
    write_one(path, table, spec, hierarchy, 30)
    assert contents(path) == expected
    write_one(path, table, spec, hierarchy, 30)
    # Same size, but other bytes: the digest is compared before the manifest is written.
    (path / "manifest.json").unlink()
    data = bytearray((path / "shard-00000.h.r0000.h5").read_bytes())
    data[-1] ^= 1
    (path / "shard-00000.h.r0000.h5").write_bytes(data)
    with pytest.raises(StoreError, match="do not match"):
        write_one(path, table, spec, hierarchy, 30)
    write_one(path, table, spec, hierarchy, 30)
    assert contents(path) == expected


def test_another_setting_is_a_mismatch_and_force_deletes_the_pieces(tmp_path):
    table = sorted_table()
    spec, hierarchy = halved(table)
    path = write_one(tmp_path / "store", table, spec, hierarchy, 30)
    kept = path / "shard-00009.other.r0000.h5"
    kept.write_bytes(b"of another program")
    other = replace(open_writer(path, table, spec, 30).spec, shard_edges=None)
    with pytest.raises(StoreMismatchError, match="shard_edges"):
        StoreWriter.open(path, other)
    write_one(path, table, spec, hierarchy, writer=StoreWriter.open(path, other, force=True))
    expected = contents(write_one(tmp_path / "whole", table, spec, hierarchy))
    kept.unlink()
    assert contents(path) == expected


# What verify finds ----------------------------------------------------------------------------------------------


def change_cluster(forge):
    with forge.shard("h.r0001") as file:
        file["levels/0/cluster"][3] = 0


def change_weight(forge):
    with forge.shard("h.r0001") as file:
        file["levels/0/edge_weight"][0] *= 2


def change_coarse_edge(forge):
    with forge.shard("h.r0000") as file:
        index = file["levels/0/edge_index"]
        rows = index[1][index[0] == index[0, -1]]
        index[1, -1] = rows.max() + 1 if rows.max() + 1 not in rows else 0


def change_order(forge):
    with forge.shard("h.r0000") as file:
        index = file["levels/0/edge_index"]
        index[:] = index[:][:, ::-1]


def change_finer_edge(forge):
    with forge.shard("graphs.r0001") as file:
        index = file["fields/edge_index"]
        index[1, 0] = (index[1, 0] + 11) % 60


def change_nan(forge):
    with forge.shard("h.r0001") as file:
        file["levels/0/edge_weight"][2] = np.nan


def change_flag(forge):
    with forge.shard("graphs.r0001") as file:
        file["fields/train_mask"][1] = 2


def change_representative(forge):
    with forge.shard("h.r0001") as file:
        values = file["levels/0/representative"]
        values[:] = values[:][::-1]


CHANGES = {
    change_cluster: "contraction|without nodes|represents",
    change_weight: "not the contraction",
    change_coarse_edge: "not the contraction",
    change_order: "sorted by source",
    change_finer_edge: "not the contraction",
    change_nan: "not finite",
    change_flag: "not valid",
    change_representative: "represents",
}


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    table = sorted_table(weighted=True)
    return write_one(tmp_path_factory.mktemp("divided") / "store", table, *halved(table, fields=False), 40)


@pytest.mark.parametrize("piece", [1 << 18, 7])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_verify_finds_wrong_values_in_pieces(tmp_path, monkeypatch, divided, change, piece):
    monkeypatch.setattr(large_contraction, "_PIECE", piece)
    path = shutil.copytree(divided, tmp_path / "store")
    forge = Forge(path)
    change(forge)
    forge.save()
    found = verify_store(path)
    assert found and any(re.search(CHANGES[change], finding.message) for finding in found), found


def test_verify_compares_unweighted_and_unsorted_levels(tmp_path):
    """An unweighted level must have all pairs. A level with edges in any order is compared in memory."""
    table = sorted_table()
    spec, hierarchy = halved(table, fields=False)
    path = write_one(tmp_path / "store", table, spec, hierarchy, 40)
    assert hierarchy.levels[0].edges.edge_weight is None
    for name, chosen in {"one edge less": np.s_[:, 1:], "one edge twice": None}.items():
        copied = shutil.copytree(path, tmp_path / name)
        forge = Forge(copied)
        with forge.shard("h.r0000") as file:
            index = file["levels/0/edge_index"]
            if chosen is None:
                index[:, 1] = index[:, 0]
            else:
                index[1, 0] = next(i for i in range(1, 30) if i not in index[1][index[0] == 0])
        forge.save()
        assert any("not the contraction" in finding.message for finding in verify_store(copied)), name


def test_verify_finds_a_coarse_edge_that_is_missing(tmp_path):
    """The coarse edges are sorted and right, but one pair of an unweighted graph is not among them."""
    table = sorted_table()
    index = table.fields["edge_index"].values
    more = np.array([[1, 40], [40, 1]])
    assert not any((index == pair[:, None]).all(0).any() for pair in more.T)
    index = np.concatenate([index, more], axis=1)
    index = np.ascontiguousarray(index[:, np.lexsort((index[1], index[0]))])
    edges = replace(table.fields["edge_index"], values=index, ptr=np.array([0, index.shape[1]]))
    larger = replace(table, fields={**table.fields, "edge_index": edges})
    for shard_edges in (None, 40):
        path = write_one(tmp_path / str(shard_edges), larger, *halved(table, fields=False), shard_edges)
        (found,) = verify_store(path)
        assert (found.field, "not the contraction" in found.message) == ("/levels/0/edge_index", True)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(False, False), (False, True), (True, True)]),
    st.booleans(),
    st.sampled_from(["right", "one more", "one less", "other pair", "other weight", "unsorted", "twice"]),
    st.integers(1, 40),
)
def test_rows_at_a_time_are_compared_like_all_edges(monkeypatch_module, seed, weights, loops, change, piece):
    """Both comparisons of a contraction agree, whatever is wrong with it."""
    rng = np.random.default_rng(seed)
    nodes, supers = int(rng.integers(2, 12)), int(rng.integers(1, 6))
    pairs = np.unique(rng.integers(0, nodes, (int(rng.integers(1, 30)), 2)), axis=0).T
    weight = rng.integers(1, 5, pairs.shape[1]).astype(np.float64)
    cluster = rng.integers(-1, supers, nodes)
    coarse = np.zeros((supers, supers))
    ends = cluster[pairs]
    kept = (ends >= 0).all(0) & (loops | (ends[0] != ends[1]))
    np.add.at(coarse, tuple(ends[:, kept]), weight[kept] if weights[0] else 1.0)
    index, values = np.stack(np.nonzero(coarse)), coarse[np.nonzero(coarse)]
    place = int(rng.integers(0, max(index.shape[1], 1)))
    if change == "one more" or (change == "twice" and index.shape[1]):
        new = rng.integers(0, supers, 2) if change == "one more" else index[:, place]
        index, values = np.insert(index, place, new, axis=1), np.insert(values, place, 0.0)
        order = np.argsort(index[0], kind="stable")
        index, values = index[:, order], values[order]
    elif index.shape[1] and change == "one less":
        index, values = np.delete(index, place, axis=1), np.delete(values, place)
    elif index.shape[1] and change == "other pair":
        index[1, place] = rng.integers(0, supers)
    elif index.shape[1] and change == "other weight":
        values[place] += 1
    elif change == "unsorted":
        order = rng.permutation(index.shape[1])
        index, values = index[:, order], values[order]
    finer = unit_edges(
        pairs, weight if weights[0] else None, np.array([0, pairs.shape[1]]), np.array([0, nodes])
    )
    pooled = unit_edges(
        index, values if weights[1] else None, np.array([0, index.shape[1]]), np.array([0, supers])
    )
    options = {"remove_self_loops": not loops}
    monkeypatch_module.setattr(large_contraction, "_PIECE", piece)
    found = large_contraction.is_wrong_contraction(finer, pooled, cluster, options, "float32")
    assert found == (first_wrong_contraction(finer, pooled, cluster, options, "float32") is not None)
    assert change not in ("right", "unsorted") or not found


def test_pieces_of_equal_size_cannot_be_exchanged(tmp_path):
    """Only the header of a piece tells it from others, if digests were computed again."""
    nodes = 40
    ids = np.arange(nodes)
    ends = np.stack([np.repeat(ids, 2), np.stack([(ids - 1) % nodes, (ids + 1) % nodes], 1).ravel()])
    ptr = np.array([0, 2 * nodes])
    fields = {"edge_index": Field("edge_index", ends, ptr, axis=-1, shifted=True)}
    table = GraphTable(np.array([0, nodes]), fields)
    path = write_one(tmp_path / "store", table, *halved(table, 1, fields=False), 20)
    first, second = (path / f"shard-00000.graphs.r000{number}.h5" for number in (1, 2))
    assert first.stat().st_size == second.stat().st_size
    forge = Forge(path)
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    forge.save()
    with pytest.raises(StoreDamagedError, match="@piece must be 1, got 2"):
        StoreReader(path).gather_graphs([0])


def test_a_missing_piece_and_one_of_another_store_are_refused(tmp_path, divided):
    path = shutil.copytree(divided, tmp_path / "store")
    table = sorted_table(1, weighted=True)
    other = write_one(tmp_path / "other", table, *halved(table, fields=False), 40)
    name = "shard-00000.graphs.r0001.h5"
    shutil.copy(other / name, path / name)
    with pytest.raises(StoreDamagedError):
        StoreReader(path).gather_graphs([0])
    assert any(finding.shard == name for finding in verify_store(path))
    (path / name).unlink()
    with pytest.raises(StoreError, match="does not exist"):
        StoreReader(path)
    assert any(finding.shard == name for finding in verify_store(path))


def shorten_an_array(fields):
    values = fields["train_mask"][:-1]
    attributes = dict(fields["train_mask"].attrs)
    del fields["train_mask"]
    fields.create_dataset("train_mask", data=values).attrs.update(attributes)


def remove_an_array(fields):
    del fields["train_mask"]


def add_an_array(fields):
    fields.copy("train_mask", "other_mask")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (shorten_an_array, r"train_mask must have \d+ rows"),
        (remove_an_array, "train_mask"),
        (add_an_array, "must have the arrays"),
    ],
)
def test_pieces_with_other_arrays_are_refused(tmp_path, divided, change, text):
    path = shutil.copytree(divided, tmp_path / "store")
    forge = Forge(path)
    with forge.shard("graphs.r0001") as file:
        change(file["fields"])
    forge.save()
    with pytest.raises(StoreDamagedError, match=text):
        StoreReader(path).gather_graphs([0])
    assert verify_store(path)


def test_a_piece_that_no_record_names_is_reported(tmp_path, divided):
    path = shutil.copytree(divided, tmp_path / "store")
    shutil.copy(path / "shard-00000.graphs.r0001.h5", path / "shard-00000.graphs.r0099.h5")
    (path / "shard-00000.other.r0099.h5").write_bytes(b"of another program")
    (found,) = verify_store(path)
    assert found.shard == "shard-00000.graphs.r0099.h5" and "not listed" in found.message


@pytest.mark.parametrize(
    "change",
    [
        lambda pieces: pieces[1]["edges"].__setitem__(0, pieces[1]["edges"][0] - 1),
        lambda pieces: pieces[0]["rows"].__setitem__(1, pieces[0]["rows"][1] - 1),
        lambda pieces: pieces.pop(),
        lambda pieces: pieces.pop(0),
        lambda pieces: pieces.reverse(),
        lambda pieces: pieces[-1]["edges"].__setitem__(1, 2**53),
        lambda pieces: pieces[0].update(level=1),
        lambda pieces: pieces[0].update(file="../../evil.h5"),
        lambda pieces: pieces.clear(),
    ],
)
def test_wrong_tables_of_ranges_are_refused(tmp_path, divided, change):
    path = shutil.copytree(divided, tmp_path / "store")
    forge = Forge(path)
    change(forge.manifest["shards"][0]["pieces"])
    forge.save()
    with pytest.raises(StoreDamagedError, match=r"pieces|file"):
        StoreReader(path)
    assert verify_store(path)


def test_a_piece_that_changes_while_it_is_read_is_noticed(tmp_path, divided):
    path = shutil.copytree(divided, tmp_path / "store")
    reader = StoreReader(path)
    reader.gather_graphs([0])
    with open(path / "shard-00000.graphs.r0001.h5", "r+b") as file:
        file.truncate(100)
    with pytest.raises(StoreDamagedError, match=r"r0001.*truncated"):
        reader.gather_graphs([0])


def test_the_table_of_ranges_can_be_read_with_h5py_alone(divided):
    """The example of docs/fileformat.md."""
    manifest = json.loads((divided / "manifest.json").read_text())
    pieces = [p for p in manifest["hierarchies"][0]["shards"][0]["pieces"] if p["level"] == 0]
    edges = []
    for piece in pieces:
        with h5py.File(divided / piece["file"]) as file:
            edges.append(file["levels/0/edge_index"][:])
            assert dict(file.attrs)["rows_low"] == piece["rows"][0]
    level = StoreReader(divided).gather_level([0], "h", 0)
    np.testing.assert_array_equal(np.concatenate(edges, axis=1), level.edges.edge_index)
