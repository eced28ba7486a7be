"""Speed and memory of NMF and EigenPool. Run: ``python tests/benchmarks/bench_nmf_eigen.py --data DIR``.

Small graphs: graphs per second of two levels through the engine, one thread, best of several runs. Large graphs:
seconds and peak memory of one level, each in a process of its own, and the exponents between sizes. The first figures are
fixed pieces of numpy and scipy work, so that machines and hours can be compared. ``cpu`` is process time,
which other programs on the machine disturb less. ``--quality``: time and quality of both methods on families of graphs, with
the rules of large graphs and with those of small graphs.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# After PYTHONPATH, which can name another version of tgp to compare with.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import scipy.sparse as sp

from tests.benchmarks.bench_families import FAMILIES
from tests.benchmarks.bench_methods import graphs as named_graph
from tgp.engine import coarsen, spectral_clusters
from tgp.engine.methods import eigen as eigen_method
from tgp.engine.methods import nmf as nmf_method
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import barabasi_albert, grid2d

SMALL = {"nmf": "nmf:k=8,nmf:k=4", "eigen": "eigen:k=5,eigen:k=3"}
LARGE = {"nmf": "nmf:k=8", "eigen": "eigen:k=8"}


def clocked(function: Callable[[], object], runs: int) -> dict[str, float]:
    """Return the best wall and processor seconds of ``runs`` calls, after one warm-up call."""
    function()
    wall, cpu = [], []
    for _ in range(runs):
        start, work = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - work)
    return {"wall": min(wall), "cpu": min(cpu)}


def calibrate(runs: int) -> dict[str, float]:
    """Return the milliseconds of one sparse product with 10^6 entries, and of 200 dense ``eigh`` of size 30."""
    rng = np.random.default_rng(0)
    matrix = sp.random(100_000, 100_000, 1e-4, format="csr", random_state=rng)
    vector = rng.random(100_000)
    stack = rng.random((200, 30, 30))
    stack = stack + stack.transpose(0, 2, 1)
    return {
        "scipy_matvec_1e6_ms": 1e3 * clocked(lambda: matrix @ vector, runs)["cpu"],
        "numpy_eigh_200x30_ms": 1e3 * clocked(lambda: np.linalg.eigh(stack), runs)["cpu"],
    }


def read_tu(root: Path, name: str) -> BlockCSR:
    """Read a TU dataset from its raw text files."""
    raw = root / "TUDataset" / name / "raw" / name
    graph = np.loadtxt(f"{raw}_graph_indicator.txt", dtype=np.int64) - 1
    edges = np.loadtxt(f"{raw}_A.txt", dtype=np.int64, delimiter=",").T - 1
    ptr = offsets(np.bincount(graph))
    return BlockCSR.from_edge_index(edges, node_ptr=ptr)


def synthetic(count: int = 1000, seed: int = 0) -> BlockCSR:
    """Return random trees of 10 to 40 nodes with a few rings, for machines without the data."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in rng.integers(10, 41, count):
        child = np.arange(1, n)
        parent = (rng.random(n - 1) * child).astype(np.int64)
        rings = rng.integers(0, n, (2, 3))
        edges = np.concatenate([np.stack([child, parent]), rings[:, rings[0] != rings[1]]], axis=1)
        parts.append(BlockCSR.from_edge_index(np.concatenate([edges, edges[::-1]], axis=1), num_nodes=int(n)))
    return BlockCSR.concat(parts)


def small(block: BlockCSR, runs: int) -> dict[str, dict[str, float]]:
    """Return the graphs per second of both methods."""
    out = {}
    for name, schedule in SMALL.items():
        seconds = clocked(lambda schedule=schedule: coarsen(block, schedule), runs)
        out[name] = {f"graphs_per_s_{clock}": block.num_graphs / value for clock, value in seconds.items()}
    return out


def big_graph(kind: str, nodes: int) -> BlockCSR:
    """Return a square grid or a scale-free graph."""
    side = math.isqrt(nodes)
    return grid2d(side, side) if kind == "grid" else barabasi_albert(nodes, 3)


def measure_large(kind: str, nodes: int, schedule: str, queue: Any) -> None:
    """Measure one level of one large graph, and send the seconds and the growth of the peak memory in MB."""
    block = big_graph(kind, nodes)
    coarsen(grid2d(15, 15), schedule)  # compiled kernels are loaded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, work = time.perf_counter(), time.process_time()
    level = coarsen(block, schedule).levels[0]
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queue.put(
        {
            "nodes": block.num_nodes,
            "edges": block.num_edges // 2,
            "wall": time.perf_counter() - start,
            "cpu": time.process_time() - work,
            "peak_growth_mb": (after - before) / 1024,
            "supernodes": level.block.num_nodes,
        }
    )


def large(sizes: list[int]) -> dict[str, Any]:
    """Return seconds and memory by method, kind and size, and the exponent of their growth."""
    context = multiprocessing.get_context("spawn")
    out: dict[str, Any] = {}
    for method, schedule in LARGE.items():
        for kind in ("grid", "scale-free"):
            rows = []
            for nodes in sizes:
                queue = context.Queue()
                worker = context.Process(target=measure_large, args=(kind, nodes, schedule, queue))
                worker.start()
                rows.append(queue.get())
                worker.join()
            entry: dict[str, Any] = {"runs": rows}
            if len(rows) > 1:
                growth = math.log(rows[-1]["nodes"] / rows[0]["nodes"])
                entry["time_exponent"] = math.log(rows[-1]["cpu"] / rows[0]["cpu"]) / growth
            out[f"{method} {kind}"] = entry
    return out


def quality(block: BlockCSR, method: str, k: int, *, old: bool) -> dict[str, float]:
    """Return processor seconds and quality of the clusters (largest entry of each row of ``S``).

    Args:
        block: the graph.
        method: ``nmf`` or ``eigen``.
        k: number of clusters.
        old: use the rules of small graphs.
    """
    limits = (nmf_method, eigen_method, spectral_clusters)
    before = [module.LARGE_GRAPH for module in limits]
    for module in limits:
        module.LARGE_GRAPH = 10**9 if old else module.LARGE_GRAPH
    start = time.process_time()
    level = coarsen(block, f"{method}:k={k}").levels[0].assignment
    seconds = time.process_time() - start
    for module, limit in zip(limits, before, strict=True):
        module.LARGE_GRAPH = limit
    label = level.cluster if level.soft is None else level.soft.argmax(1)
    weight = block.weights_or_ones()
    source = label[block.rows()]
    volume = np.bincount(source, weight, k) / weight.sum()
    outside = np.bincount(source, weight * (source != label[block.indices]), k) / weight.sum()
    return {
        "cpu": seconds,
        "modularity": float(1.0 - outside.sum() - (volume**2).sum()),
        "cut": float(outside.sum()),
        "normalized_cut": float((outside[volume > 0] / volume[volume > 0]).sum()),
        "largest": float(np.bincount(label).max() / len(label)),
    }


def compare_rules(data: Path | None, edges: int, old_limit: int) -> None:
    """Print one line per graph, method and ``k``. Old rules are used for up to ``old_limit`` nodes times ``k``."""
    graphs = {name: FAMILIES[name](edges) for name in ("grid", "BA", "kNN", "SBM", "hubs, 1000 leaves")}
    for name in ("NY", "Physics") if data is not None else ():
        graphs[name] = named_graph(name, data)
    for name, block in graphs.items():
        for method in ("nmf", "eigen"):
            for k in (8, 64):
                for old in (False, True):
                    if not old or block.num_nodes * k <= old_limit:
                        line = quality(block, method, k, old=old)
                        shown = "  ".join(f"{key} {value:.4g}" for key, value in line.items())
                        rules = "old" if old else "new"
                        print(
                            f"{name:18} {block.num_nodes:8,} {method:5} k={k:<3} {rules}  {shown}", flush=True
                        )


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with TUDataset/<name>/raw")
    parser.add_argument("--names", nargs="*", default=["MUTAG", "NCI1"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument(
        "--quality", action="store_true", help="compare the rules of large and of small graphs"
    )
    parser.add_argument("--edges", type=int, default=40_000, help="size of the families with --quality")
    parser.add_argument(
        "--old-limit", type=int, default=2_500_000, help="largest nodes * k with the old rules"
    )
    args = parser.parse_args()
    if args.quality:
        compare_rules(args.data, args.edges, args.old_limit)
        return
    report: dict[str, Any] = {"calibration": calibrate(args.runs), "small": {}}
    if args.data is not None and (args.data / "TUDataset").is_dir():
        blocks = {name: read_tu(args.data, name) for name in args.names}
    else:
        blocks = {"synthetic": synthetic()}
    for name, block in blocks.items():
        report["small"][name] = {"graphs": block.num_graphs, **small(block, args.runs)}
    report["large"] = large(args.sizes) if args.sizes else {}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
