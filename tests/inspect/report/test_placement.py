"""Places of nodes."""

import numpy as np
import pytest

from tgp.inspect.report.placement import layout, separate


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
