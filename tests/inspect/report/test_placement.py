"""Places of nodes."""

import numpy as np
import pytest

from tgp.inspect.report.placement import backbone, layout, separate


def path(n):
    return np.stack([np.arange(n - 1), np.arange(1, n)])


def test_a_path_is_a_straight_line_of_unit_steps():
    places = layout(path(12), 12)
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    np.testing.assert_allclose(steps, 1.0, atol=0.05)
    assert np.ptp(places[:, 1]) < 0.05 * np.ptp(places[:, 0])


def test_a_cycle_is_round():
    n = 16
    places = layout(np.stack([np.arange(n), (np.arange(n) + 1) % n]), n)
    radius = np.linalg.norm(places - places.mean(0), axis=1)
    assert radius.std() < 0.02 * radius.mean()


def test_leaves_of_a_star_do_not_coincide():
    places = layout(np.stack([np.zeros(20, int), np.arange(1, 21)]), 21)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + 9 * np.eye(21)
    assert apart.min() > 0.05


def test_components_do_not_overlap():
    parts = [path(5) + 5 * i for i in range(6)]
    places = layout(np.concatenate(parts, axis=1), 30)
    boxes = [(places[5 * i : 5 * i + 5].min(0), places[5 * i : 5 * i + 5].max(0)) for i in range(6)]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert (low > other_high).any() or (other_low > high).any()


def test_places_do_not_depend_on_edge_directions():
    edges = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]])
    np.testing.assert_array_equal(layout(edges, 5), layout(edges[::-1], 5))


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_graphs_without_edges(count):
    places = layout(np.zeros((2, 0), int), count)
    assert places.shape == (count, 2) and np.isfinite(places).all()
    assert len(np.unique(places.round(6), axis=0)) == count


def test_separate_moves_only_close_points():
    places = np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]])
    moved = separate(places, 1.0)
    assert np.linalg.norm(moved[0] - moved[1]) > 0.9
    np.testing.assert_array_equal(moved[2], places[2])


def grid(side):
    nodes = np.arange(side * side).reshape(side, side)
    pairs = [(nodes[:, :-1], nodes[:, 1:]), (nodes[:-1], nodes[1:])]
    return np.concatenate([np.stack([a.reshape(-1), b.reshape(-1)]) for a, b in pairs], axis=1)


def communities(count, size, seed=0):
    """Return dense communities that are joined by many random edges, so that all nodes are a few edges apart."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(count), size)
    low, high = np.triu_indices(count * size, 1)
    chance = np.where(group[low] == group[high], 0.6, 0.03)
    kept = rng.random(len(low)) < chance
    return np.stack([low[kept], high[kept]]), group


def test_backbone_keeps_all_edges_of_spacious_graphs():
    assert backbone(grid(15), 225).all() and backbone(path(200), 200).all()
    pairs = np.stack(np.triu_indices(20, 1))
    assert backbone(pairs, 20).all(), "a small graph"


def test_backbone_of_a_tangle_connects_it_with_few_edges():
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges, group = communities(8, 20)
    chosen = backbone(edges, 160)
    assert 159 <= chosen.sum() < 0.3 * edges.shape[1]
    low, high = edges[:, chosen]
    assert connected_components(coo_array((np.ones(len(low)), (low, high)), shape=(160, 160)))[0] == 1
    inside, before = (group[low] == group[high]).mean(), (group[edges[0]] == group[edges[1]]).mean()
    assert inside > 0.9 > before, "edges with common neighbours are preferred"


def test_communities_of_a_tangle_are_apart():
    edges, group = communities(6, 20)
    places = layout(edges, 120)
    centres = np.stack([places[group == g].mean(0) for g in range(6)])
    nearest = np.linalg.norm(places[:, None] - centres[None], axis=-1).argmin(1)
    assert (nearest == group).mean() > 0.9


def test_large_components_are_placed_like_small_ones():
    """The components with more nodes than ``_MANY`` take fewer steps."""
    places = layout(grid(22), 484)
    low, high = grid(22)
    lengths = np.linalg.norm(places[low] - places[high], axis=1)
    assert lengths.std() < 0.15 * lengths.mean()
