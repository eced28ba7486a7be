"""Kernels treat the graphs of a block independently, for any order, split and number of threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.csr import entries
from tests.reference.graclus import graclus
from tgp.engine import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import METHODS
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, erdos_renyi, toy_block
from tgp.testing.strategies import blocks, schedules

seeds = st.integers(0, 2**63 - 1)


def adjacency(block):
    rows = [[] for _ in range(block.num_nodes)]
    for u, v, w in entries(block):
        rows[u].append((v, w))
    return rows


def flat(hierarchy, graph):
    """Return all arrays of one graph of the hierarchy, with local ids."""
    out = []
    node_ptr = hierarchy.node_ptr
    for level in hierarchy.levels:
        mine = slice(node_ptr[graph], node_ptr[graph + 1])
        if level.assignment.cluster is None:
            local = level.assignment.soft[mine]
        else:
            cluster = level.assignment.cluster[mine]
            local = np.where(cluster < 0, -1, cluster - level.assignment.super_ptr[graph])
        block = level.block.take([graph])
        weight = None if block.weight is None else block.weight.tolist()
        out.append((local.tolist(), block.edge_index().tolist(), weight))
        node_ptr = level.block.node_ptr
    return out


@given(blocks(), st.sampled_from(["random", "degree", "index"]), st.booleans(), seeds, st.integers(0, 9))
def test_matching_equals_the_reference_per_graph(block, order, two_hop, seed, level):
    method = METHODS["graclus"]
    assignment = method.assign(block, method.params(order=order, two_hop=two_hop), RandomKey(seed, level))
    assignment.validate(block.node_ptr)
    for g in range(block.num_graphs):
        expected = graclus(adjacency(block.take([g])), order, seed, level, two_hop)
        lo, hi = block.node_ptr[g], block.node_ptr[g + 1]
        assert (assignment.cluster[lo:hi] - assignment.super_ptr[g]).tolist() == expected


def test_matching_equals_the_reference_beyond_one_window():
    block = erdos_renyi(1, 0.0)
    big = barabasi_albert(4500, 2, seed=4)
    both = BlockCSR.concat([block, big, block])
    method = METHODS["graclus"]
    assignment = method.assign(both, method.params(), RandomKey(11, 3))
    expected = graclus(adjacency(big), "random", 11, 3)
    assert (assignment.cluster[1:-1] - 1).tolist() == expected


SIGNED = ("graclus", "nopool", "random")
"""Methods that accept negative weights. Other methods reject them or are slow with them."""


def inputs(min_graphs):
    """Return a strategy for a block and a schedule: any methods, or negative weights and methods that accept them."""
    positive = st.tuples(blocks(min_graphs=min_graphs, negative=False), schedules())
    return positive | st.tuples(blocks(min_graphs=min_graphs), schedules(SIGNED))


@given(inputs(1), seeds, st.data())
def test_result_of_a_graph_does_not_depend_on_the_other_graphs(given, seed, data):
    block, schedule = given
    together = coarsen(block, schedule, seed).validate()
    order = data.draw(st.permutations(range(block.num_graphs)))
    shuffled = coarsen(block.take(order), schedule, seed).validate()
    for place, g in enumerate(order):
        alone = coarsen(block.take([g]), schedule, seed).validate()
        assert flat(together, g) == flat(shuffled, place) == flat(alone, 0)


@given(inputs(2), st.data())
def test_result_does_not_depend_on_the_split_into_blocks(given, data):
    block, schedule = given
    cut = data.draw(st.integers(1, block.num_graphs - 1))
    whole = coarsen(block, schedule, 3)
    halves = [coarsen(block.take(range(*ends)), schedule, 3) for ends in ((0, cut), (cut, block.num_graphs))]
    for i, level in enumerate(whole.levels):
        joined = BlockCSR.concat([half.levels[i].block for half in halves])
        np.testing.assert_array_equal(level.block.indptr, joined.indptr)
        np.testing.assert_array_equal(level.block.indices, joined.indices)
        np.testing.assert_array_equal(level.block.node_ptr, joined.node_ptr)
        assert (level.block.weight is None) == (joined.weight is None)
        if joined.weight is not None:
            assert level.block.weight.tobytes() == joined.weight.tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_result_does_not_depend_on_the_number_of_threads(weighted, threads):
    block = toy_block(weighted=weighted)
    expected = [flat(coarsen(block, "graclus*2,random", 5), g) for g in range(block.num_graphs)]
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(
                lambda g: flat(coarsen(block.take([g]), "graclus*2,random", 5), 0), range(block.num_graphs)
            )
            assert list(parts) == expected
    finally:
        numba.set_num_threads(before)


CALLS = """
import numpy as np
from tgp.engine import coarsen
from tgp.engine.contraction import postprocess
from tgp.kernels import contract, csr, matching
from tgp.testing.graphs import toy_block

for weighted in (False, True):
    block = toy_block(weighted=weighted)
    for op in ("sum", "mean"):
        levels = [("graclus", {"connect_red_op": op, "degree_norm": True, "edge_weight_norm": True})]
        coarsen(block, [*levels, "random", "graclus:order=degree"], np.int64(3))
    postprocess(block.take([5, 0, 9]).validate())
    for op in (csr.SUM, csr.MAX):
        csr.symmetrise(*block.arrays(), op)
        csr.coalesce(*block.arrays(), op)
    csr.components(block.indptr, block.indices, block.node_ptr)
    csr.is_symmetric(block.indptr, block.indices)
"""

ONE_SIGNATURE = """
kernels = [f for m in (contract, csr, matching) for f in vars(m).values() if hasattr(f, "signatures")]
called = [f for f in kernels if f.signatures]
assert len(called) >= 16, len(called)
many = {f.py_func.__name__: f.signatures for f in called if len(f.signatures) > 1}
assert not many, many
"""


def test_kernels_compile_once():
    """Each kernel that Python calls is compiled for one signature, for all options and with or without weights."""
    # The first process compiles helpers for several signatures. The second process loads all kernels from the cache, so
    # that only signatures that Python called are registered.
    subprocess.run([sys.executable, "-c", CALLS], check=True)
    subprocess.run([sys.executable, "-c", CALLS + ONE_SIGNATURE], check=True)
