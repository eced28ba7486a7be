"""Speed of the engine compared with scipy. Run: ``python tests/benchmarks/bench_engine.py``.

Every figure is the best of several runs after a warm-up; edges are undirected. The first line is a
fixed piece of numpy work, so that figures of different machines and hours can be compared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from tgp.engine import coarsen, parse_schedule
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.graclus import METHOD as GRACLUS
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import barabasi_albert, grid2d

PARAMS = GRACLUS.params()
SCHEDULE = parse_schedule("graclus*3")


def best(function: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of the fastest of ``runs`` calls, after one warm-up call."""
    function()
    times = []
    for _ in range(runs):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def molecules(count: int, seed: int = 0) -> BlockCSR:
    """Return random trees of 30 to 50 nodes with up to five additional edges each."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 51, count)
    ptr = offsets(sizes)
    graph = np.repeat(np.arange(count), sizes)
    local = np.arange(ptr[-1]) - ptr[graph]
    child = np.flatnonzero(local)
    parent = ptr[graph[child]] + (rng.random(len(child)) * local[child]).astype(np.int64)
    extra = np.repeat(np.arange(count), 5)
    ends = ptr[extra] + (rng.random((2, len(extra))) * sizes[extra]).astype(np.int64)
    edges = np.concatenate([np.stack([child, parent]), ends[:, ends[0] != ends[1]]], axis=1)
    return BlockCSR.from_edge_index(np.concatenate([edges, edges[::-1]], axis=1), node_ptr=ptr)


def scattered(block: BlockCSR, seed: int = 0) -> BlockCSR:
    """Return the same graph with randomly numbered nodes."""
    order = np.random.default_rng(seed).permutation(block.num_nodes)
    return BlockCSR.from_edge_index(order[block.edge_index()], num_nodes=block.num_nodes)


def neighbours(count: int, k: int = 5, seed: int = 0) -> BlockCSR:
    """Return the graph of the ``k`` nearest neighbours of random points, with randomly numbered nodes."""
    points = np.random.default_rng(seed).random((count, 3))
    _, near = cKDTree(points).query(points, k=k + 1)
    rows, cols = np.repeat(np.arange(count), k), near[:, 1:].ravel()
    keys = np.unique(np.concatenate([rows * count + cols, cols * count + rows]))
    return BlockCSR.from_edge_index(np.stack([keys // count, keys % count]), num_nodes=count)


def small_graphs(count: int, runs: int) -> dict[str, float]:
    """Return the graphs per second for three levels, with one thread and with two."""
    block = molecules(count)
    units = [block.take(range(lo, min(lo + count // 8, count))) for lo in range(0, count, count // 8)]
    one = best(lambda: coarsen(block, SCHEDULE), runs)
    with ThreadPoolExecutor(2) as pool:
        two = best(lambda: list(pool.map(partial(coarsen, schedule=SCHEDULE), units)), runs)
    graph = block.take([0])
    edges = graph.edge_index()
    convert = best(
        lambda: [BlockCSR.from_edge_index(edges, num_nodes=graph.num_nodes) for _ in range(500)], runs
    )
    single = best(lambda: [coarsen(graph, SCHEDULE) for _ in range(500)], runs)
    return {
        "graphs_per_s": count / one,
        "graphs_per_s_two_threads": count / two,
        "convert_one_graph_us": convert / 500 * 1e6,
        "coarsen_one_graph_us": single / 500 * 1e6,
    }


def large_graph(block: BlockCSR, runs: int) -> dict[str, float]:
    """Measure one level of one graph: matching, contraction, and the product of scipy for the same matrices.

    Ours has sorted rows, scipy's has not. ``S.T`` of a CSR matrix is CSC, so scipy turns ``A`` round first; with ``S.T``
    given as CSR it need not, which is the second figure. The gather alone (the supernode of each entry's target) is
    what no method can do without. All on one thread, in processor time: a busy machine disturbs it less.
    """
    used = partial(best, clock=time.process_time)
    assignment = GRACLUS.assign(block, PARAMS, RandomKey(0, 0))
    with_weight = BlockCSR(block.indptr, block.indices, np.ones(block.num_edges), block.node_ptr)
    n, k = block.num_nodes, assignment.num_supernodes
    a = sp.csr_matrix((with_weight.weight, block.indices, block.indptr.astype(np.int32)), shape=(n, n))
    s = sp.csr_matrix((np.ones(n), assignment.cluster, np.arange(n + 1, dtype=np.int32)), shape=(n, k))
    matching = used(lambda: GRACLUS.assign(block, PARAMS, RandomKey(0, 0)), runs)
    contraction = used(lambda: GRACLUS.connect(block, assignment, PARAMS), runs)
    weighted = used(lambda: GRACLUS.connect(with_weight, assignment, PARAMS), runs)
    product = used(lambda: s.T @ a @ s, max(runs // 2, 1))
    turned = s.T.tocsr()
    prepared = used(lambda: turned @ a @ s, max(runs // 2, 1))
    gather = used(lambda: assignment.cluster.take(block.indices), runs)
    edges = block.num_edges / 2
    return {
        "edges_m": edges / 1e6,
        "matching_ms": matching * 1e3,
        "contraction_ms": contraction * 1e3,
        "weighted_contraction_ms": weighted * 1e3,
        "gather_alone_ms": gather * 1e3,
        "scipy_ms": product * 1e3,
        "scipy_transposed_given_ms": prepared * 1e3,
        "m_edges_per_s": edges / (matching + contraction) / 1e6,
        "weighted_contraction_vs_scipy": product / weighted,
        "vs_scipy_transposed_given": prepared / weighted,
    }


def calibration(runs: int) -> dict[str, float]:
    """Return the milliseconds of a gather of four million values and of a matrix product."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**20, 2**20).astype(np.int32)
    index = rng.integers(0, 2**20, 2**22).astype(np.int32)
    square = rng.random((400, 400))
    return {
        "gather_ms": best(lambda: table[index], runs) * 1e3,
        "matmul_ms": best(lambda: square @ square, runs) * 1e3,
    }


def main() -> None:
    """Print one line of figures per case, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="nodes of the large graphs")
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    side = int(options.nodes**0.5)
    grid = grid2d(side, side)
    report = {
        "calibration": calibration(options.runs),
        "small graphs, graclus*3": small_graphs(options.graphs, options.runs),
        "grid, in order": large_graph(grid, options.runs),
        "grid, scattered": large_graph(scattered(grid), options.runs),
        "nearest neighbours, scattered": large_graph(neighbours(options.nodes), options.runs),
        "Barabasi-Albert": large_graph(barabasi_albert(options.nodes // 10, 5, seed=0), options.runs),
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for name, figures in report.items():
        print(name)
        for key, value in figures.items():
            print(f"    {key:32s} {value:14,.1f}")
    print("\n| graph | edges | gather | tgp | scipy | scipy, `S.T` given | times faster | `S.T` given |")
    print("|---|---|---|---|---|---|---|---|")
    columns = ("gather_alone_ms", "weighted_contraction_ms", "scipy_ms", "scipy_transposed_given_ms")
    ratios = ("weighted_contraction_vs_scipy", "vs_scipy_transposed_given")
    for name, figures in list(report.items())[2:]:
        values = [f"{figures['edges_m']:.2f} M", *(f"{figures[key]:.3g}" for key in columns)]
        print("|", " | ".join([name, *values, *(f"{figures[key]:.1f}" for key in ratios)]), "|")


if __name__ == "__main__":
    main()
