"""Places, colours and edges of graphs at all levels."""

import numpy as np

from tgp.inspect.report.palette import COLOURS
from tgp.inspect.report.scene import graph_scenes, node_radius, pooled_pictures, simple_edges
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


def test_all_kinds_of_assignment(mixed_store):
    reader = StoreReader(mixed_store)
    for graph in range(reader.num_graphs):
        (scene,) = graph_scenes(reader, graph)
        for picture in scene.pictures:
            assert np.isfinite(picture.places).all() and np.isfinite(picture.centres).all()
            assert ((picture.colour >= 0) == (picture.target >= 0)).all()
            assert ((picture.share >= 0) & (picture.share <= 1)).all()
    assert any((p.share < 1).any() for g in range(12) for p in graph_scenes(reader, g)[0].pictures)


def test_large_graph_is_drawn_from_the_first_small_level(tmp_path):
    build_store(tmp_path / "s", random_table(1, min_nodes=1000, max_nodes=1000), num_units=1)
    reader = StoreReader(tmp_path / "s")
    (scene,) = graph_scenes(reader, 0)
    assert scene.sizes == (1000, 500, 250, 125)
    assert [p.level for p in scene.pictures] == [2, 3] and not scene.ball


def test_when_all_levels_are_large_the_surroundings_of_a_node_are_drawn(tmp_path):
    build_store(tmp_path / "s", random_table(1, min_nodes=1000, max_nodes=1000), num_units=1)
    reader = StoreReader(tmp_path / "s")
    (crowded,) = graph_scenes(reader, 0, max_nodes=100)  # the last level has 125
    assert not crowded.ball and [p.level for p in crowded.pictures] == [3]
    (scene,) = graph_scenes(reader, 0, max_nodes=40)
    assert scene.ball
    assert [p.level for p in scene.pictures] == [0, 1, 2, 3]
    assert len(scene.pictures[0].nodes) == 30
    np.testing.assert_array_equal(scene.pictures[1].nodes, np.unique(scene.pictures[0].nodes // 2))


def test_a_failed_graph_is_drawn_up_to_its_failure(failed_store):
    reader = StoreReader(failed_store)
    (scene,) = graph_scenes(reader, 3)
    assert scene.reason == "no luck" and scene.sizes == (reader.sizes()[0][3],)
    (picture,) = scene.pictures
    assert picture.last and (picture.target >= 0).all(), "nothing was dropped"


def test_a_large_failed_graph_is_drawn_partly(failed_store):
    (scene,) = graph_scenes(StoreReader(failed_store), 3, max_nodes=4)
    assert scene.ball and len(scene.pictures[0].nodes) == 3


def test_a_level_drawn_alone_has_one_colour(tmp_path):
    build_store(tmp_path / "s", random_table(1, min_nodes=1000, max_nodes=1000), num_units=1)
    (scene,) = graph_scenes(StoreReader(tmp_path / "s"), 0, max_nodes=100)
    (picture,) = scene.pictures
    assert set(picture.colour.tolist()) == {0}


def test_bands_connect_nodes_that_share_a_supernode():
    s = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    places = np.arange(8.0).reshape(4, 2)
    first, last = pooled_pictures(np.zeros((2, 0), int), s, np.zeros((3, 3)), places, "any")
    assert first.tied.tolist() == [True, True, False, False]
    assert not last.tied.any()


def test_rows_of_zeros_are_dropped_nodes():
    """This also holds for soft assignments."""
    from tgp.inspect.report.scene import _owners

    owner, share = _owners(np.array([[0.0, 0.0], [-0.75, 0.25]]))
    assert owner.tolist() == [-1, 0] and share.tolist() == [1.0, 0.75]


def test_many_edges_are_drawn_fainter():
    def faint(count):
        pairs = np.stack(np.triu_indices(count, 1))
        angle = 2 * np.pi * np.arange(count) / count
        places = np.stack([np.cos(angle), np.sin(angle)], 1)
        return pooled_pictures(pairs, np.eye(count), np.eye(count), places, "any")[0].faint

    assert [faint(n) for n in (1, 5, 14, 25, 60)] == [0, 0, 1, 2, 3]


def test_crowded_nodes_are_smaller():
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2)
    assert node_radius(grid, 20.0, 1.0, 8.0) == 6.0
    assert node_radius(grid / 4, 20.0, 1.0, 8.0) == 0.55 * 5
    assert node_radius(grid / 100, 20.0, 1.0, 8.0) == 1.0
