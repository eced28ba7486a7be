"""Merging of neighbours in a sorted list of features: equal to a plain reference, exact sizes, independent of scale and threads."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import local_clusters, rows_of
from tests.reference import hem, ugc
from tgp.engine import coarsen, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.ugc import METHOD, UGCParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.ragged.node_attributes import NodeAttributes
from tgp.testing.graphs import barabasi_albert, grid2d, path, with_attributes
from tgp.testing.strategies import blocks

RATIOS = (0.6, 0.35, 0.1)
SEEDS = st.integers(0, 5)
SHARES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def features(block, graph):
    return block.take([graph]).node_values("x").tolist()


def with_features(block, x):
    return block.with_values(x=np.asarray(x, np.float64))


@given(blocks(max_graphs=3), SEEDS, SHARES)
def test_one_round_equals_the_reference(block, seed, share):
    found = METHOD.assign(block, UGCParams(heterophily=share), RandomKey(seed, 1))
    expected = [
        ugc.merge_once(rows_of(block, g), features(block, g), seed, 1, share) for g in range(block.num_graphs)
    ]
    assert local_clusters(block, found) == expected


@given(blocks(max_graphs=3), SEEDS, SHARES)
def test_nested_levels_equal_the_reference(block, seed, share):
    params = UGCParams(ratios=RATIOS, heterophily=share)
    found = METHOD.assign_levels(block, params, RandomKey(seed), len(RATIOS))
    expected = [
        ugc.merge_to_ratios(rows_of(block, g), features(block, g), seed, 0, RATIOS, share)
        for g in range(block.num_graphs)
    ]
    below = block
    for number, assignment in enumerate(found):
        assert local_clusters(below, assignment) == [levels[number] for levels in expected]
        below = BlockCSR(np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr)  # fmt: skip


@given(blocks(min_graphs=1, max_graphs=2, min_nodes=1), SEEDS)
def test_members_weigh_supernodes(block, seed):
    members = 1.0 + np.arange(block.num_nodes) % 3
    attributes = NodeAttributes({"x": block.node_values("x")}, members)
    weighted = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr, attributes)
    found = METHOD.assign(weighted, UGCParams(ratio=0.3), RandomKey(seed))
    expected = []
    for g, (low, high) in enumerate(zip(block.node_ptr[:-1], block.node_ptr[1:], strict=True)):
        counts = members[low:high].tolist()
        expected += ugc.merge_to_ratios(
            rows_of(block, g), features(block, g), seed, 0, (0.3,), members=counts
        )
    assert local_clusters(block, found) == expected


@given(blocks(min_graphs=1, max_graphs=2, min_nodes=1), SEEDS, st.sampled_from([0.9, 0.5, 0.2]))
def test_supernodes_are_runs_of_the_sorted_list(block, seed, ratio):
    found = METHOD.assign(block, UGCParams(ratio=ratio), RandomKey(seed))
    for g, cluster in enumerate(local_clusters(block, found)):
        values = ugc.project(rows_of(block, g), features(block, g), seed, 0, 0.5)
        order = sorted(range(len(values)), key=lambda node, values=values: (values[node], node))
        changes = sum(cluster[a] != cluster[b] for a, b in pairwise(order))
        assert changes + bool(order) == len(set(cluster)) == hem.kept(len(order), ratio)


def test_similar_nodes_are_merged_also_without_an_edge():
    block = with_features(path(6), [[1], [5], [9], [1], [5], [9]])
    found = METHOD.assign(block, UGCParams(heterophily=0.0, nodes=3), RandomKey()).cluster
    assert found.tolist() == [0, 1, 2, 0, 1, 2]


def test_isolated_nodes_reach_the_size_and_graphs_stay_apart():
    alone = BlockCSR(np.zeros(31, np.int64), np.zeros(0, np.int32), None, np.array([0, 20, 30]))
    found = METHOD.assign(with_attributes(alone), UGCParams(nodes=4), RandomKey())
    assert np.diff(found.super_ptr).tolist() == [4, 4]


def test_exact_sizes_and_small_graphs():
    block = with_attributes(BlockCSR.concat([barabasi_albert(300), grid2d(15, 15), path(4)]))
    for ratio in (0.5, 0.3, 0.1):
        found = METHOD.assign(block, UGCParams(ratio=ratio, keep_small=4), RandomKey())
        assert np.diff(found.super_ptr).tolist() == [hem.kept(300, ratio), hem.kept(225, ratio), 4]


@pytest.mark.parametrize("scale", [2.0**-1070, 2.0**-60, 2.0**900])
def test_the_scale_of_features_has_no_effect(scale):
    block, x = grid2d(8, 8), np.random.default_rng(0).integers(-8, 9, (64, 5)).astype(np.float64)
    expected = coarsen(with_features(block, x), "ugc:ratio=0.3").levels[0].assignment.cluster
    found = coarsen(with_features(block, scale * x), "ugc:ratio=0.3").levels[0].assignment.cluster
    assert found.tolist() == expected.tolist()


def test_zero_features_and_threads(monkeypatch):
    block = grid2d(30, 30)
    flat = coarsen(with_features(block, np.zeros((900, 2))), "ugc:ratio=0.25")
    assert flat.levels[0].block.num_nodes == 225
    block = with_attributes(block)
    one = METHOD.assign(block, UGCParams(ratio=0.2), RandomKey()).cluster
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    assert METHOD.assign(block, UGCParams(ratio=0.2), RandomKey()).cluster.tolist() == one.tolist()


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_wrong_heterophily(share):
    with pytest.raises(ParameterError, match="heterophily is out of range"):
        UGCParams(heterophily=share)


def test_empty_clusters_of_an_earlier_level_are_merged():
    block = with_attributes(path(6))
    attributes = NodeAttributes({"x": block.node_values("x")}, np.array([2.0, 0, 0, 1, 0, 0]))
    merged = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr, attributes)
    found = METHOD.assign_levels(merged, UGCParams(ratios=(0.5, 0.2)), RandomKey(0), 2)
    assert [level.num_supernodes for level in found] == [3, 2]
