"""Matching by algebraic distance: equal to plain loops, exact sizes, independent of the batch and of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.engine.test_hem import component_sizes, local_clusters, rows_of
from tests.reference import affinity as reference
from tests.reference import hem
from tgp.engine import coarsen, threads
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.affinity import METHOD, AffinityParams
from tgp.engine.undirected import make_undirected
from tgp.errors import ParameterError
from tgp.kernels import node_vectors
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, from_pairs, grid2d, star, toy_block
from tgp.testing.strategies import blocks

RATIOS = (0.6, 0.35, 0.1)
VECTORS, STEPS = st.sampled_from([1, 3, 8]), st.sampled_from([1, 4, 20])


# Equal to the reference --------------------------------------------------------------------------------------------


@given(blocks(max_graphs=3, max_nodes=10), st.integers(0, 5), VECTORS, STEPS, st.booleans())
def test_one_matching_equals_the_reference(block, seed, vectors, steps, two_hop):
    params = AffinityParams(num_vectors=vectors, num_steps=steps, two_hop=two_hop)
    found = METHOD.assign(block, params, RandomKey(seed, 1))
    score = reference.Scores(vectors, steps, seed, 1)
    expected = [hem.match_once(rows_of(block, g), seed, 1, score, two_hop) for g in range(block.num_graphs)]
    assert local_clusters(block, found) == expected


@given(blocks(max_graphs=3, max_nodes=10), st.integers(0, 5), VECTORS, STEPS, st.booleans())
def test_nested_levels_equal_the_reference(block, seed, vectors, steps, two_hop):
    params = AffinityParams(num_vectors=vectors, num_steps=steps, ratios=RATIOS, two_hop=two_hop)
    found = METHOD.assign_levels(block, params, RandomKey(seed), len(RATIOS))
    few, score = 0.3 if two_hop else 0.05, reference.Scores(vectors, steps, seed, 0)
    expected = [
        hem.match_to_ratios(rows_of(block, g), seed, 0, RATIOS, score, few) for g in range(block.num_graphs)
    ]
    below = block
    for number, assignment in enumerate(found):
        assert local_clusters(below, assignment) == [levels[number] for levels in expected]
        below = BlockCSR(np.zeros(assignment.num_supernodes + 1, np.int64), np.zeros(0, np.int32), None, assignment.super_ptr)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_edges_of_weight_zero_are_taken_last(seed):
    rng = np.random.default_rng(seed)
    source, target = np.nonzero(np.triu(rng.random((12, 12)) < 0.4, 1))
    weight = rng.integers(0, 2, len(source)).astype(float)
    block = from_pairs(12, list(zip(source.tolist(), target.tolist(), strict=True)), weight.tolist())
    found = METHOD.assign(block, AffinityParams(num_steps=2, two_hop=False), RandomKey(seed, 1))
    score = reference.Scores(8, 2, seed, 1)
    assert found.cluster.tolist() == hem.match_once(rows_of(block, 0), seed, 1, score, two_hop=False)


@given(blocks(min_graphs=1, max_graphs=1, negative=False), VECTORS, st.integers(0, 99))
def test_one_step_equals_the_reference(block, vectors, seed):
    block = make_undirected(block)
    values = np.random.default_rng(seed).normal(size=(block.num_nodes, vectors))
    out = np.full_like(values, np.nan)
    node_vectors.relax(*block.arrays(), values, 0, block.num_nodes, out)
    assert out.tolist() == reference.step(hem.undirected(rows_of(block, 0)), values.tolist())


# Exact sizes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("ratio", [0.5, 0.07])
def test_every_component_has_the_exact_size(family, ratio):
    block = FAMILIES[family](1500)
    level = coarsen(block, f"affinity:ratio={ratio}").levels[0]
    nodes, supernodes = component_sizes(block, level.assignment.cluster)
    assert supernodes.tolist() == [hem.kept(int(n), ratio) for n in nodes]


def test_a_star_does_not_stall():
    assert coarsen(star(400), "affinity:nodes=3").levels[0].block.num_nodes == 3


# Properties --------------------------------------------------------------------------------------------------------


def planted(groups, size, inside, outside, seed=0):
    """Return a graph of equal groups, with edges inside and between groups at random."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(groups), size)
    chance = np.where(label[:, None] == label[None, :], inside, outside)
    source, target = np.nonzero(np.triu(rng.random(chance.shape) < chance, 1))
    edges = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    return BlockCSR.from_edge_index(edges, num_nodes=len(label)), label


def pure_nodes(block, label, schedule):
    """Return the share of nodes whose supernode contains one group only."""
    cluster = coarsen(block, schedule).levels[0].assignment.cluster
    groups = np.zeros((cluster.max() + 1, label.max() + 1), bool)
    groups[cluster, label] = True
    return (groups.sum(1) == 1)[cluster].mean()


def test_edges_inside_groups_are_merged_first():
    """Half of the edges are between groups, and all weights are equal."""
    block, label = planted(10, 60, 0.2, 0.02)
    assert (block.rows() // 60 != block.indices // 60).mean() > 0.4
    assert pure_nodes(block, label, "affinity:ratio=0.5") > 0.9
    assert pure_nodes(block, label, "hem:ratio=0.5") < 0.75


@given(blocks(min_graphs=2, max_graphs=4), st.integers(0, 3))
def test_graphs_do_not_depend_on_their_batch(block, seed):
    params = AffinityParams(ratios=RATIOS)
    together = METHOD.assign_levels(block, params, RandomKey(seed), 3)
    for g in range(block.num_graphs):
        for joint, single in zip(together, METHOD.assign_levels(block.take([g]), params, RandomKey(seed), 3), strict=True):  # fmt: skip
            assert np.diff(joint.super_ptr)[g] == single.num_supernodes
    first = METHOD.assign_levels(block.take([0]), params, RandomKey(seed), 1)[0].cluster
    assert together[0].cluster[: len(first)].tolist() == first.tolist()


@pytest.mark.parametrize(
    "make", [lambda: grid2d(150, 200), lambda: barabasi_albert(10000, 4)], ids=["grid", "ba"]
)
def test_any_number_of_threads_gives_the_same_levels(make, monkeypatch):
    block = BlockCSR.concat([make(), toy_block(), make()])
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        hierarchy = coarsen(block, "affinity,affinity:ratio=0.2")
        found.append([x.assignment.cluster.tobytes() for x in hierarchy.levels])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["num_vectors", "num_steps"])
@pytest.mark.parametrize("value", [0, -1, True, 2.5])
def test_wrong_numbers_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"{name} is out of range"):
        AffinityParams(**{name: value})
