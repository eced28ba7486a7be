"""Collapse of dominated nodes: equal to a plain reference, exact sizes, one core for all seeds, independent of threads and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.engine.test_hem import component_sizes, hub_graphs, local_clusters, rows_of
from tests.reference import collapse as reference
from tests.reference import hem
from tgp.engine import coarsen, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.collapse import METHOD, CollapseParams, _merge_dominated, _share_neighbours
from tgp.engine.pair_matching import draw_codes
from tgp.engine.undirected import make_undirected
from tgp.kernels import csr
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, cycle, erdos_renyi, grid2d, isolated, path, star, toy_block
from tgp.testing.strategies import blocks

RATIOS = (0.7, 0.45, 0.1)
SEEDS = st.integers(0, 5)


@st.composite
def dense_blocks(draw):
    """Return random graphs in which many nodes are dominated, some of them after others."""
    sizes = draw(st.lists(st.integers(2, 14), min_size=1, max_size=2))
    return BlockCSR.concat(
        [erdos_renyi(n, draw(st.sampled_from([0.15, 0.3, 0.6])), seed=draw(st.integers(0, 999))) for n in sizes]
    )  # fmt: skip


@st.composite
def hubs_with_loops(draw):
    """Draw hubs with long rows and leaves with short ones. Some nodes have self loops."""
    block = draw(hub_graphs())
    loops = np.flatnonzero(np.random.default_rng(draw(st.integers(0, 99))).random(block.num_nodes) < 0.3)
    edges = np.concatenate([block.edge_index(), [loops, loops]], axis=1)
    return BlockCSR.from_edge_index(edges, num_nodes=block.num_nodes)


GRAPHS = blocks(max_graphs=3) | dense_blocks() | hubs_with_loops()


def core_sizes(block, seed):
    """Return the number of nodes of each component after all dominated nodes are merged."""
    graphs = make_undirected(block)
    label, component_ptr = csr.components(graphs.indptr, graphs.indices, graphs.node_ptr)
    sizes = np.bincount(label, minlength=component_ptr[-1])
    code = draw_codes(graphs, RandomKey(seed), 0)
    found = _merge_dominated(graphs, _share_neighbours(graphs, None), label, sizes, code)
    cluster = np.arange(graphs.num_nodes) if found is None else found.cluster
    return component_sizes(graphs, cluster)[1].tolist()


# Equal to the reference --------------------------------------------------------------------------------------------


@given(GRAPHS)
def test_shares_equal_fractions(block):
    graphs = make_undirected(block)
    found = dict(
        zip(map(tuple, graphs.edge_index().T.tolist()), _share_neighbours(graphs, None), strict=True)
    )
    for g in range(graphs.num_graphs):
        low, expected = int(graphs.node_ptr[g]), reference.shares(hem.undirected(rows_of(graphs, g)))
        for u, row in expected.items():
            for v, share in row.items():
                assert found[low + u, low + v] == float(share)


@given(GRAPHS, SEEDS)
def test_one_level_equals_the_reference(block, seed):
    found = METHOD.assign(block, CollapseParams(), RandomKey(seed, 1))
    expected = [reference.merge_once(rows_of(block, g), seed, 1) for g in range(block.num_graphs)]
    assert local_clusters(block, found) == expected


@given(GRAPHS, SEEDS)
def test_nested_levels_equal_the_reference(block, seed):
    found = METHOD.assign_levels(block, CollapseParams(ratios=RATIOS), RandomKey(seed), len(RATIOS))
    expected = [
        reference.merge_to_ratios(rows_of(block, g), seed, 0, RATIOS) for g in range(block.num_graphs)
    ]
    below = block
    for number, assignment in enumerate(found):
        assert local_clusters(below, assignment) == [levels[number] for levels in expected]
        below = BlockCSR(np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr)  # fmt: skip


@given(GRAPHS)
def test_the_core_has_one_size_and_no_dominated_node(block):
    """Dominated nodes can be removed in any order: the graphs that remain are isomorphic."""
    sizes = core_sizes(block, 0)
    assert all(core_sizes(block, seed) == sizes for seed in (1, 2, 3))
    for g in range(block.num_graphs):
        near = hem.undirected(rows_of(block, g))
        code = hem.codes(len(near), 7, 0, 0)
        merged = {u for u, _ in reference.collapse(near, code, set(near), len(near))}
        assert not reference.dominators(near, code, set(near) - merged)


# Known levels ------------------------------------------------------------------------------------------------------


def test_leaves_trees_and_cliques_become_one_node_and_cycles_stay():
    clique = BlockCSR.from_edge_index(np.argwhere(~np.eye(6, dtype=bool)).T)
    assert core_sizes(BlockCSR.concat([star(9), path(50), clique, cycle(3)]), 0) == [1, 1, 1, 1]
    assert core_sizes(BlockCSR.concat([cycle(4), cycle(11), grid2d(3, 5)]), 0) == [4, 11, 15]


def test_a_cycle_with_tails_keeps_the_cycle():
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (2, 6)]
    block = BlockCSR.from_edge_index(np.array(edges + [(v, u) for u, v in edges]).T)
    cluster = coarsen(block, "collapse:nodes=4").levels[0].assignment.cluster
    assert cluster.tolist() == [0, 1, 2, 3, 0, 0, 2]


def test_one_level_of_a_star_is_its_centre_and_isolated_nodes_stay():
    level = coarsen(BlockCSR.concat([star(20), isolated(3)]), "collapse").levels[0]
    assert np.diff(level.assignment.super_ptr).tolist() == [1, 3]
    assert coarsen(isolated(4), "collapse:ratio=0.1").levels[0].block.num_nodes == 4


def test_a_long_path_takes_as_many_sweeps_as_it_has_nodes():
    assert coarsen(path(100_001), "collapse:nodes=1").levels[0].block.num_nodes == 1


# Exact sizes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("ratio", [0.6, 0.07])
def test_every_component_has_the_exact_size(family, ratio):
    block = FAMILIES[family](1200)
    cluster = coarsen(block, f"collapse:ratio={ratio}").levels[0].assignment.cluster
    nodes, supernodes = component_sizes(block, cluster)
    assert supernodes.tolist() == [hem.kept(int(n), ratio) for n in nodes]


@given(GRAPHS, st.integers(1, 12))
def test_number_of_nodes(block, nodes):
    level = coarsen(block, [("collapse", {"nodes": nodes})]).levels[0]
    _, component_ptr = csr.components(block.indptr, block.indices, block.node_ptr)
    least, most = np.diff(component_ptr), np.diff(block.node_ptr)
    assert np.diff(level.assignment.super_ptr).tolist() == np.clip(nodes, least, most).tolist()


def test_small_components_stay_as_they_are():
    block = BlockCSR.concat([path(4), grid2d(6, 6)])
    joined = BlockCSR(block.indptr, block.indices, None, np.array([0, block.num_nodes]))
    cluster = coarsen(joined, "collapse:ratio=0.25:keep_small=4").levels[0].assignment.cluster
    assert cluster[:4].tolist() == [0, 1, 2, 3]
    assert len(np.unique(cluster[4:])) == 9


# Independence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["collapse*2", "collapse:ratios=0.5/0.2"])
@pytest.mark.parametrize("count", [2, 4])
def test_threads_do_not_change_the_result(schedule, count, monkeypatch):
    block = BlockCSR.concat([barabasi_albert(600, 2, seed=2), grid2d(20, 20), erdos_renyi(200, 0.05, seed=1)])
    expected = [level.assignment.cluster.tolist() for level in coarsen(block, schedule).levels]
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    assert [level.assignment.cluster.tolist() for level in coarsen(block, schedule).levels] == expected


@pytest.mark.parametrize("params", [CollapseParams(), CollapseParams(ratio=0.4)])
def test_graphs_do_not_depend_on_their_block(params):
    block = BlockCSR.concat([star(9), grid2d(5, 5), *toy_block().split(), barabasi_albert(60, 2)])
    whole = METHOD.assign(block, params, RandomKey(3))
    for g, clusters in enumerate(local_clusters(block, whole)):
        assert METHOD.assign(block.take([g]), params, RandomKey(3)).cluster.tolist() == clusters


@given(GRAPHS, SEEDS, st.sampled_from(["collapse", "collapse:ratio=0.4"]))
def test_weights_directions_and_self_loops_have_no_effect(block, seed, schedule):
    edges = block.edge_index()
    loops = np.tile(np.arange(block.num_nodes), (2, 1))
    both = np.concatenate([edges, edges[::-1], loops], axis=1)
    other = BlockCSR.from_edge_index(both, weight=np.zeros(both.shape[1]), node_ptr=block.node_ptr)
    found = [coarsen(b, schedule, seed=seed).levels[0].assignment.cluster.tolist() for b in (block, other)]
    assert found[0] == found[1]
