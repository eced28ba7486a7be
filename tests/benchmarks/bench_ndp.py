"""Speed of NDP. Run: ``python tests/benchmarks/bench_ndp.py [--data FOLDER] [--json] [--quick]``.

Wall and processor seconds on one thread, compilation left out; edges are undirected. Small graphs: two
levels through the engine, best of three. Large graphs: one level, once, split into cut and Kron
reduction, with what the run adds to memory at its peak. Every large line carries a calibration from the same minute:
scipy's sparse matrix times vector on the same graph, and (up to 300,000 entries) scipy's ``eigsh`` for the same
eigenvector. ``--data`` adds real graphs from their raw files. Growth exponents are fitted over sizes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from tgp.engine import coarsen
from tgp.engine.kron_reduction import EXACT_WORK, simple_graph
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.ndp import METHOD, NDPParams
from tgp.kernels.kron import eliminate
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import barabasi_albert, grid2d, karate

SMALL = ["MUTAG", "NCI1", "PROTEINS", "ENZYMES", "IMDB-BINARY", "DD", "REDDIT-BINARY"]
MATRICES = {
    "DBLP": "CitationFull/dblp/raw/dblp.npz",
    "Physics": "Coauthor/Physics/raw/ms_academic_phy.npz",
    "Computers": "Amazon/Computers/raw/amazon_electronics_computers.npz",
}


def undirected(pairs: np.ndarray, num_nodes: int) -> BlockCSR:
    return simple_graph(BlockCSR.from_edge_index(pairs, num_nodes=num_nodes))


def tu(folder: Path) -> BlockCSR:
    """Read a TU collection from its raw text files."""
    raw = folder / "raw" / folder.name
    pairs = np.loadtxt(f"{raw}_A.txt", delimiter=",", dtype=np.int64) - 1
    graph = np.loadtxt(f"{raw}_graph_indicator.txt", dtype=np.int64) - 1
    return BlockCSR.from_edge_index(pairs.T, node_ptr=offsets(np.bincount(graph)))


def real_graphs(root: Path) -> Iterator[tuple[str, BlockCSR]]:
    """Return the large graphs whose files exist."""
    for name, place in MATRICES.items():
        if (root / place).exists():
            z = np.load(root / place)
            parts = (z["adj_data"], z["adj_indices"], z["adj_indptr"])
            matrix = sp.csr_matrix(parts, shape=tuple(z["adj_shape"])).tocoo()
            yield name, undirected(np.stack([matrix.row, matrix.col]).astype(np.int64), matrix.shape[0])
    road = root / "RoadGraphs" / "NY.gr.xz"
    if road.exists():
        with lzma.open(road) as file:
            numbers = np.array(file.read().split()[2:], dtype=np.int64)
        yield "road NY", undirected(numbers[2:].reshape(-1, 2).T - 1, int(numbers[0]))
    social = root / "SNAP" / "soc-slashdot0902-undirected.csv.gz"
    if social.exists():
        with gzip.open(social, "rt") as file:
            pairs = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64).T - 1
        yield "Slashdot", undirected(pairs, int(pairs.max()) + 1)


def timed(function: Any, *args: Any) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    out = function(*args)
    return out, time.perf_counter() - wall, time.process_time() - cpu


def memory() -> tuple[int, int]:
    """Return the resident bytes now and at the peak since the last :func:`reset_peak`; zeros if unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0, 0
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return 1024 * int(found["VmRSS"]), 1024 * int(found["VmHWM"])


def reset_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def calibrate(block: BlockCSR) -> dict[str, float]:
    """Return the seconds of scipy for one product with a vector and for one eigenvector of the same matrix."""
    shape = (block.num_nodes, block.num_nodes)
    degree = np.maximum(np.diff(block.indptr), 1) ** -0.5
    value = degree[block.rows()] * degree[block.indices]
    matrix = sp.csr_matrix((value, block.indices, block.indptr), shape=shape)
    x = np.ones(block.num_nodes)
    out = {"matvec": min(timed(matrix.dot, x)[2] for _ in range(5))}
    if matrix.nnz <= 300_000:
        out["eigsh"] = timed(lambda: eigsh(matrix, 1, which="SA", tol=1e-6, v0=x + np.arange(len(x)) % 2))[2]
    return out


def small(name: str, block: BlockCSR) -> dict[str, Any]:
    runs = [timed(coarsen, block, "ndp*2") for _ in range(3)]
    cpu = min(run[2] for run in runs)
    sizes = [level.block.num_nodes for level in runs[0][0].levels]
    return {
        "graph": name,
        "graphs": block.num_graphs,
        "nodes": [block.num_nodes, *sizes],
        "wall": min(run[1] for run in runs),
        "cpu": cpu,
        "graphs_per_second": block.num_graphs / cpu,
        "matvec": calibrate(block)["matvec"],
    }


def large(name: str, block: BlockCSR) -> dict[str, Any]:
    params = NDPParams()
    reset_peak()
    before = memory()[0]
    assignment, wall_cut, cut = timed(METHOD.assign, block, params, RandomKey())
    coarse, wall_kron, kron = timed(METHOD.connect, block, assignment, params)
    peak = memory()[1] - before
    kept = assignment.cluster >= 0
    rows, cols = block.edge_index()
    left = eliminate(
        block.indptr, block.indices, block.weights_or_ones(), block.node_ptr, kept, EXACT_WORK, 2
    )[2]
    return {
        "graph": name,
        "nodes": [block.num_nodes, coarse.num_nodes],
        "edges": [block.num_edges // 2, coarse.num_edges // 2],
        "cut_share": float((kept[rows] != kept[cols]).mean()),
        "exact": not left.any(),
        "wall": wall_cut + wall_kron,
        "cut_cpu": cut,
        "kron_cpu": kron,
        "peak_mb": peak / 1e6,
        "bytes_per_edge": peak / max(block.num_edges // 2, 1),
        **calibrate(block),
    }


def synthetic(quick: bool) -> Iterator[tuple[str, str, BlockCSR]]:
    for side in (100, 316, 1000) if not quick else (100, 316):
        yield "grid", f"grid {side} x {side}", grid2d(side, side)
    for n in (10_000, 30_000, 100_000) if not quick else (3_000, 10_000):
        yield "barabasi", f"BA {n:,}, m=5", barabasi_albert(n, 5)


def exponent(lines: list[dict[str, Any]], key: str) -> float:
    """Return the slope of log seconds over log edges."""
    edges = np.log([line["edges"][0] for line in lines])
    return float(np.polyfit(edges, np.log([max(line[key], 1e-4) for line in lines]), 1)[0])


def show(line: dict[str, Any]) -> None:
    if "graphs_per_second" in line:
        print(
            f"{line['graph']:<16} {line['graphs']:>6} graphs  {line['graphs_per_second']:>9,.0f} graphs/s  "
            f"wall {line['wall']:.3f} s  nodes {line['nodes']}  matvec {1e3 * line['matvec']:.2f} ms"
        )
        return
    eig = f"  eigsh {line['eigsh']:.2f} s" if "eigsh" in line else ""
    print(
        f"{line['graph']:<16} {line['edges'][0]:>9,} edges -> {line['edges'][1]:>9,}  cut {line['cut_share']:.3f}  "
        f"cut {line['cut_cpu']:.2f} s + kron {line['kron_cpu']:.2f} s (wall {line['wall']:.2f})  "
        f"{'exact' if line['exact'] else 'walks'}  +{line['peak_mb']:.0f} MB  matvec {1e3 * line['matvec']:.2f} ms{eig}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the real graphs")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--quick", action="store_true", help="smaller graphs")
    args = parser.parse_args()
    coarsen(karate(), "ndp*2")
    lines: list[dict[str, Any]] = []

    def add(line: dict[str, Any]) -> None:
        lines.append(line)
        if not args.json:
            show(line)

    growth: dict[str, list[dict[str, Any]]] = {}
    for family, name, block in synthetic(args.quick):
        add(large(name, block))
        growth.setdefault(family, []).append(lines[-1])
    if args.data is not None:
        for name in SMALL[: 2 if args.quick else None]:
            if (args.data / "TUDataset" / name).is_dir():
                add(small(name, tu(args.data / "TUDataset" / name)))
        if not args.quick:
            for name, block in real_graphs(args.data):
                add(large(name, block))
    slopes = {f: {k: exponent(part, k) for k in ("cut_cpu", "kron_cpu")} for f, part in growth.items()}
    if args.json:
        print(json.dumps({"lines": lines, "exponents": slopes}, indent=1))
        return
    for family, slope in slopes.items():
        print(f"growth of {family}: cut ~ edges^{slope['cut_cpu']:.2f}, kron ~ edges^{slope['kron_cpu']:.2f}")


if __name__ == "__main__":
    main()
