"""The k-means kernel compared with a plain reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import kmeans as reference
from tgp.kernels import kmeans


def run(points, k, ptr=None, *, seed=0, level=0, restarts=10, max_rounds=100):
    points = np.ascontiguousarray(points, dtype=np.float64)
    ptr = np.array([0, len(points)]) if ptr is None else np.asarray(ptr)
    out = np.full(len(points), -1, np.int32)
    graphs = np.arange(len(ptr) - 1)
    kmeans.kmeans_graphs(points, points.shape[1], ptr, graphs, k, seed, level, restarts, max_rounds, out)
    return out


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equals_the_reference(data):
    """Use coordinates from a small grid, so that some points coincide and some distances are equal."""
    k = data.draw(st.integers(1, 5))
    n = data.draw(st.integers(k, 14))
    dims = data.draw(st.integers(1, 3))
    values = data.draw(st.lists(st.integers(-3, 3), min_size=n * dims, max_size=n * dims))
    points = np.array(values, float).reshape(n, dims) / 3
    seed, level = data.draw(st.integers(0, 2**40)), data.draw(st.integers(0, 3))
    if len(np.unique(points, axis=0)) < k:
        return  # fewer distinct points than clusters: the result is not determined
    label = run(points, k, seed=seed, level=level, restarts=3)
    assert np.array_equal(label, reference.kmeans(points, k, seed, level, restarts=3))
    assert set(label) == set(range(k))


def test_separated_clusters_are_found():
    points = [[5.0, 0], [0, 0], [5.1, 0], [0, 0.1], [0, 9], [0.1, 0]]
    assert run(points, 3).tolist() == [0, 1, 0, 1, 2, 1]


def test_first_candidate_wins_ties_in_spite_of_rounding():
    points = np.array([[-1.0], [0.0], [1.0]])
    expected = run(points, 2).tolist()
    for noise in (1e-13, -1e-13):
        noisy = points.copy()
        noisy[1] += noise
        assert run(noisy, 2).tolist() == expected


@pytest.mark.parametrize("distinct", [1, 2])
def test_no_cluster_is_empty_even_with_few_distinct_points(distinct):
    points = np.repeat(np.arange(distinct, dtype=float), 4)[:, None]
    label = run(points, 3)
    assert sorted(set(label)) == [0, 1, 2]


def test_no_cluster_is_empty_after_one_round():
    points = np.random.default_rng(0).normal(size=(60, 2))
    assert set(run(points, 9, restarts=1, max_rounds=1)) == set(range(9))


def test_more_restarts_are_not_worse():
    points = np.random.default_rng(1).normal(size=(80, 2))

    def inertia(label):
        return sum(((points[label == c] - points[label == c].mean(0)) ** 2).sum() for c in set(label))

    costs = [inertia(run(points, 6, restarts=r)) for r in (1, 3, 20)]
    assert costs[0] >= costs[1] >= costs[2]


def test_result_does_not_depend_on_the_position_in_the_block():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(20, 3)), rng.normal(size=(31, 3))
    one = run(np.concatenate([a, b]), 4, [0, 20, 51])
    two = run(np.concatenate([b, a]), 4, [0, 31, 51])
    assert np.array_equal(one[:20], two[31:])
    assert np.array_equal(one[20:], two[:31])
    assert np.array_equal(one[:20], run(a, 4))
