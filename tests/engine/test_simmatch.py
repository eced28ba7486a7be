"""Matching by similar features: equal to a plain reference, exact sizes, independent of scale and threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import component_sizes, local_clusters, rows_of
from tests.reference import hem, simmatch
from tgp.engine import coarsen, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import simmatch as simmatch_method
from tgp.engine.methods.simmatch import METHOD, SimMatchParams
from tgp.errors import ParameterError
from tgp.ragged import BlockCSR
from tgp.ragged.node_attributes import NodeAttributes
from tgp.testing.graphs import barabasi_albert, grid2d, path, with_attributes
from tgp.testing.strategies import blocks

RATIOS = (0.6, 0.35, 0.1)
SEEDS = st.integers(0, 5)


def scores_of(block, graph, hops):
    rows = block.take([graph]).node_values("x")
    return simmatch.cosine_scores(rows.tolist(), hops)


def with_features(block, x):
    return block.with_values(x=np.asarray(x, np.float64))


@given(blocks(max_graphs=3), SEEDS, st.integers(0, 3), st.booleans())
def test_one_matching_equals_the_reference(block, seed, hops, two_hop):
    found = METHOD.assign(block, SimMatchParams(hops=hops, two_hop=two_hop), RandomKey(seed, 1))
    expected = [
        hem.match_once(rows_of(block, g), seed, 1, scores_of(block, g, hops), two_hop)
        for g in range(block.num_graphs)
    ]
    assert local_clusters(block, found) == expected


@pytest.mark.parametrize("columns", [1, 3])
def test_features_are_smoothed_in_parts(columns, monkeypatch):
    """Wide features are smoothed and added a few columns at a time."""
    block = with_attributes(barabasi_albert(60, 2))
    expected = METHOD.assign(block, SimMatchParams(ratio=0.2), RandomKey()).cluster
    monkeypatch.setattr(simmatch_method, "_COLUMNS", columns)
    found = METHOD.assign(block, SimMatchParams(ratio=0.2), RandomKey()).cluster
    assert found.tolist() == expected.tolist()


@given(blocks(max_graphs=3), SEEDS, st.integers(0, 2))
def test_nested_levels_equal_the_reference(block, seed, hops):
    params = SimMatchParams(ratios=RATIOS, hops=hops)
    found = METHOD.assign_levels(block, params, RandomKey(seed), len(RATIOS))
    expected = [
        hem.match_to_ratios(rows_of(block, g), seed, 0, RATIOS, scores_of(block, g, hops))
        for g in range(block.num_graphs)
    ]
    below = block
    for number, assignment in enumerate(found):
        assert local_clusters(below, assignment) == [levels[number] for levels in expected]
        below = BlockCSR(np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr)  # fmt: skip


@given(blocks(min_graphs=1, max_graphs=2, min_nodes=1), SEEDS)
def test_members_weigh_the_features_of_supernodes(block, seed):
    members = 1.0 + np.arange(block.num_nodes) % 3
    attributes = NodeAttributes({"x": block.node_values("x")}, members)
    weighted = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr, attributes)
    found = METHOD.assign(weighted, SimMatchParams(ratio=0.3), RandomKey(seed))
    expected = []
    for g, (low, high) in enumerate(zip(block.node_ptr[:-1], block.node_ptr[1:], strict=True)):
        score = simmatch.cosine_scores(
            block.take([g]).node_values("x").tolist(), 2, members[low:high].tolist()
        )
        expected += hem.match_to_ratios(rows_of(block, g), seed, 0, (0.3,), score)
    assert local_clusters(block, found) == expected


def test_similar_neighbours_are_merged_first():
    block = with_features(path(6), [[1, 0], [0, 1], [0, 1], [1, 0], [1, 0.1], [-1, 0]])
    found = METHOD.assign(block, SimMatchParams(hops=0, nodes=4), RandomKey()).cluster
    assert found.tolist() == [0, 1, 1, 2, 2, 3]


def test_exact_sizes():
    block = with_attributes(BlockCSR.concat([barabasi_albert(300), grid2d(15, 15)]))
    for ratio in (0.5, 0.3, 0.1):
        cluster = coarsen(block, f"simmatch:ratio={ratio}").levels[0].assignment.cluster
        nodes, supernodes = component_sizes(block, cluster)
        assert supernodes.tolist() == [hem.kept(int(n), ratio) for n in nodes]


@pytest.mark.parametrize("scale", [2.0**-1070, 2.0**-60, 2.0**900])
def test_the_scale_of_features_has_no_effect(scale):
    block, x = grid2d(8, 8), np.random.default_rng(0).integers(-8, 9, (64, 5)).astype(np.float64)
    expected = coarsen(with_features(block, x), "simmatch:ratio=0.3").levels[0].assignment.cluster
    found = coarsen(with_features(block, scale * x), "simmatch:ratio=0.3").levels[0].assignment.cluster
    assert found.tolist() == expected.tolist()


def test_wide_features_are_smoothed_in_parts():
    rng = np.random.default_rng(0)
    block, x = grid2d(6, 6), rng.normal(size=(36, 150))
    found = METHOD.assign(with_features(block, x), SimMatchParams(), RandomKey(3)).cluster
    expected = hem.match_once(rows_of(block, 0), 3, 0, simmatch.cosine_scores(x.tolist(), 2))
    assert found.tolist() == expected


def test_zero_features_and_threads(monkeypatch):
    block = grid2d(30, 30)
    assert (
        coarsen(with_features(block, np.zeros((900, 2))), "simmatch:ratio=0.25").levels[0].block.num_nodes
        == 225
    )
    block = with_attributes(block)
    one = METHOD.assign(block, SimMatchParams(ratio=0.2), RandomKey()).cluster
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    assert METHOD.assign(block, SimMatchParams(ratio=0.2), RandomKey()).cluster.tolist() == one.tolist()


@pytest.mark.parametrize("hops", [-1, 101, True, 1.5])
def test_wrong_hops(hops):
    with pytest.raises(ParameterError, match="hops is out of range"):
        SimMatchParams(hops=hops)
