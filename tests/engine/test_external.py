"""Levels of graphs in files equal those of graphs in memory."""

import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.engine import coarsen, parse_schedule, threads
from tgp.engine.external import levels
from tgp.engine.external.buckets import Limits
from tgp.engine.external.journal import Journal
from tgp.engine.external.levels import check_external, coarsen_level
from tgp.engine.external.ranges import LOCAL, LocalRanges
from tgp.engine.external.row_files import RowWriter, read_array
from tgp.errors import InputError, ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d, star


def write_rows(folder, block):
    with RowWriter(folder, "input", block.weight is not None) as writer:
        writer.append(block.indptr, block.indices, block.weights_or_ones())
        return type(writer.files)(folder, "input", block.num_nodes, block.num_edges, block.weight is not None)


def coarsen_in_files(
    folder, block, schedule, seed=0, *, limits, weight_dtype=np.float32, on_record=None, ranges=LOCAL
):
    """Return (cluster, indptr, indices, weight) of each level."""
    journal = Journal(folder / "scratch", "key", on_record)
    fine = write_rows(folder, block)
    found = []
    for number, params in enumerate(check_external(parse_schedule(schedule))):
        level = coarsen_level(journal, fine, number, params, seed, weight_dtype, limits, ranges)
        fine = level.rows
        with fine.open() as rows:
            arrays = [rows.indptr.copy(), rows.indices.copy(), rows.weight.copy() if rows.weighted else None]
        found.append([read_array(level.cluster, np.int32), *arrays])
    return found


def assert_same_levels(found, hierarchy):
    assert len(found) == len(hierarchy.levels)
    for (cluster, indptr, indices, weight), level in zip(found, hierarchy.levels, strict=True):
        np.testing.assert_array_equal(cluster, level.assignment.cluster)
        np.testing.assert_array_equal(indptr, level.block.indptr)
        np.testing.assert_array_equal(indices, level.block.indices)
        assert (weight is None) == (level.block.weight is None)
        if weight is not None:
            np.testing.assert_array_equal(weight, level.block.weight)


@st.composite
def undirected_graphs(draw):
    nodes = draw(st.integers(1, 24))
    pairs = draw(st.sets(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=60))
    edges = {tuple(sorted(pair)) for pair in pairs}
    both = [(u, v) for u, v in edges] + [(v, u) for u, v in edges if u != v]
    weight = None
    if draw(st.booleans()):
        number = st.one_of(st.floats(0.0, 4.0, width=32), st.sampled_from([0.1, 0.2, 0.3, 1.0, 1e-9]))
        values = {edge: draw(number) for edge in sorted(edges)}
        weight = np.array([values[tuple(sorted(edge))] for edge in both], np.float64)
    index = np.array(both, np.int64).reshape(-1, 2).T
    return BlockCSR.from_edge_index(index, weight, num_nodes=nodes)


parameters = st.sampled_from(
    [
        "",
        ":score=weight",
        ":two_hop=false",
        ":count_edges=true",
        ":remove_self_loops=false:connect_red_op=max",
    ]
)


@pytest.fixture(scope="module", autouse=True)
def no_fsync():
    """Synchronizing many small files with the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


cuts = st.sampled_from([1, 2, 7]) | st.integers(1, 40)


@settings(deadline=None, max_examples=100)
@given(undirected_graphs(), parameters, st.integers(0, 2**40), st.integers(1, 9), st.booleans(), cuts)
def test_levels_in_files_equal_levels_in_memory(tmp_path_factory, block, params, seed, piece, double, cut):
    schedule = f"hem{params}*3"
    dtype = np.float64 if double else np.float32
    bucket, found = 8, None
    while found is None:  # the smallest buckets that hold the largest row
        folder, limits = tmp_path_factory.mktemp("rows"), Limits(piece, bucket, checkpoint=1)
        try:
            found = coarsen_in_files(
                folder, block, schedule, seed, limits=limits, weight_dtype=dtype, ranges=LocalRanges(cut)
            )
        except InputError as error:
            assert "edges of a node" in str(error)
            bucket *= 2
        shutil.rmtree(folder)
    assert_same_levels(found, coarsen(block, schedule, seed, weight_dtype=dtype))


@pytest.mark.parametrize(
    "block", [barabasi_albert(3000, 4, 1), grid2d(40, 50), star(500)], ids=["ba", "grid", "star"]
)
@pytest.mark.parametrize("bucket", [1200, 10**6])
def test_larger_graphs(tmp_path, block, bucket):
    found = coarsen_in_files(tmp_path, block, "hem:count_edges=true*4", 3, limits=Limits(700, bucket, 999))
    assert_same_levels(found, coarsen(block, "hem:count_edges=true*4", 3))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_number_of_threads(tmp_path, monkeypatch, count, weighted):
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    monkeypatch.setattr(levels, "MIN_PART", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    block = barabasi_albert(1000, 4, 1)
    if weighted:
        block = BlockCSR(
            block.indptr, block.indices, 1.0 + (block.rows() + block.indices) % 7, block.node_ptr
        )
    found = coarsen_in_files(tmp_path, block, "hem*3", 3, limits=Limits(700, 5000, 999))
    assert_same_levels(found, coarsen(block, "hem*3", 3))


def ascending_path(nodes):
    ids = np.arange(nodes - 1)
    edges = np.stack([np.concatenate([ids, ids + 1]), np.concatenate([ids + 1, ids])])
    return BlockCSR.from_edge_index(edges, np.tile(1.0 + ids, 2), num_nodes=nodes)


@pytest.mark.parametrize("piece", [16, 10**4])
def test_a_path_with_one_pair_per_round(tmp_path, piece):
    block = ascending_path(200)
    found = coarsen_in_files(tmp_path, block, "hem:score=weight*2", limits=Limits(piece, 10**4))
    assert_same_levels(found, coarsen(block, "hem:score=weight*2"))


class Killed(BaseException):
    pass


def test_a_run_continues_after_every_record(tmp_path):
    block = barabasi_albert(200, 8, 2)
    rng = np.random.default_rng(0)
    upper = rng.random(block.num_edges)
    rows, cols = block.rows(), block.indices
    table = {(int(u), int(v)): w for u, v, w in zip(rows, cols, upper, strict=True)}
    weight = np.array(
        [table[min(u, v), max(u, v)] for u, v in zip(rows.tolist(), cols.tolist(), strict=True)]
    )
    block = BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
    limits = Limits(200, 1500, checkpoint=300)
    names = []
    (tmp_path / "whole").mkdir()
    coarsen_in_files(
        tmp_path / "whole", block, "hem*2", limits=limits, weight_dtype=np.float64, on_record=names.append
    )
    assert len(names) > 15
    assert any(name.endswith(":mirrored") for name in names)
    expected = coarsen(block, "hem*2", weight_dtype=np.float64)
    (tmp_path / "cut").mkdir()
    seen = []

    def stop(name):
        seen.append(name)
        raise Killed

    for _ in range(2 * len(names)):
        try:
            found = coarsen_in_files(
                tmp_path / "cut", block, "hem*2", limits=limits, weight_dtype=np.float64, on_record=stop
            )
            break
        except Killed:
            continue
    assert len(seen) >= len(names)
    assert_same_levels(found, expected)


def test_the_folder_of_another_run_is_cleared(tmp_path):
    Journal(tmp_path, "one").record("step", 1)
    (tmp_path / "level1.indices").write_bytes(b"12")
    assert Journal(tmp_path, "one").find("step") == 1
    assert Journal(tmp_path, "two").find("step") is None
    assert [path.name for path in tmp_path.iterdir()] == ["journal.json"]


@pytest.mark.parametrize(
    ("schedule", "error", "text"),
    [
        ("graclus*2", InputError, "needs the graph in memory"),
        ("hem*", InputError, "hem*5"),
        ("hem:ratio=0.5", ParameterError, "ratio"),
        ("hem:degree_norm=true", ParameterError, "degree_norm"),
        ("hem:connect_red_op=mean", ParameterError, "mean"),
    ],
)
def test_other_schedules_are_refused(schedule, error, text):
    with pytest.raises(error, match=text.replace("*", r"\*")):
        check_external(parse_schedule(schedule))


def test_a_hub_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match="edges of a node"):
        coarsen_in_files(tmp_path, star(100), "hem", limits=Limits(10, 20))
