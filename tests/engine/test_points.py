"""Clusters of positions, voxel and fps: equal to plain references, exact sizes, independent of threads and scale."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import local_clusters
from tests.reference import points as reference
from tgp.engine import coarsen, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import fps, voxel
from tgp.errors import GraphError, ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import grid2d, path


def cloud(sizes, values):
    """Return graphs without edges that have these positions."""
    node_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = int(node_ptr[-1])
    block = BlockCSR(np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), None, node_ptr)
    return block.with_values(pos=values) if nodes else block


@st.composite
def clouds(draw, most=60):
    sizes = draw(st.lists(st.integers(0, most), min_size=1, max_size=3))
    width = draw(st.integers(1, 3))
    seed, levels = draw(st.integers(0, 10**6)), draw(st.sampled_from([2, 5, 1000]))
    # Few different coordinates give many equal distances and points at the same place.
    values = np.random.default_rng(seed).integers(-levels, levels + 1, (sum(sizes), width))
    return cloud(sizes, values / 8.0)


def positions(block, graph):
    return block.take([graph]).node_values("pos").tolist()


@given(clouds(), st.sampled_from([0.1, 0.25, 0.5, 3.0, 1e6]))
def test_voxels_equal_the_reference(block, size):
    found = voxel.METHOD.assign(block, voxel.VoxelParams(size=size), RandomKey())
    expected = [reference.voxels(positions(block, g), size) for g in range(block.num_graphs)]
    assert local_clusters(block, found) == expected
    found.validate(block.node_ptr)


@given(clouds(), st.sampled_from([0.05, 0.25, 0.6, 1.0]))
def test_sampling_equals_the_reference(block, ratio):
    found = fps.METHOD.assign(block, fps.FPSParams(ratio=ratio), RandomKey())
    found.validate(block.node_ptr)
    clusters = local_clusters(block, found)
    for graph in range(block.num_graphs):
        pos = positions(block, graph)
        centers, owner = reference.farthest_points(pos, math.ceil(round(ratio * len(pos), 9)))
        assert clusters[graph] == reference.number_by_first(owner)
        low, high = found.super_ptr[graph : graph + 2]
        chosen = found.representative[low:high] - block.node_ptr[graph]
        assert sorted(chosen.tolist()) == sorted(centers)
        assert [clusters[graph][c] for c in chosen] == list(range(high - low))


def test_a_large_cloud_equals_the_reference():
    """The tree of boxes has many levels here."""
    values = np.random.default_rng(0).random((700, 3))
    found = fps.METHOD.assign(cloud([700], values), fps.FPSParams(nodes=90), RandomKey())
    scaled = values.tolist()
    centers, owner = reference.farthest_points(scaled, 90)
    assert found.cluster.tolist() == reference.number_by_first(owner)
    assert sorted(found.representative.tolist()) == sorted(centers)


def test_points_at_one_place_and_on_a_line():
    same = cloud([50], np.ones((50, 2)))
    assert fps.METHOD.assign(same, fps.FPSParams(ratio=0.1), RandomKey()).num_supernodes == 5
    line = cloud([9], np.arange(9.0))
    found = fps.METHOD.assign(line, fps.FPSParams(nodes=3), RandomKey())
    assert found.representative.tolist() == [0, 4, 8]
    assert found.cluster.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("scale", [1e-280, 1e-100, 1e150, 1e300])
def test_the_scale_of_positions_has_no_effect(scale):
    values = np.random.default_rng(1).integers(0, 50, (80, 2)).astype(np.float64)
    expected = fps.METHOD.assign(cloud([80], values), fps.FPSParams(), RandomKey()).cluster
    power = 2.0 ** np.round(np.log2(scale))
    found = fps.METHOD.assign(cloud([80], values * power), fps.FPSParams(), RandomKey()).cluster
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("schedule", ["voxel:size=0.3", "fps:ratio=0.2"])
def test_threads(monkeypatch, schedule):
    block = BlockCSR.concat([grid2d(6, 7)] * 8)
    block = block.with_values(pos=np.random.default_rng(0).random((block.num_nodes, 3)))
    one = coarsen(block, schedule).levels[0].assignment.cluster
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    assert coarsen(block, schedule).levels[0].assignment.cluster.tolist() == one.tolist()


def test_levels_of_a_grid():
    rows, cols = np.divmod(np.arange(16), 4)
    block = grid2d(4, 4).with_values(pos=np.stack([rows, cols], 1) + 0.5)
    first, second = coarsen(block, "voxel:size=2,voxel:size=4").levels
    assert first.assignment.cluster.reshape(4, 4).tolist() == [[0, 0, 1, 1]] * 2 + [[2, 2, 3, 3]] * 2
    assert first.block.node_values("pos").tolist() == [[1, 1], [1, 3], [3, 1], [3, 3]]
    assert first.block.edge_index().tolist() == [[0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 0, 3, 0, 3, 1, 2]]
    assert second.assignment.cluster.tolist() == [0, 0, 0, 0]


def test_negative_zero_is_zero():
    found = voxel.METHOD.assign(cloud([3], [[-0.0], [0.0], [-1e-9]]), voxel.VoxelParams(), RandomKey())
    assert found.cluster.tolist() == [0, 0, 1]


def test_wrong_arguments():
    for size in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="size is out of range: expected a finite number > 0"):
            voxel.VoxelParams(size=size)
    for options in ({"ratio": 0.0}, {"ratio": 1.5}, {"nodes": 0}):
        with pytest.raises(ParameterError, match="is out of range"):
            fps.FPSParams(**options)
    block = BlockCSR.concat([path(2), path(2)]).with_values(pos=[0.0, 1.0, 2.0, 1e300])
    with pytest.raises(GraphError, match="too large for the size") as error:
        coarsen(block, "voxel:size=1e-100")
    assert error.value.graph == 1
