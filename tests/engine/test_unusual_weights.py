"""Weights near the limits of float64: hierarchies do not depend on the block, and nothing overflows."""

import warnings

import numpy as np
import pytest

from tgp.engine import METHODS, coarsen, parse_schedule
from tgp.engine.coarsening import assign_level
from tgp.engine.level_method import RandomKey
from tgp.engine.undirected import make_undirected
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, directed, grid2d, path, with_attributes

LARGEST = np.finfo(np.float64).max


def weigh(block, choices, seed=0):
    """Return the block with a weight of each undirected edge that is drawn from ``choices``."""
    rows, cols = block.edge_index()
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    drawn = np.random.default_rng(seed).choice(choices, (block.num_nodes, block.num_nodes))
    return BlockCSR(block.indptr, block.indices, drawn[low, high], block.node_ptr)


def one_way(block):
    return BlockCSR(block.indptr, block.indices, np.ones(block.num_edges), block.node_ptr)


def clusters(block, schedule):
    levels = coarsen(with_attributes(block), schedule, weight_dtype=np.float64).levels
    return [level.assignment.cluster for level in levels]


MATCHING = ("hem:ratio=0.3", "lv:ratio=0.3", "simmatch:ratio=0.3", "ugc", "affinity", "partition:k=3")


@pytest.mark.parametrize("schedule", [*MATCHING, "bistride", "collapse:ratio=0.3", "lv:sets=neighborhoods"])
def test_tiny_weights_do_not_depend_on_the_other_graphs(schedule):
    alone = weigh(path(12), [5e-324, 1e-320, 1e-310])
    for found, expected in zip(
        clusters(BlockCSR.concat([alone, one_way(directed())]), schedule),
        clusters(alone, schedule),
        strict=True,
    ):
        np.testing.assert_array_equal(found[:12], expected)


def test_undirected_graphs_keep_tiny_weights():
    alone = weigh(path(5), [5e-324])
    both = make_undirected(BlockCSR.concat([one_way(directed()), alone]))
    assert both.take([1]).weight.tobytes() == alone.weight.tobytes()
    mixed = BlockCSR.from_edge_index([[0, 1], [1, 2]], [5e-324, 4e-320])
    assert set(make_undirected(mixed).weight.tolist()) == {0.0, 2e-320}  # one direction: halves


def test_sums_of_parallel_edges_stay_finite():
    block = BlockCSR.from_edge_index([[0, 0, 1, 1], [1, 1, 2, 2]], [1.5e308, 1.5e308, -1.5e308, -1.5e308])
    assert sorted(make_undirected(block).weight.tolist()) == [0.0, 0.0, LARGEST, LARGEST]
    opposite = BlockCSR.from_edge_index([[0, 0, 1, 1], [1, 1, 0, 0]], [1.5e308, 1.5e308, -1.5e308, -1.5e308])
    assert make_undirected(opposite).weight.tolist() == [0.0, 0.0]


RANGES = {
    "huge": [1e300, 1.7e308],
    "tiny": [5e-324, 1e-310],
    "all": [5e-324, 1e-310, 1.0, 1e300],
    "wide": [1e-300, 1e-200, 1.0],
}


@pytest.mark.parametrize("choices", RANGES.values(), ids=RANGES)
@pytest.mark.parametrize(
    "schedule",
    [
        *MATCHING,
        "lv:sets=neighborhoods:ratio=0.3",
        "amg",
        "amg:ratio=0.3",
        "amg:kind=sa",
        "collapse:ratio=0.3",
    ],
)
def test_no_overflow_reaches_the_user(schedule, choices):
    name = schedule.partition(":")[0]
    if not METHODS[name].is_installed:
        pytest.skip(f"{name} is not installed")
    block = with_attributes(weigh(barabasi_albert(300, 2), choices))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = assign_level(block, parse_schedule(schedule)[0], RandomKey(1))
    found.validate(block.node_ptr)
    if "ratio" in schedule and name != "amg":
        assert found.num_supernodes == 90


@pytest.mark.parametrize("unit", [1e59, 1e290, 1e-11, 1e-15, 1e-59, 1e-290])
def test_local_variation_does_not_depend_on_the_unit(unit):
    block, factor = weigh(grid2d(12, 13), [1.0, 2.0, 5.0]), 4.0 ** round(np.log2(unit) / 2)
    scaled = BlockCSR(block.indptr, block.indices, factor * block.weight, block.node_ptr)
    for schedule in ("lv:ratio=0.3", "lv:ratio=0.3:sets=neighborhoods"):
        for found, expected in zip(clusters(scaled, schedule), clusters(block, schedule), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unit", [2.0**900, 2.0**-900])
def test_partitions_do_not_depend_on_the_unit(unit):
    block = weigh(grid2d(12, 13), [1.0, 2.0, 5.0])
    scaled = BlockCSR(block.indptr, block.indices, unit * block.weight, block.node_ptr)
    np.testing.assert_array_equal(clusters(scaled, "partition:k=5")[0], clusters(block, "partition:k=5")[0])
