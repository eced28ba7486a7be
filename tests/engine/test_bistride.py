"""Bi-stride levels: equal to searches with sets, connected, independent of the batch and of threads, linear."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import rows_of
from tests.reference import bistride as reference
from tgp.engine import coarsen, threads
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods import bistride
from tgp.engine.methods.bistride import METHOD, BistrideParams
from tgp.errors import InputError, ParameterError
from tgp.kernels import bistride as kernels
from tgp.kernels import csr
from tgp.kernels.mis import BALANCED
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d, isolated, path, star, toy_block
from tgp.testing.strategies import blocks


def kept_of(block):
    """Return the kept nodes of each graph, counted from 0."""
    found = METHOD.assign(block, BistrideParams(), RandomKey())
    return [
        np.flatnonzero(found.cluster[a:b] >= 0).tolist()
        for a, b in zip(block.node_ptr[:-1], block.node_ptr[1:], strict=True)
    ]


def pairs_of(block):
    """Return the edges of a block as a list of pairs."""
    return list(map(tuple, block.edge_index().T.tolist()))


# Equal to the reference --------------------------------------------------------------------------------------------


@given(blocks(max_graphs=4))
def test_kept_nodes_equal_those_of_searches_with_sets(block):
    assert kept_of(block) == [reference.kept_nodes(rows_of(block, g)) for g in range(block.num_graphs)]


@given(blocks(max_graphs=3), st.booleans(), st.sampled_from([1, 2, 32]), st.integers(1, 40))
def test_links_equal_pairs_with_a_common_neighbour(block, keep_edges, span, chunk):
    params = BistrideParams(keep_edges=keep_edges, span=span)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bistride, "_CHUNK", chunk)
        assignment = METHOD.assign(block, params, RandomKey())
        coarse = METHOD.connect(block, assignment, params).validate()
    assert (coarse.weight is None) == (block.weight is None)
    for g, one in enumerate(coarse.split()):
        rows = rows_of(block, g)
        kept = reference.kept_nodes(rows)
        pairs = sorted(reference.links(rows, kept, keep_edges, span))
        assert pairs_of(one) == pairs
        if one.weight is not None:
            expected = reference.link_weights(rows, kept, pairs, keep_edges, span)
            assert one.weight == pytest.approx([expected[pair] for pair in pairs])
            assert (one.symmetry == BALANCED).all()
            back = dict(zip(pairs, one.weight, strict=True))
            assert all(back[u, v] == back[v, u] for u, v in pairs)


@given(blocks(min_graphs=1, max_graphs=1), st.integers(0, 99), st.booleans(), st.sampled_from([1, 32]))
def test_links_of_any_kept_nodes_equal_pairs(block, seed, keep_edges, span):
    """Nodes that are kept by hand are often neighbours, which is rare for those of every second front."""
    is_kept = np.random.default_rng(seed).random(block.num_nodes) < 0.6
    kept, cluster = np.flatnonzero(is_kept).tolist(), np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    assignment = Assignment("hard", np.array([0, len(kept)]), cluster.astype(np.int32))
    coarse = METHOD.connect(block, assignment, BistrideParams(keep_edges=keep_edges, span=span)).validate()
    rows = rows_of(block, 0)
    pairs = sorted(reference.links(rows, kept, keep_edges, span))
    assert pairs_of(coarse) == pairs
    if coarse.weight is not None:
        expected = reference.link_weights(rows, kept, pairs, keep_edges, span)
        assert coarse.weight == pytest.approx([expected[pair] for pair in pairs])


@given(st.integers(3, 40), st.integers(1, 6))
def test_hubs_link_rings(leaves, span):
    """Two hubs share all leaves, so that the leaves, which are kept by hand, are linked through hubs only."""
    edges = np.array([(h, 2 + i) for h in (0, 1) for i in range(leaves)]).T
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    block = BlockCSR.from_edge_index(edges, num_nodes=leaves + 2)
    cluster = np.concatenate([[-1, -1], np.arange(leaves)]).astype(np.int32)
    coarse = METHOD.connect(
        block, Assignment("hard", np.array([0, leaves]), cluster), BistrideParams(span=span)
    )
    assert pairs_of(coarse) == sorted(
        reference.links(rows_of(block, 0), list(range(2, leaves + 2)), span=span)
    )
    assert np.diff(coarse.indptr).tolist() == [min(leaves - 1, 2 * span)] * leaves


def test_links_of_small_graphs_are_the_pattern_of_the_square():
    block = grid2d(7, 9)
    coarse = coarsen(block, "bistride").levels[0]
    matrix = np.zeros((63, 63))
    matrix[tuple(block.edge_index())] = 1
    square = (matrix @ matrix > 0) & ~np.eye(63, dtype=bool)
    kept = np.flatnonzero(coarse.assignment.cluster >= 0)
    assert coarse.block.edge_index().tolist() == np.argwhere(square[np.ix_(kept, kept)]).T.tolist()


# Known levels ------------------------------------------------------------------------------------------------------


def test_a_path_keeps_every_second_node():
    level = coarsen(path(7), "bistride").levels[
        0
    ]  # the seed is node 6, and nodes 1, 3, 5 are fewer than 0, 2, 4, 6
    assert level.assignment.representative.tolist() == [1, 3, 5]
    assert pairs_of(level.block) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_a_star_keeps_its_centre_and_isolated_nodes_are_kept():
    assert kept_of(BlockCSR.concat([star(6), isolated(3), path(1), path(2)])) == [[0], [0, 1, 2], [0], [1]]


def test_the_seed_is_kept_if_both_parities_have_the_same_number_of_nodes():
    assert kept_of(path(6)) == [[1, 3, 5]]


def test_weights_of_many_levels_stay_in_range():
    block = path(600)
    for factor in (1e-25, 1e25):
        heavy = BlockCSR(block.indptr, block.indices, np.full(block.num_edges, factor), block.node_ptr)
        for level in coarsen(heavy, "bistride*6").levels:
            assert ((level.block.weight > 1e-4 * factor) & (level.block.weight < 1e4 * factor)).all()


# Properties --------------------------------------------------------------------------------------------------------


@given(blocks(max_graphs=4))
def test_components_stay_connected_and_lose_half(block):
    level = coarsen(block, "bistride").levels[0]
    before = csr.components(block.indptr, block.indices, block.node_ptr)
    after = csr.components(level.block.indptr, level.block.indices, level.block.node_ptr)
    assert after[1].tolist() == before[1].tolist()
    sizes = np.bincount(before[0], minlength=before[1][-1])
    kept = np.bincount(before[0][level.assignment.cluster >= 0], minlength=before[1][-1])
    assert (kept <= np.maximum(sizes // 2, 1)).all()


@given(blocks(max_graphs=4), st.integers(0, 3))
def test_weights_seeds_and_directions_do_not_change_the_pattern(block, seed):
    expected = coarsen(block, "bistride*2", seed=seed)
    bare = BlockCSR(
        *csr.symmetrise(*block.arrays()[:2], np.empty(0), False, csr.MAX)[:2], None, block.node_ptr
    )
    for old, new in zip(expected.levels, coarsen(bare, "bistride*2").levels, strict=True):
        assert old.assignment.cluster.tolist() == new.assignment.cluster.tolist()
        assert old.block.indices.tolist() == new.block.indices.tolist()


@pytest.mark.parametrize(
    "make", [lambda: grid2d(200, 300), lambda: barabasi_albert(20000, 4)], ids=["grid", "ba"]
)
def test_any_number_of_threads_gives_the_same_levels(make, monkeypatch):
    block = BlockCSR.concat([make(), toy_block(), make()])
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        hierarchy = coarsen(block, "bistride*3")
        found.append(
            [(x.assignment.cluster.tobytes(), x.block.indptr.tobytes(), x.block.indices.tobytes()) for x in hierarchy.levels]
        )  # fmt: skip
    assert found[0] == found[1] == found[2]


def test_searches_reach_each_node_twice(monkeypatch):
    """The published code takes a time that is quadratic in the number of components."""
    pieces = 200
    block = BlockCSR.concat([grid2d(5, 5)] * pieces)
    arrays = block.indptr, block.indices, np.array([0, block.num_nodes])
    expected = METHOD.assign(block, BistrideParams(), RandomKey()).cluster >= 0
    search, reached = kernels._search, []

    def count(*args):
        found = search(*args)
        reached.append(found[0])
        return found

    monkeypatch.setattr(kernels, "_search", count)
    mark, kept = np.zeros((2, block.num_nodes), np.int8)
    kernels.keep_fronts.py_func(*arrays, 0, 1, mark, np.empty(block.num_nodes, np.int32), kept)
    assert reached == [25] * (2 * pieces)
    assert kept.tolist() == expected.tolist()


@given(blocks(max_graphs=3), st.booleans(), st.sampled_from([1, 32]))
def test_the_bound_of_edges_holds(block, keep_edges, span):
    params = BistrideParams(keep_edges=keep_edges, span=span)
    level = coarsen(block, [("bistride", {"keep_edges": keep_edges, "span": span})]).levels[0]
    degree = np.array([np.diff(one.indptr).max(initial=0) for one in block.split()], np.int64)
    sizes = GraphSizes(np.diff(block.node_ptr), np.diff(block.edge_ptr), degree)
    limit = METHOD.bound(sizes, params)
    assert (np.diff(level.block.edge_ptr) <= limit.edges).all()
    assert (np.diff(level.assignment.super_ptr) <= limit.nodes).all()


# Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [0, -3, True, 1.5])
def test_a_wrong_span_is_refused(span):
    with pytest.raises(ParameterError, match="span is out of range"):
        BistrideParams(span=span)


def test_assignments_of_other_methods_are_refused():
    block = path(4)
    pairs = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1, 1], np.int32))
    with pytest.raises(InputError, match="does not keep single nodes"):
        METHOD.connect(block, pairs, BistrideParams())
    with pytest.raises(InputError, match="belongs to another block"):
        METHOD.connect(path(5), pairs, BistrideParams())
