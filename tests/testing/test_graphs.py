"""Sizes, symmetry and weights of the small graphs."""

import numpy as np
import pytest

from tgp.errors import InputError
from tgp.kernels import csr
from tgp.testing.graphs import (
    KARATE_EDGES,
    TOY_GRAPHS,
    barabasi_albert,
    erdos_renyi,
    from_pairs,
    grid2d,
    karate,
    toy_block,
)

EDGES = {
    "empty": (0, 0),
    "single_node": (1, 0),
    "self_loop": (2, 4),
    "isolated": (4, 0),
    "path": (6, 10),
    "cycle": (6, 12),
    "star": (7, 12),
    "complete": (5, 20),
    "grid2d": (20, 62),
    "karate": (34, 156),
    "disconnected": (7, 10),
    "weighted": (5, 12),
    "directed": (4, 5),
}


@pytest.mark.parametrize("name", TOY_GRAPHS)
def test_sizes_and_symmetry(name):
    block = TOY_GRAPHS[name]().validate()
    assert block.num_graphs == 1
    if name in EDGES:
        assert (block.num_nodes, block.num_edges) == EDGES[name]
    assert csr.is_symmetric(block.indptr, block.indices) == (name != "directed")
    assert (block.weight is not None) == (name == "weighted")


def test_karate():
    networkx = pytest.importorskip("networkx")
    edges = {tuple(sorted(edge)) for edge in networkx.karate_club_graph().edges()}
    assert set(KARATE_EDGES) == edges
    assert len(KARATE_EDGES) == 78
    degree = np.diff(karate().indptr)
    assert (degree[0], degree[33]) == (16, 17)


def test_random_families_are_seeded():
    for make in (erdos_renyi, barabasi_albert):
        assert make(seed=1).indices.tolist() == make(seed=1).indices.tolist() != make(seed=2).indices.tolist()
    assert barabasi_albert(50, 3).num_edges == 2 * 3 * 47
    with pytest.raises(InputError, match="m must be"):
        barabasi_albert(3, 3)


def test_grid_neighbours():
    rows, cols = grid2d(3, 4).edge_index()
    assert set(np.abs(rows - cols).tolist()) == {1, 4}


def test_weighted_block_is_symmetric():
    block = toy_block(weighted=True)
    back = csr.transpose(*block.arrays())
    np.testing.assert_array_equal(back[2], block.weight)
    assert block.weight.min() > 0


def test_pairs_and_weights_must_agree():
    with pytest.raises(InputError, match=r"\[2\], got \[1\]"):
        from_pairs(3, [(0, 1), (1, 2)], [1.0])
