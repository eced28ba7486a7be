"""Balanced partitions: exact numbers of clusters, bounds of their sizes, small cuts, any number of threads."""

import importlib.util
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.bench_families import FAMILIES
from tests.kernels.test_bisection import rows_of
from tests.reference import partition as reference
from tgp.engine import bisection, coarsen, threads
from tgp.engine.bisection import SizeLimits, prepare_graphs
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods import partition as method
from tgp.engine.methods.partition import METHOD, PartitionParams, check_backend
from tgp.errors import MissingPackageError, ParameterError
from tgp.ragged import BlockCSR
from tgp.testing.graphs import cycle, grid2d, isolated, path, star, toy_block
from tgp.testing.strategies import blocks

BACKENDS = {"metis": "pymetis", "kaminpar": "kaminpar"}


def needs(backend):
    """Return a parameter of a backend, skipped if its package is not installed."""
    absent = importlib.util.find_spec(BACKENDS[backend]) is None
    return pytest.param(backend, marks=pytest.mark.skipif(absent, reason=f"{backend} is not installed"))


ALL_BACKENDS = ["tgp", needs("metis"), needs("kaminpar")]


def assign(block, seed=0, **params):
    return METHOD.assign(block, PartitionParams(**params), RandomKey(seed))


def cut_of(block, cluster):
    """Return the number of edges between clusters of an undirected graph."""
    return int((cluster[block.rows()] != cluster[block.indices]).sum()) // 2


def check_sizes(block, assignment, k, imbalance):
    """Check that each graph has exactly ``k`` clusters, or as many as nodes, with sizes within the documented bounds."""
    for g, nodes in enumerate(np.diff(block.node_ptr).tolist()):
        lo, hi = block.node_ptr[g : g + 2]
        sizes = np.unique(assignment.cluster[lo:hi], return_counts=True)[1]
        expected = min(k, nodes)
        assert len(sizes) == np.diff(assignment.super_ptr)[g] == expected
        if nodes:
            least, most = reference.limits(nodes, expected, imbalance)
            assert least <= sizes.min() and sizes.max() <= most


# Numbers and sizes of clusters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ALL_BACKENDS)
@settings(deadline=None)
@given(
    block=blocks(),
    k=st.integers(1, 9),
    imbalance=st.sampled_from([0.0, 0.03, 0.25, 0.9]),
    seed=st.integers(0, 3),
)
def test_number_and_sizes_of_clusters(backend, block, k, imbalance, seed):
    check_sizes(block, assign(block, seed, k=k, imbalance=imbalance, backend=backend), k, imbalance)


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("k", [2, 13, 64])
def test_number_and_sizes_on_large_graphs(family, k):
    block = FAMILIES[family](3000)
    check_sizes(block, assign(block, k=k), k, 0.03)


@pytest.mark.parametrize(
    "block", [isolated(300), star(301), path(257), BlockCSR.concat([star(150), isolated(7)])]
)
@pytest.mark.parametrize("imbalance", [0.0, 0.03])
def test_difficult_graphs_are_balanced(block, imbalance):
    check_sizes(block, assign(block, k=7, imbalance=imbalance), 7, imbalance)


@given(st.integers(1, 500), st.integers(1, 60), st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.33, 0.99]))
def test_limits(nodes, k, imbalance):
    k = min(k, nodes)
    limits = SizeLimits.of(np.array([nodes]), np.array([k]), imbalance)
    assert (limits.least[0], limits.most[0]) == reference.limits(nodes, k, imbalance)


@pytest.mark.parametrize("ratio", [0.07, 0.25, 0.55, 1.0])
def test_ratio(ratio):
    block = toy_block()
    found = assign(block, ratio=ratio)
    share = Fraction(str(ratio))
    expected = [-(-share * n // 1) for n in np.diff(block.node_ptr).tolist()]
    assert np.diff(found.super_ptr).tolist() == expected


def test_supernodes_are_numbered_by_their_smallest_node():
    cluster = assign(grid2d(8, 9), k=5).cluster
    first = [int(np.argmax(cluster == c)) for c in range(5)]
    assert first == sorted(first)


# Cuts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "k", "cut"),
    [(path(64), 8, 7), (cycle(60), 6, 6), (grid2d(8, 4), 2, 4), (grid2d(32, 4), 8, 28), (path(5), 5, 4)],
)
def test_cuts_that_are_known(block, k, cut):
    assert cut_of(block, assign(block, k=k).cluster) == cut


@settings(deadline=None)
@given(blocks(max_graphs=1, max_nodes=9), st.integers(0, 2))
def test_bisections_of_small_graphs_are_nearly_optimal(block, seed):
    """All 8 trials of a small graph: the cut cannot be below the smallest one, and moves of one node do not improve it."""
    graphs = prepare_graphs(block)
    nodes = graphs.num_nodes
    if nodes < 2:
        return
    cluster = assign(block, seed, k=2, imbalance=0.0).cluster.tolist()
    rows, size = rows_of(graphs, 0), cluster.count(0)
    found = reference.cut(rows, cluster)
    assert found >= min(reference.smallest_cut(rows, n) for n in {size, nodes - size})
    if nodes % 2:
        larger = int(cluster.count(1) > size)
        assert all(reference.gain(rows, cluster, v) <= 0 for v in range(nodes) if cluster[v] == larger)


def test_two_cliques_are_separated_by_weight():
    """A heavy edge between equal halves of a path stays inside a cluster."""
    edges = np.array([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
    weight = np.array([1.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0])
    block = BlockCSR.from_edge_index(
        np.concatenate([edges, edges[::-1]], 1), np.concatenate([weight, weight])
    )
    cluster = assign(block, k=2, imbalance=0.3).cluster
    assert cluster[3] == cluster[4]
    assert cut_of(block, cluster) == 1


def test_repeats_do_not_add_to_the_cut_of_a_bisection():
    block = FAMILIES["grid"](8000)
    cuts = [cut_of(block, assign(block, k=2, repeats=n).cluster) for n in (1, 2, 4)]
    assert cuts == sorted(cuts, reverse=True)
    assert cuts[-1] < cuts[0]


@pytest.mark.parametrize("scale", [1.0, 3.7e-5, 1e300, 1e-300])
def test_sums_of_weights_are_exact(scale):
    rng = np.random.default_rng(3)
    block = grid2d(12, 11)
    values = scale * rng.random(block.num_nodes)
    weight = values[block.rows()] + values[block.indices]
    graphs = prepare_graphs(BlockCSR(block.indptr, block.indices, weight, block.node_ptr))
    exact = sum(map(Fraction, graphs.weight.tolist()))
    assert exact == Fraction(float(graphs.weight.sum())) == Fraction(float(graphs.weight[::-1].cumsum()[-1]))
    # A power of two, so that squares of the weights are finite and positive.
    unit = int(np.rint(np.log2(graphs.weight[0]) - np.log2(weight[0])))
    assert np.allclose(graphs.weight, np.ldexp(weight, unit), rtol=1e-10, atol=0.0)
    assert (unit == 0) == (1e-150 < scale < 1e150)
    assert np.isfinite(graphs.weight**2).all() and (graphs.weight**2).all()


def test_whole_weights_do_not_change():
    block = grid2d(9, 9)
    weight = (1.0 + np.arange(81)[block.rows()]) * (1.0 + np.arange(81)[block.indices])
    graphs = prepare_graphs(BlockCSR(block.indptr, block.indices, weight, block.node_ptr))
    assert graphs.weight.tolist() == weight.tolist()


# Independence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{"k": 6}, {"ratio": 0.1, "repeats": 2}])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_threads_do_not_change_the_result(params, count, monkeypatch):
    block = BlockCSR.concat([FAMILIES["BA"](2000), FAMILIES["grid"](1500), toy_block()])
    expected = assign(block, **params).cluster
    monkeypatch.setattr(threads, "num_threads", lambda: count)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    assert (assign(block, **params).cluster == expected).all()


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_graphs_do_not_depend_on_their_block(backend):
    block = BlockCSR.concat([path(300), toy_block(), grid2d(15, 16), star(200)])
    whole = assign(block, 3, k=5, backend=backend)
    for g in range(block.num_graphs):
        lo, hi = block.node_ptr[g : g + 2]
        alone = assign(block.take([g]), 3, k=5, backend=backend).cluster
        assert alone.tolist() == (whole.cluster[lo:hi] - whole.super_ptr[g]).tolist()


def test_the_seed_changes_the_result():
    block = grid2d(30, 30)
    assert len({tuple(assign(block, seed, k=4).cluster.tolist()) for seed in range(4)}) > 1


def test_coarsening_is_used(monkeypatch):
    """A large graph is coarsened before it is divided; without coarsening the cut of nearest neighbours is larger."""
    block = FAMILIES["kNN"](12000)
    cuts = [cut_of(block, assign(block, seed, k=8).cluster) for seed in range(3)]
    monkeypatch.setattr(bisection, "_COARSE_NODES", 10**9)
    flat = [cut_of(block, assign(block, seed, k=8).cluster) for seed in range(3)]
    assert sum(cuts) < 0.8 * sum(flat)


def test_moves_of_single_nodes_lower_the_cut(monkeypatch):
    block = FAMILIES["kNN"](1500)
    cuts = [cut_of(block, assign(block, seed, k=8).cluster) for seed in range(3)]
    monkeypatch.setattr(method, "_refine_clusters", lambda graphs, found, limits: found)
    without = [cut_of(block, assign(block, seed, k=8).cluster) for seed in range(3)]
    assert all(a <= b for a, b in zip(cuts, without, strict=True)) and sum(cuts) < sum(without)


# Backends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_missing_backend_names_the_extra(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, BACKENDS[backend], None)
    with pytest.raises(MissingPackageError, match=BACKENDS[backend]) as caught:
        assign(path(4), k=2, backend=backend)
    assert f"tgp-coarsen[{backend}]" in caught.value.hint


@pytest.mark.parametrize("backend", [needs("metis"), needs("kaminpar")])
def test_backends_find_small_cuts(backend):
    block = grid2d(40, 40)
    ours, theirs = (cut_of(block, assign(block, k=8, backend=name).cluster) for name in ("tgp", backend))
    assert 0.7 * theirs < ours < 1.4 * theirs
    weighted = BlockCSR(block.indptr, block.indices, np.full(block.num_edges, 0.3), block.node_ptr)
    assert cut_of(block, assign(weighted, k=8, backend=backend).cluster) < 1.4 * ours


def stand_in(backend, calls):
    """Return a module that records the seed and the graph of each call, and puts all nodes into the first cluster."""

    def record(seed, indptr, indices, weight, k):
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        calls.append((seed, sorted(zip(rows.tolist(), list(indices), list(weight), strict=True)), k))
        return np.zeros(len(indptr) - 1, np.int32)

    if backend == "metis":
        return SimpleNamespace(
            Options=SimpleNamespace,
            part_graph=lambda k, xadj, adjncy, eweights, options: (
                0,
                record(options.seed, xadj, adjncy.tolist(), eweights.tolist(), k),
            ),
        )

    def read(path, form):
        lines = [[int(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
        (nodes, edges, weighted), rows = lines[0], lines[1:]
        assert (len(rows), sum(map(len, rows)), weighted) == (nodes, 4 * edges, 1)
        indptr = np.cumsum([0, *(len(row) // 2 for row in rows)])
        return indptr, [j - 1 for row in rows for j in row[::2]], [w for row in rows for w in row[1::2]]

    seeds = []
    solver = SimpleNamespace(compute_partition=lambda graph, k, imbalance: record(seeds[-1], *graph, k))
    return SimpleNamespace(
        reseed=seeds.append,
        load_graph=read,
        GraphFileFormat=SimpleNamespace(METIS="metis"),
        default_context=lambda: None,
        KaMinPar=lambda threads, context: solver,
    )


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_backends_get_simple_graphs_and_their_clusters_are_repaired(backend, monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, BACKENDS[backend], stand_in(backend, calls))
    edges = np.array([[0, 1, 2, 3, 4, 2, 0], [1, 2, 3, 4, 5, 2, 1]])  # a path with a loop and a repeated edge
    block = BlockCSR.concat([BlockCSR.from_edge_index(edges, np.arange(1.0, 8.0)), path(7), path(3)])
    for key in (RandomKey(4, 0), RandomKey(4, 1), RandomKey(5, 0)):
        found = METHOD.assign(block, PartitionParams(k=3, imbalance=0.0, backend=backend), key)
        check_sizes(block, found, 3, 0.0)
    assert len(calls) == 6 and {k for _, _, k in calls} == {3}  # the last graph has as many nodes as clusters
    seeds = [seed for seed, _, _ in calls]
    assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 3
    ends = [(i, i + 1) for i in range(5)]
    weight = np.array([4.0, 1.0, 1.5, 2.0, 2.5])  # half of the sum of all stored weights
    given = {(i, j): w for i, j, w in calls[0][1]}
    assert given.keys() == {*ends, *((j, i) for i, j in ends)}
    for reverse in (False, True):
        ratio = [given[(j, i) if reverse else (i, j)] for i, j in ends] / weight
        assert np.allclose(ratio, ratio[0], rtol=1e-6)
    assert {w for _, _, w in calls[1][1]} == {1} and len(calls[1][1]) == 12


def test_default_backend_imports_no_optional_package():
    code = (
        "import sys; from tgp.engine import coarsen; from tgp.testing.graphs import path; "
        "coarsen(path(9), 'partition:k=2'); print([m for m in ('pymetis', 'kaminpar', 'torch') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    with pytest.raises(KeyError):
        check_backend("scotch")


# Parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 0}, "k is out of range"),
        ({"k": True}, "k is out of range"),
        ({"ratio": 0.0}, "ratio is out of range"),
        ({"ratio": 1.5}, "ratio is out of range"),
        ({"imbalance": 1.0}, "imbalance is out of range"),
        ({"imbalance": -0.1}, "imbalance is out of range"),
        ({"imbalance": float("nan")}, "imbalance is out of range"),
        ({"repeats": 0}, "repeats is out of range"),
        ({"backend": "scotch"}, "backend is unknown"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ParameterError, match=message):
        PartitionParams(**values)


def test_schedules_and_coarse_graphs():
    level = coarsen(grid2d(4, 2), "partition:k=2:count_edges=true").levels[0]
    assert level.block.edge_index().tolist() == [[0, 1], [1, 0]]
    assert level.block.weight.tolist() == [2.0, 2.0]


def test_bound_has_the_exact_number_of_supernodes():
    sizes = GraphSizes(np.array([3, 100]), np.array([4, 300]), np.array([2, 9]))
    assert METHOD.bound(sizes, PartitionParams(k=16)).nodes.tolist() == [3, 16]
    assert METHOD.bound(sizes, PartitionParams(ratio=0.5)).nodes.tolist() == [2, 50]
