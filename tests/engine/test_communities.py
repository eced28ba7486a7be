"""Louvain and Leiden: equality with a plain reference, connected communities, sizes, levels of one run."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.reference import communities as reference
from tgp.engine import METHODS, coarsen, parse_schedule
from tgp.engine.level_method import RandomKey
from tgp.errors import GraphError, ParameterError
from tgp.kernels import communities as kernels
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, complete, cycle, from_pairs, grid2d, isolated, star
from tgp.testing.strategies import blocks

NAMES = ("louvain", "leiden")


def levels_of(name, block, num_levels=12, seed=0, **options):
    method = METHODS[name]
    found = method.assign_levels(block, method.params(**options), RandomKey(seed), num_levels)
    return [(level.cluster.tolist(), level.super_ptr.tolist()) for level in found]


def edges_of(block):
    weight = [None] * block.num_edges if block.weight is None else block.weight.tolist()
    return list(zip(*block.edge_index().tolist(), weight, strict=True))


def composed(found):
    cluster = np.arange(len(found[0]))
    for level in found:
        cluster = np.asarray(level, np.int64)[cluster]
        yield cluster


def rounded(block):
    """Return the block with whole weights, whose sums are exact in any order."""
    if block.weight is None:
        return block
    return BlockCSR(block.indptr, block.indices, np.floor(8.0 * np.abs(block.weight) % 64), block.node_ptr)


@pytest.mark.parametrize("name", NAMES)
@given(blocks(), st.integers(0, 2**63 - 1), st.sampled_from([0.4, 1.0, 2.5]), st.none() | st.integers(2, 5))
def test_equals_the_reference(name, block, seed, resolution, max_size):
    block = rounded(block)
    found = levels_of(name, block, seed=seed, resolution=resolution, max_size=max_size)
    for g, graph in enumerate(block.split()):
        expected = reference.levels(
            graph.num_nodes,
            edges_of(graph),
            seed=seed,
            resolution=resolution,
            max_size=max_size,
            leiden=name == "leiden",
        )
        ptr = block.node_ptr
        for number, (cluster, super_ptr) in enumerate(found):
            own = [c - super_ptr[g] for c in cluster[ptr[g] : ptr[g + 1]]]
            assert own == (expected[number] if number < len(expected) else list(range(ptr[g + 1] - ptr[g])))
            ptr = super_ptr


@pytest.mark.parametrize("name", NAMES)
@given(blocks(min_graphs=1, max_graphs=1), st.integers(0, 99), st.sampled_from([0.5, 1.0, 2.0]))
def test_modularity_never_decreases_and_the_last_level_is_final(name, block, seed, resolution):
    block = rounded(block)
    edges, nodes = edges_of(block), block.num_nodes
    found = [level for level, _ in levels_of(name, block, seed=seed, resolution=resolution)]
    partitions = [np.arange(nodes), *composed(found)]
    quality = [reference.modularity(nodes, edges, c.tolist(), resolution) for c in partitions]
    assert all(after >= before - 1e-9 for before, after in pairwise(quality))
    for count in (1, 2):
        fewer = [level for level, _ in levels_of(name, block, count, seed=seed, resolution=resolution)]
        assert fewer[: count - 1] == found[: count - 1]
        assert list(composed(fewer))[-1].tolist() == partitions[-1].tolist()


def is_connected(block, cluster):
    pairs = block.edge_index()
    rows = [{} for _ in range(block.num_nodes)]
    for u, v in pairs.T.tolist():
        rows[u][v] = rows[v][u] = 1.0
    roots = reference.components(rows, list(cluster))
    return len(set(roots)) == len(set(cluster))


@given(blocks(min_graphs=1), st.integers(0, 99), st.sampled_from([0.05, 0.4, 1.0]))
def test_communities_of_leiden_are_connected(block, seed, resolution):
    block = rounded(block)
    if block.weight is not None:
        block = BlockCSR(block.indptr, block.indices, block.weight + 1.0, block.node_ptr)
    for cluster in composed(
        [level for level, _ in levels_of("leiden", block, seed=seed, resolution=resolution)]
    ):
        assert is_connected(block, cluster.tolist())


def test_weights_of_very_different_size_do_not_disconnect_parts():
    # The degrees of the leaves vanish in the sum with the degree of the hub.
    block = from_pairs(6, [(0, 1), (0, 2), (0, 3), (4, 5), (0, 4)], [1e-9, 1e-9, 1e-9, 1e18, 1e12])
    for seed in range(20):
        for cluster in composed([level for level, _ in levels_of("leiden", block, seed=seed)]):
            assert is_connected(block, cluster.tolist())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_size", [2, 7])
def test_max_size_holds_at_every_level(name, max_size):
    block = BlockCSR.concat([grid2d(12, 12), barabasi_albert(200, 3), complete(9)])
    found = [level for level, _ in levels_of(name, block, max_size=max_size)]
    largest = [np.bincount(cluster).max() for cluster in composed(found)]
    assert max(largest) == max_size


@pytest.mark.parametrize("name", NAMES)
def test_known_communities(name):
    cliques = [(6 * k + a, 6 * k + b) for k in range(4) for a in range(6) for b in range(a)]
    bridges = [(6 * k, (6 * k + 6) % 24) for k in range(4)]
    block = BlockCSR.concat(
        [from_pairs(24, cliques + bridges), isolated(3), complete(5), star(6), isolated(0)]
    )
    (level,) = levels_of(name, block, 1)
    assert level[0] == [v // 6 for v in range(24)] + [4, 5, 6] + [7] * 5 + [8] * 6
    assert level[1] == [0, 4, 7, 8, 9, 9]


@pytest.mark.parametrize("name", NAMES)
def test_self_loops_count_in_the_degree(name):
    # Heavy loops make the expected weight between the two nodes larger than the edge.
    light = from_pairs(2, [(0, 1)], [1.0])
    heavy = BlockCSR.from_edge_index([[0, 0, 1, 1], [0, 1, 0, 1]], np.array([9.0, 1.0, 1.0, 9.0]))
    assert levels_of(name, light, 1)[0][0] == [0, 0]
    assert levels_of(name, heavy, 1)[0][0] == [0, 1]


@pytest.mark.parametrize("name", NAMES)
def test_resolution_controls_the_number_of_communities(name):
    counts = [len(set(levels_of(name, grid2d(20, 20), 1, resolution=r)[0][0])) for r in (0.1, 1.0, 10.0)]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("name", NAMES)
def test_levels_do_not_depend_on_weights_of_the_coarse_graphs(name):
    block = grid2d(16, 16)
    plain, normed = (
        coarsen(block, f"{name}{options}*3").levels for options in ("", ":edge_weight_norm=true")
    )
    assert plain[0].block.weight is None and normed[0].block.weight is not None
    for one, two in zip(plain, normed, strict=True):
        assert one.assignment.cluster.tolist() == two.assignment.cluster.tolist()
    assert len(plain[2].assignment.super_ptr) == 2


@pytest.mark.parametrize("name", NAMES)
def test_threads_do_not_change_the_result(name, monkeypatch):
    from tgp.engine import communities, threads

    block = BlockCSR.concat([barabasi_albert(30 + i % 40, 2, i) for i in range(60)])
    one = levels_of(name, block)
    calls = []

    def run(kernel, cost_ptr):
        calls.append(len(cost_ptr))
        threads.run_over_ranges(kernel, cost_ptr)

    monkeypatch.setattr(communities, "run_over_ranges", run)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_MIN_WORK", 1)
    assert levels_of(name, block) == one and calls


@given(blocks(), st.integers(0, 99), st.integers(2, 3))
@example(barabasi_albert(150, 3, seed=0), 0, 2)  # the second iteration changes the communities
def test_further_iterations_equal_the_reference(block, seed, iterations):
    block = rounded(block)
    found = levels_of("leiden", block, 1, seed, iterations=iterations)[0][0]
    for g, graph in enumerate(block.split()):
        expected = list(range(graph.num_nodes))
        for level in reference.levels(
            graph.num_nodes, edges_of(graph), seed=seed, leiden=True, iterations=iterations
        ):
            expected = [level[c] for c in expected]
        own = found[block.node_ptr[g] : block.node_ptr[g + 1]]
        assert len(set(own)) == len(set(expected)) == len(set(zip(own, expected, strict=True)))


def test_a_second_iteration_raises_the_modularity():
    block = barabasi_albert(2000, 5, seed=0)
    once, twice = (
        reference.modularity(2000, edges_of(block), levels_of("leiden", block, 1, iterations=n)[0][0])
        for n in (1, 2)
    )
    assert twice > 1.002 * once
    assert (
        "iterations" not in parse_schedule("leiden").to_json()[0]["params"]
    )  # stores keep their fingerprint
    for value in (0, 101, True, 1.5):
        with pytest.raises(ParameterError, match="iterations is out of range"):
            METHODS["leiden"].params(iterations=value)


@pytest.mark.parametrize("name", NAMES)
def test_refuses_wrong_values(name):
    method = METHODS[name]
    for options in ({"resolution": 0.0}, {"resolution": float("nan")}, {"max_size": 1}):
        with pytest.raises(ParameterError, match=r"out of range: expected"):
            method.params(**options)
    for pairs, weight in ([(0, 1)], [-1.0]), ([(0, 0), (0, 1)], [-1.0, 2.0]):
        with pytest.raises(GraphError, match=rf"{name}: an edge weight is negative"):
            coarsen(BlockCSR.concat([from_pairs(2, [(0, 1)], [1.0]), from_pairs(2, pairs, weight)]), name)
    with pytest.raises(GraphError, match="out of range"):
        coarsen(from_pairs(3, [(0, 1), (1, 2)], [1e308, 1e308]), name)


@pytest.mark.parametrize("size", [0, 1, 5, reference.WINDOW + 3])
def test_visiting_order(size):
    visit = np.full(size + 4, -1, np.int32)
    kernels.visiting_order(np.array([0, 4, size + 4]), 7, 2, 3, visit)
    assert visit[4:].tolist() == [4 + v for v in reference.visiting_order(size, 7, 2, 3)]
    assert sorted(visit.tolist()) == list(range(size + 4))


def test_quality_of_cycles():
    # The best communities of a cycle of n * n nodes are n paths of n nodes: Q = 1 - 2 / n.
    for n in (10, 20, 30):
        block = cycle(n * n)
        for name in NAMES:
            cluster = levels_of(name, block, 1)[0][0]
            assert reference.modularity(n * n, edges_of(block), cluster) > 0.98 * (1 - 2 / n)
