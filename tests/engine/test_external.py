"""Levels of graphs in files equal those of graphs in memory."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_hem import hub_graphs
from tgp.engine import coarsen, parse_schedule, threads
from tgp.engine.external import entries, row_matching
from tgp.engine.external.buckets import Limits
from tgp.engine.external.journal import Journal
from tgp.engine.external.levels import check_external, coarsen_level
from tgp.engine.external.ranges import LOCAL, LocalRanges
from tgp.engine.external.row_files import RowWriter, read_array
from tgp.engine.methods import METHODS, external_methods
from tgp.engine.undirected import make_undirected
from tgp.errors import InputError, ParameterError
from tgp.inspect.catalog import describe_pooler
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d, star


def write_rows(folder, block):
    with RowWriter(folder, "input", block.weight is not None) as writer:
        writer.append(block.indptr, block.indices, block.weights_or_ones())
        return type(writer.files)(folder, "input", block.num_nodes, block.num_edges, block.weight is not None)


def coarsen_in_files(
    folder, block, schedule, seed=0, *, limits, weight_dtype=np.float32, on_record=None, ranges=LOCAL
):
    """Return (cluster, indptr, indices, weight, values, representatives) of each level."""
    journal = Journal(folder / "scratch", "key", on_record)
    fine = write_rows(folder, block)
    found = []
    check_external(parse_schedule(schedule))
    for number, spec in enumerate(parse_schedule(schedule)):
        level = coarsen_level(journal, fine, number, spec, seed, weight_dtype, limits, ranges)
        fine = level.rows
        with fine.open() as rows:
            arrays = [rows.indptr.copy(), rows.indices.copy(), rows.weight.copy() if rows.weighted else None]
        values = None if level.weight is None else read_array(level.weight, np.float32)
        members = None if level.representative is None else read_array(level.representative, np.int32)
        found.append([read_array(level.cluster, np.int32), *arrays, values, members])
    return found


def assert_same_levels(found, hierarchy):
    assert len(found) == len(hierarchy.levels)
    for arrays, level in zip(found, hierarchy.levels, strict=True):
        block, assignment = level.block, level.assignment
        expected = [assignment.cluster, block.indptr, block.indices, block.weight]
        expected += [assignment.weight, assignment.representative]
        for array, wanted in zip(arrays, expected, strict=True):
            assert (array is None) == (wanted is None)
            if array is not None:
                np.testing.assert_array_equal(array, wanted)


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


schedules = st.sampled_from(
    [
        "hem*3",
        "hem:score=weight*3",
        "hem:two_hop=false*3",
        "hem:count_edges=true*3",
        "hem:remove_self_loops=false:connect_red_op=max*3",
        "kmis*3",
        "kmis:scorer=random*3",
        "kmis:scorer=canonical:score_heuristic=none*3",
        "kmis:scorer=constant:score_heuristic=w-greedy*3",
        "kmis:score_heuristic=w-greedy:force_undirected=true:remove_self_loops=false*3",
        "graclus*3",
        "graclus:two_hop=true:count_edges=true*3",
        "graclus:order=index:two_hop=true*3",
        "hem,kmis,graclus",
        "kmis:count_edges=true,hem:connect_red_op=mul,kmis",
    ]
)


@pytest.fixture(scope="module", autouse=True)
def no_fsync():
    """Synchronizing many small files with the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


cuts = st.sampled_from([1, 2, 7]) | st.integers(1, 40)


@settings(deadline=None, max_examples=200)
@given(undirected_graphs(), schedules, st.integers(0, 2**40), st.integers(1, 9), st.booleans(), cuts)
def test_levels_in_files_equal_levels_in_memory(tmp_path_factory, block, schedule, seed, piece, double, cut):
    dtype = np.float64 if double else np.float32
    bucket, found = 8, None
    while found is None:  # the smallest buckets that hold the largest row
        folder, limits = tmp_path_factory.mktemp("rows"), Limits(piece, bucket, checkpoint=1)
        try:
            found = coarsen_in_files(
                folder, block, schedule, seed, limits=limits, weight_dtype=dtype, ranges=LocalRanges(cut)
            )
        except InputError as error:
            assert "expected at most" in str(error)
            bucket *= 2
        shutil.rmtree(folder)
    assert_same_levels(found, coarsen(block, schedule, seed, weight_dtype=dtype))


@pytest.mark.parametrize(
    "block", [barabasi_albert(9000, 4, 1), grid2d(80, 90), star(500)], ids=["ba", "grid", "star"]
)
@pytest.mark.parametrize("bucket", [1800, 10**6])
@pytest.mark.parametrize(
    "schedule",
    ["hem:count_edges=true*4", "kmis*3", "graclus:two_hop=true*3", "kmis:count_edges=true,hem,graclus"],
)
def test_larger_graphs(tmp_path, block, schedule, bucket):
    found = coarsen_in_files(tmp_path, block, schedule, 3, limits=Limits(700, bucket, 999))
    assert_same_levels(found, coarsen(block, schedule, 3))


@st.composite
def graphs_without_some_reverse_edges(draw):
    nodes = draw(st.integers(2, 12))
    ids = st.integers(0, nodes - 1)
    edges = sorted(draw(st.sets(st.tuples(ids, ids), max_size=40)))
    weight = np.array([draw(st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0])) for _ in edges])
    return BlockCSR.from_edge_index(np.array(edges, np.int64).reshape(-1, 2).T, weight, num_nodes=nodes)


@settings(deadline=None, max_examples=50)
@given(graphs_without_some_reverse_edges(), st.sampled_from(["kmis*2", "kmis:force_undirected=true*2"]), cuts)
def test_kmis_adds_reverse_edges(tmp_path_factory, block, schedule, cut):
    """A coarse edge can lack its reverse edge, if the sum of its weights counts as zero in one direction only."""
    folder, limits = tmp_path_factory.mktemp("rows"), Limits(5, 100, checkpoint=1)
    found = coarsen_in_files(folder, block, schedule, limits=limits, ranges=LocalRanges(cut))
    shutil.rmtree(folder)
    assert_same_levels(found, coarsen(block, schedule))


@pytest.mark.parametrize(("leaves", "supernodes"), [(7, 7), (8, 6)])
def test_lone_nodes_are_merged_if_less_than_thirty_percent_are_removed(tmp_path, leaves, supernodes):
    """A matching removes three of 10 or 11 nodes."""
    ends = np.stack([np.minimum(np.arange(leaves), 2), 3 + np.arange(leaves)])
    block = BlockCSR.from_edge_index(np.concatenate([ends, ends[::-1]], 1), num_nodes=3 + leaves)
    found = coarsen_in_files(tmp_path, block, "hem", limits=Limits(200, 200))
    assert len(found[0][1]) - 1 == supernodes
    assert_same_levels(found, coarsen(block, "hem"))


@settings(deadline=None, max_examples=80)
@given(
    hub_graphs(),
    st.sampled_from(["hem", "hem:score=weight", "hem:two_hop=false", "graclus:two_hop=true"]),
    st.integers(0, 9),
    st.sampled_from([1, 24]),
)
def test_nodes_of_few_hubs(tmp_path_factory, block, schedule, seed, rounds):
    """Many nodes stay alone. After some rounds, the edges that are left are sorted."""
    block, folder = make_undirected(block), tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_matching, "MAX_ROUNDS", rounds)
        found = coarsen_in_files(folder, block, schedule, seed, limits=Limits(200, 200))
    assert_same_levels(found, coarsen(block, schedule, seed))


@settings(deadline=None, max_examples=60)
@given(
    undirected_graphs(),
    st.integers(0, 99),
    st.sampled_from(["hem", "hem:score=weight", "kmis:force_undirected=true"]),
    cuts,
    st.sampled_from([1.0, 2.0**-30]),
    st.sampled_from([12, 0]),
)
def test_different_weights_of_the_two_directions(
    tmp_path_factory, block, seed, schedule, cut, scale, highest
):
    """Sums of quarters are exact, so that the levels do not depend on the order of a sum. Small weights are no rounding errors."""
    weight = scale * np.random.default_rng(seed).integers(-12, highest, block.num_edges) / 4.0
    block = BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
    limits, folder = Limits(7, 200, checkpoint=1), tmp_path_factory.mktemp("rows")
    found = coarsen_in_files(folder, block, schedule, seed, limits=limits, ranges=LocalRanges(cut))
    assert_same_levels(found, coarsen(block, schedule, seed))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("schedule", ["hem*3", "kmis:score_heuristic=w-greedy*2", "graclus*3"])
def test_any_number_of_threads(tmp_path, monkeypatch, count, weighted, schedule):
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    monkeypatch.setattr(entries, "MIN_PART", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    block = barabasi_albert(1000, 4, 1)
    if weighted:
        block = BlockCSR(
            block.indptr, block.indices, 1.0 + (block.rows() + block.indices) % 7, block.node_ptr
        )
    found = coarsen_in_files(tmp_path, block, schedule, 3, limits=Limits(700, 5000, 999))
    assert_same_levels(found, coarsen(block, schedule, 3))


def ascending_path(nodes):
    ids = np.arange(nodes - 1)
    edges = np.stack([np.concatenate([ids, ids + 1]), np.concatenate([ids + 1, ids])])
    return BlockCSR.from_edge_index(edges, np.tile(1.0 + ids, 2), num_nodes=nodes)


@pytest.mark.parametrize("piece", [16, 10**4])
@pytest.mark.parametrize("schedule", ["hem:score=weight*2", "kmis:score_heuristic=none*2"])
def test_a_path_with_one_choice_per_round(tmp_path, piece, schedule):
    block = ascending_path(200)
    found = coarsen_in_files(tmp_path, block, schedule, limits=Limits(piece, 10**4))
    assert_same_levels(found, coarsen(block, schedule))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("schedule", ["hem*2", "kmis:force_undirected=true,graclus"])
def test_a_run_continues_after_every_record(tmp_path, schedule):
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
        tmp_path / "whole", block, schedule, limits=limits, weight_dtype=np.float64, on_record=names.append
    )
    assert len(names) > 15
    steps = {"hem*2": "level2:mirror:merge"}.get(schedule, "level1:order")
    assert steps in names
    expected = coarsen(block, schedule, weight_dtype=np.float64)
    (tmp_path / "cut").mkdir()
    seen = []

    def stop(name):
        seen.append(name)
        raise Killed

    for _ in range(2 * len(names)):
        try:
            found = coarsen_in_files(
                tmp_path / "cut", block, schedule, limits=limits, weight_dtype=np.float64, on_record=stop
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
        (
            "sep*2",
            InputError,
            "sep needs the graph in memory: expected one of graclus, kmis, hem with --memory",
        ),
        ("hem,ndp", InputError, "ndp needs the graph in memory"),
        (
            "graclus:order=degree",
            ParameterError,
            "order=degree needs the graph in memory: expected random or index",
        ),
        ("graclus:match_on=counts", ParameterError, "match_on"),
        ("kmis:order_k=2", ParameterError, "order_k=2 needs the graph in memory: expected 1, got 2"),
        ("kmis:max_size=8", ParameterError, "max_size=8 needs the graph in memory: expected none, got 8"),
        ("hem*", InputError, "hem*5"),
        ("hem:ratio=0.5", ParameterError, "ratio"),
        ("hem:degree_norm=true", ParameterError, "degree_norm"),
        ("hem:connect_red_op=mean", ParameterError, "mean"),
    ],
)
def test_other_schedules_are_refused(schedule, error, text):
    with pytest.raises(error, match=text.replace("*", r"\*")):
        check_external(parse_schedule(schedule))


def test_the_guide_and_the_catalog_describe_the_methods():
    page = (Path(__file__).parents[2] / "docs/guide/larger-than-memory.md").read_text()
    rows = re.findall(r"^\| \[`(\w+)`\]\(\.\./reference/poolers/\w+\.md\) \| ([^|]*) \|", page, re.M)
    described = {alias: describe_pooler(alias) for alias in METHODS.entries}
    assert dict(rows) == {
        alias: pooler.restrictions for alias, pooler in described.items() if pooler.larger_than_memory
    }
    assert set(dict(rows)) == set(external_methods())


@pytest.mark.parametrize("schedule", ["hem*2", "kmis*2", "hem:count_edges=true,kmis,graclus"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_larger_than_a_bucket_are_divided(tmp_path, schedule, weighted):
    block = star(100)
    if weighted:
        weight = 1.0 / (1 + block.rows() + block.indices)
        weight[block.rows() > 0] *= 1.5  # the two directions are made equal first
        block = BlockCSR(block.indptr, block.indices, weight, block.node_ptr)
    found = coarsen_in_files(tmp_path, block, schedule, limits=Limits(10, 20, 30))
    assert_same_levels(found, coarsen(block, schedule))


def test_supernodes_with_too_many_edges_between_them_are_refused(tmp_path):
    """The 99 edges of the star become self loops of the only supernode."""
    with pytest.raises(InputError, match="at most 20 edges between two supernodes, got 198 between 0 and 0"):
        coarsen_in_files(tmp_path, star(100), "kmis:remove_self_loops=false", limits=Limits(10, 20))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_after_the_recorded_ones_are_removed(tmp_path, weighted):
    """A run was killed after it had written rows that it did not record."""
    first, lost, second = (
        (np.array([0, 1, 3]), np.arange(3, dtype=np.int32) + n, np.ones(3) * n) for n in range(3)
    )
    with RowWriter(tmp_path, "rows", weighted) as writer:
        writer.append(*first)
        writer.append(*lost)
    with RowWriter(tmp_path, "rows", weighted, 2, 3) as writer:
        writer.append(*second)
    with type(writer.files)(tmp_path, "rows", 4, 6, weighted).open() as rows:
        assert rows.indptr.tolist() == [0, 1, 3, 4, 6]
        assert rows.indices.tolist() == [0, 1, 2, 2, 3, 4]
        assert rows.weight.tolist() == ([0.0] * 3 + [2.0] * 3 if weighted else [])
