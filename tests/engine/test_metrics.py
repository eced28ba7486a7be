"""Quality figures, compared with a numpy reference and with known values."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import quality
from tgp.engine import coarsen, metrics
from tgp.engine.metrics import choose_kernels, hierarchy_metrics, level_metrics
from tgp.kernels.quality import WORD
from tgp.ragged import Assignment, BlockCSR, Level
from tgp.testing.strategies import blocks


def level_of(block, cluster, super_ptr, coarse=None, **values):
    assignment = Assignment("hard", np.asarray(super_ptr), np.asarray(cluster, np.int32), **values)
    empty = BlockCSR(
        np.zeros(super_ptr[-1] + 1, np.int64), np.zeros(0, np.int32), None, np.asarray(super_ptr)
    )
    return Level("x", block.node_ptr, assignment, coarse if coarse is not None else empty)


@st.composite
def levels(draw):
    """Draw a block, a partial assignment of its nodes, and a coarse block with these supernodes."""
    fine = draw(blocks(negative=False))
    sizes, clusters = [], []
    for count in np.diff(fine.node_ptr):
        k = draw(st.integers(1, 4)) if count else 0
        clusters += [
            draw(st.integers(-1, k - 1)) + (sum(sizes) if sizes else 0) if k else -1 for _ in range(count)
        ]
        sizes.append(k)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    graph = fine.graph_of_node()
    cluster = np.array(clusters, np.int32).reshape(-1)
    cluster = np.where(cluster < starts[graph], -1, cluster) if len(cluster) else cluster
    edges = [
        (draw(st.integers(int(a), int(b) - 1)), draw(st.integers(int(a), int(b) - 1)))
        for a, b in itertools.pairwise(starts)
        if b > a
        for _ in range(draw(st.integers(0, 4)))
    ]
    index = np.array(edges, np.int64).reshape(-1, 2).T
    weight = np.arange(1.0, index.shape[1] + 1) if draw(st.booleans()) else None
    coarse = BlockCSR.from_edge_index(index, weight, node_ptr=starts)
    return fine, level_of(fine, cluster, starts, coarse)


@given(levels())
def test_equals_the_reference(case):
    fine, level = case
    expected = quality.level_metrics(fine, level)
    expected |= {"components_before": quality.components(fine), "components": quality.components(level.block)}
    found = level_metrics(fine, level)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype, name
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_around_the_size_of_a_word_equal_the_reference(weighted, directed):
    rng = np.random.default_rng(0)
    sizes = np.array([1, 62, 63, 64, 65, 200, 0, 63])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for low, size in zip(starts, sizes, strict=False):
        ends = low + rng.integers(0, max(size, 1), (2, size))  # about as many edges as nodes: many components
        parts.append(ends if directed else np.concatenate([ends, ends[::-1]], axis=1))
    edges = np.concatenate(parts, axis=1)
    weight = 1.0 + (edges[0] * edges[1]) % 7 if weighted else None
    fine = BlockCSR.from_edge_index(edges, weight, node_ptr=starts)
    supers = np.concatenate([[0], np.cumsum((sizes + 2) // 3)])
    graph = fine.graph_of_node()
    cluster = supers[graph] + (np.arange(starts[-1]) - starts[graph]) // 3
    some_dropped = np.where(rng.random(len(cluster)) < 0.1, -1, cluster)
    identity = level_of(fine, np.arange(starts[-1]), starts, fine)
    for level in (level_of(fine, some_dropped, supers), identity):
        expected = quality.level_metrics(fine, level)
        expected |= {
            "components_before": quality.components(fine),
            "components": quality.components(level.block),
        }
        found = level_metrics(fine, level)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


def test_kernels_are_chosen_by_the_sizes_of_graphs():
    assert metrics.SMALL_NODES == WORD
    assert choose_kernels(np.array([0, 63, 126]), False) == (True, False)
    assert choose_kernels(np.array([0, 64, 126]), False) == (True, True)
    assert choose_kernels(np.array([0, 64, 128]), False) == (False, True)
    assert choose_kernels(np.array([0, 5]), True) == (False, True)
    assert choose_kernels(np.array([0]), False) == (True, False)


@pytest.mark.parametrize("schedule", ["graclus*3", "kmis*2", "nopool", "random"])
def test_words_of_bits_change_no_bit_of_a_figure(monkeypatch, schedule):
    """Trees and dense graphs of 0 to 70 nodes: with loops, with parallel edges, directed, and with several components."""
    rng = np.random.default_rng(1)
    parts, sizes = [], rng.permutation(np.repeat(np.arange(71), 3))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for number, (low, size) in enumerate(zip(starts, sizes, strict=False)):
        ends = rng.integers(0, max(size, 1), (2, min(size, 1) * rng.integers(0, 12 * size + 1)))
        if number % 5 == 1:  # a tree
            ends = np.stack([np.arange(1, size), np.arange(1, size) // 2]) if size else ends
        both = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1)
        parts.append(low + (ends if number % 5 == 2 else np.repeat(both, 1 + (number % 5 == 3), axis=1)))
    block = BlockCSR.from_edge_index(np.concatenate(parts, axis=1), node_ptr=starts)
    hierarchy = coarsen(block, schedule)
    found = []
    for small in (True, False):
        monkeypatch.setattr(metrics, "choose_kernels", lambda *args, chosen=small: (chosen, True))
        found.append(hierarchy_metrics(block, hierarchy))
    assert schedule != "nopool" or 0 < found[0]["0/symmetric"].sum() < len(sizes)
    for name, values in found[1].items():
        assert values.tobytes() == found[0][name].tobytes(), name


@given(blocks(negative=False))
def test_a_graph_has_the_same_figures_alone(block):
    whole = hierarchy_metrics(block, coarsen(block, "graclus*2"))
    for index in range(block.num_graphs):
        alone = block.take([index])
        for name, values in hierarchy_metrics(alone, coarsen(alone, "graclus*2")).items():
            assert np.array_equal(values[0], whole[name][index], equal_nan=values.dtype.kind == "f"), name


def path(n):
    edges = [(i, i + 1) for i in range(n - 1)]
    return BlockCSR.from_edge_index(np.array(edges + [e[::-1] for e in edges]).T, node_ptr=[0, n])


def test_path_of_four_in_two_pairs():
    block = path(4)
    coarse = BlockCSR.from_edge_index([[0, 1], [1, 0]], node_ptr=[0, 2])
    found = {k: v[0] for k, v in level_metrics(block, level_of(block, [0, 0, 1, 1], [0, 2], coarse)).items()}
    assert (found["dropped"], found["singletons"], found["empty"], found["largest"]) == (0, 0, 0, 2)
    assert (found["components_before"], found["components"], found["isolated"]) == (1, 1, 0)
    assert found["symmetric"] and found["expressive"]
    assert found["cut"] == pytest.approx(1 / 3)
    assert found["modularity"] == pytest.approx(2 / 3 - 2 * (3 / 6) ** 2)
    degrees = np.array([1, 2, 2, 1]) / 6
    assert found["entropy_flat"] == pytest.approx(-(degrees * np.log2(degrees)).sum())
    inner = -2 * (1 / 6) * np.log2(3 / 6)
    leaves = -2 * (1 / 6 * np.log2(1 / 3) + 2 / 6 * np.log2(2 / 3))
    assert found["entropy"] == pytest.approx(inner + leaves)
    assert np.isnan(found["weight_kept"])


def test_contraction_loses_no_weight():
    weighted = BlockCSR(
        *(getattr(path(6), n) for n in ("indptr", "indices")), np.arange(1.0, 11.0), np.array([0, 6])
    )
    hierarchy = coarsen(weighted, "graclus*2")
    found = hierarchy_metrics(weighted, hierarchy)
    assert found["0/weight_kept"][0] == pytest.approx(1)
    assert found["1/weight_kept"][0] == pytest.approx(1)


def test_figures_of_dropped_nodes():
    found = level_metrics(path(3), level_of(path(3), [0, -1, 1], [0, 2]))
    assert found["dropped"][0] == 1
    assert found["cut"][0] == 1
    assert not found["expressive"][0]
    assert found["isolated"][0] == found["components"][0] == 2


def test_rows_of_different_sums_are_not_expressive():
    weight = np.array([1, 1, 0.5], np.float32)
    assert not level_metrics(path(3), level_of(path(3), [0, 0, 0], [0, 1], weight=weight))["expressive"][0]
    equal = np.full(3, 0.5, np.float32)
    assert level_metrics(path(3), level_of(path(3), [0, 0, 0], [0, 1], weight=equal))["expressive"][0]


def test_soft_assignments_have_no_cluster_figures():
    coarse = BlockCSR.from_edge_index([[0, 1], [1, 0]], [1.0, 2.0], node_ptr=[0, 2])
    soft = Assignment("soft", np.array([0, 2]), soft=np.array([[0.5, 0.5], [1, 0], [0, 1]], np.float32))
    found = level_metrics(path(3), Level("x", path(3).node_ptr, soft, coarse))
    assert "cut" not in found and "dropped" not in found
    assert found["expressive"][0] and not found["symmetric"][0]


def test_graphs_without_edges_or_nodes():
    block = BlockCSR.from_edge_index(np.zeros((2, 0), int), node_ptr=[0, 0, 2])
    found = level_metrics(block, level_of(block, [0, 1], [0, 0, 2]))
    assert found["components"].tolist() == [0, 2]
    assert np.isnan(found["cut"]).all() and np.isnan(found["entropy"]).all()
    assert found["largest"].tolist() == [0, 1]
