"""Places, colours and edges of graphs at all levels."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import tgp
from tgp.inspect.report.level_graphs import LevelGraph, choose_neighbourhood, largest_owners, simple_edges
from tgp.inspect.report.palette import COLOURS, LOOKS
from tgp.inspect.report.pictures import node_radius, pooled_pictures
from tgp.inspect.report.scene import graph_scenes
from tgp.store import StoreReader
from tgp.testing.stores import build_store, random_table


def test_edges_occur_once_without_loops_and_with_scaled_weights():
    ends = np.array([[0, 1, 2, 2, 1], [1, 0, 2, 1, 2]])
    pairs, strength = simple_edges(ends, np.array([1.0, -2.0, 9.0, 4.0, np.nan]))
    np.testing.assert_array_equal(pairs, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(strength, [0.5, 1.0])
    assert (simple_edges(ends, None)[1] == 1 / 3).all()
    assert (simple_edges(ends, np.full(5, 7.0))[1] == 1 / 3).all(), (
        "equal weights are no reason for thick edges"
    )


def test_supernodes_lie_at_the_mean_of_their_members(store):
    (scene,) = graph_scenes(StoreReader(store), 3)
    first, second = scene.pictures[:2]
    assert scene.sizes == (first.num_nodes, second.num_nodes, *scene.sizes[2:])
    np.testing.assert_array_equal(first.target, np.arange(first.num_nodes) // 2)
    extent = np.ptp(first.places, axis=0).max()
    for head in range(second.num_nodes):
        mean = first.places[2 * head : 2 * head + 2].mean(0)
        assert np.linalg.norm(second.places[head] - mean) < 0.06 * extent
        np.testing.assert_allclose(first.centres[2 * head], second.places[head])
    np.testing.assert_array_equal(second.members[: first.num_nodes // 2], 2)
    assert scene.pictures[-1].last and not first.last


def test_neighbouring_supernodes_have_different_colours(store):
    for scene in graph_scenes(StoreReader(store), 3):
        for before, after in zip(scene.pictures, scene.pictures[1:], strict=False):
            colour = dict(zip(before.target.tolist(), before.colour.tolist(), strict=True))
            assert all(0 <= c < COLOURS for c in colour.values())
            for low, high in after.nodes[after.edges].T.tolist():
                assert colour[low] != colour[high]


def test_thirty_supernodes_all_look_different():
    s = np.repeat(np.eye(30), 2, axis=0)
    ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30])
    coarse = np.zeros((30, 30))
    coarse[ring[0], ring[1]] = 1
    first, last = pooled_pictures(
        np.zeros((2, 0), int), s, coarse, np.random.default_rng(0).random((60, 2)), "any"
    )
    assert len(np.unique(first.look)) == 30 <= LOOKS
    np.testing.assert_array_equal(last.look, first.look[::2])
    assert (last.colour[ring[0]] != last.colour[ring[1]]).all(), "neighbours also differ in their colour"
    few = pooled_pictures(np.zeros((2, 0), int), np.eye(8), np.zeros((8, 8)), np.zeros((8, 2)), "any")[0]
    assert not few.shape.any() and len(np.unique(few.colour)) == 8, "few supernodes need no shapes"


def test_all_kinds_of_assignment(mixed_store):
    reader = StoreReader(mixed_store)
    for graph in range(reader.num_graphs):
        (scene,) = graph_scenes(reader, graph)
        for picture in scene.pictures:
            assert np.isfinite(picture.places).all() and np.isfinite(picture.centres).all()
            assert ((picture.colour >= 0) == (picture.target >= 0)).all()
            assert ((picture.share >= 0) & (picture.share <= 1)).all()
    assert any((p.share < 1).any() for g in range(12) for p in graph_scenes(reader, g)[0].pictures)


def large_store(path):
    build_store(path / "s", random_table(1, min_nodes=1000, max_nodes=1000), num_units=1)
    return StoreReader(path / "s")


def test_a_large_graph_is_drawn_whole_at_its_coarse_levels(tmp_path):
    (scene,) = graph_scenes(large_store(tmp_path), 0)
    assert scene.sizes == (1000, 500, 250, 125)
    assert [p.level for p in scene.pictures] == [2, 3]
    assert [len(p.nodes) for p in scene.pictures] == [250, 125]
    assert (scene.pictures[0].members == 4).all(), "the size of a node is its number of input nodes"
    (crowded,) = graph_scenes(StoreReader(tmp_path / "s"), 0, max_nodes=100)  # the last level has 125
    assert [p.level for p in crowded.pictures] == [3]
    (none,) = graph_scenes(StoreReader(tmp_path / "s"), 0, max_nodes=40)
    assert none.pictures == () and [p.level for p in none.part] == [0, 1, 2, 3]


def test_a_large_graph_also_has_a_neighbourhood_around_a_supernode(tmp_path):
    (scene,) = graph_scenes(large_store(tmp_path), 0)
    part = scene.neighbourhood
    assert (part.hierarchy, part.level, part.supernode) == ("halve", 2, 0), "all have four nodes: the first"
    assert {0, 1, 2, 3} <= {*part.nodes.tolist()} and part.centre in range(4)
    assert [p.level for p in scene.part] == [0, 1, 2, 3]
    assert [p.num_nodes for p in scene.part] == [1000, 500, 250, 125]
    assert len(scene.part[0].nodes) == 160
    for level, picture in enumerate(scene.part):
        np.testing.assert_array_equal(picture.nodes, np.unique(part.nodes // 2**level))
        assert picture.nodes[picture.marked] == part.centre // 2**level
    whole = scene.pictures[0]
    assert whole.nodes[whole.marked] == part.centre // 4, "the ring shows where the neighbourhood lies"


def test_small_graphs_have_no_neighbourhood(store):
    (scene,) = graph_scenes(StoreReader(store), 3)
    assert scene.part == () and scene.neighbourhood is None
    assert all(picture.marked == -1 and picture.core.all() for picture in scene.pictures)


def level(members, ends, owner=None):
    return LevelGraph(
        "any", np.array(members), np.array(ends), None, None if owner is None else np.array(owner)
    )


def test_the_middle_of_a_neighbourhood_is_the_largest_supernode_that_fits():
    path = np.stack([np.arange(199), np.arange(1, 200)])
    owner = np.repeat([0, 1, 2], [100, 40, 60])
    chain = [level(np.ones(200, int), path, owner), level([100, 40, 60], [[0, 1], [1, 2]])]
    part = choose_neighbourhood(chain, "h", 1, 80)
    assert (part.hierarchy, part.level, part.supernode) == ("h", 1, 2)
    np.testing.assert_array_equal(part.nodes, np.arange(120, 200))
    # Nothing fits: the node with most neighbours is the middle. Of equal distances, smaller ids come first.
    part = choose_neighbourhood([level(np.ones(200, int), path)], "h", 0, 4)
    assert part.hierarchy is None and part.centre == 1
    np.testing.assert_array_equal(part.nodes, [0, 1, 2, 3])


def test_a_neighbourhood_prefers_nodes_with_more_edges_into_it():
    # A cycle of four nodes, one of which has many further neighbours.
    ends = [[0, 1, 2, 0, 3, 4, 5, 5], [1, 2, 3, 3, 4, 5, 0, 1]]
    chain = [level(np.ones(6, int), ends, [0, 0, 1, 1, 1, 1]), level([2, 4], [[0], [1]])]
    part = choose_neighbourhood(chain, "h", 1, 3)
    assert part.supernode == 0 and part.nodes.tolist() == [0, 1, 5], "node 5 has two edges to 0 and 1"


def test_a_failed_graph_is_drawn_up_to_its_failure(failed_store):
    reader = StoreReader(failed_store)
    (scene,) = graph_scenes(reader, 3)
    assert scene.reason == "no luck" and scene.sizes == (reader.sizes()[0][3],)
    (picture,) = scene.pictures
    assert picture.last and (picture.target >= 0).all(), "nothing was dropped"


def test_a_large_failed_graph_is_drawn_partly(failed_store):
    (scene,) = graph_scenes(StoreReader(failed_store), 3, max_nodes=4)
    assert scene.pictures == () and scene.reason == "no luck"
    (picture,) = scene.part
    assert len(picture.nodes) == 1 and picture.last


def test_a_level_drawn_alone_has_one_colour(tmp_path):
    (scene,) = graph_scenes(large_store(tmp_path), 0, max_nodes=100)
    (picture,) = scene.pictures
    assert set(picture.look.tolist()) == {0}


def test_bands_connect_nodes_that_share_a_supernode():
    s = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    places = np.arange(8.0).reshape(4, 2)
    first, last = pooled_pictures(np.zeros((2, 0), int), s, np.zeros((3, 3)), places, "any")
    assert first.tied.tolist() == [True, True, False, False]
    assert not last.tied.any()


def test_rows_of_zeros_are_dropped_nodes():
    """This also holds for soft assignments."""
    owner, share = largest_owners(np.array([[0.0, 0.0], [-0.75, 0.25]]))
    assert owner.tolist() == [-1, 0] and share.tolist() == [1.0, 0.75]


def test_many_edges_are_drawn_fainter():
    def faint(count):
        pairs = np.stack(np.triu_indices(count, 1))
        angle = 2 * np.pi * np.arange(count) / count
        places = np.stack([np.cos(angle), np.sin(angle)], 1)
        return pooled_pictures(pairs, np.eye(count), np.eye(count), places, "any")[0].faint

    assert [faint(n) for n in (1, 5, 14, 25, 50)] == [0, 0, 1, 2, 3]


def test_crowded_nodes_are_smaller():
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2)
    assert node_radius(grid, 20.0, 1.0, 8.0) == 6.0
    assert node_radius(grid / 4, 20.0, 1.0, 8.0) == 0.55 * 5
    assert node_radius(grid / 100, 20.0, 1.0, 8.0) == 1.0


@pytest.mark.parametrize("columns", [2, 3])
def test_levels_with_positions_are_drawn_there(columns):
    rng = np.random.default_rng(1)
    graph = Data(
        edge_index=torch.tensor([[0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5]]),
        pos=torch.from_numpy(rng.standard_normal((6, columns)) * ([1.0, 1.0, 1e-3][:columns])),
    )
    plain = tgp.coarsen([graph], "graclus*2", names="h")
    reader = tgp.coarsen([graph], {"h": "graclus*2", "g": "graclus"}, carry="pos=mean").reader
    (scene, other) = graph_scenes(reader, 0, ["h", "g"])
    levels = reader.read_levels(0, "h")
    pos = [graph.pos.numpy(), *(level.fields["pos"].values for level in levels)]
    np.testing.assert_array_equal(other.pictures[0].places, scene.pictures[0].places)
    for picture, given in zip(scene.pictures, pos, strict=True):
        if columns == 2:  # the same map for all levels: one scale, y upwards, and a shift
            scale = np.ptp(scene.pictures[0].places, axis=0) / np.ptp(pos[0], axis=0)
            assert scale[0] == pytest.approx(scale[1])
            wanted = (given - pos[0].mean(0)) * scale[0] * (1, -1)
            np.testing.assert_allclose(picture.places, wanted, atol=1e-12)
        else:  # the third extent is small, so distances are those of the first two coordinates
            whole = np.linalg.norm(given[:, None, :2] - given[None, :, :2], axis=2)
            drawn = np.linalg.norm(picture.places[:, None] - picture.places[None], axis=2)
            first = np.linalg.norm(scene.pictures[0].places[0] - scene.pictures[0].places[1])
            scale = first / np.linalg.norm(pos[0][0, :2] - pos[0][1, :2])
            np.testing.assert_allclose(drawn, scale * whole, rtol=1e-2, atol=1e-2 * scale)
    np.testing.assert_allclose(
        scene.pictures[0].centres[0], scene.pictures[1].places[levels[0].assignment.cluster[0]]
    )
    edges = graph.edge_index.numpy()
    lengths = np.linalg.norm(np.diff(scene.pictures[0].places[edges], axis=0)[0], axis=1)
    assert np.median(lengths) == pytest.approx(1.0)
    moved = graph_scenes(plain.reader, 0)[0].pictures[0].places
    assert not np.allclose(moved, scene.pictures[0].places), "positions are used only if levels have some"


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, 0.0])
def test_positions_that_cannot_be_drawn(value):
    graph = Data(
        edge_index=torch.tensor([[0, 1], [1, 0]]), pos=torch.full((3, 2), value, dtype=torch.float64)
    )
    reader = tgp.coarsen([graph], "graclus", carry="pos=max").reader
    for picture in graph_scenes(reader, 0)[0].pictures:
        assert np.isfinite(picture.places).all()
