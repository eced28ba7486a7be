"""Speed of NDP. Run: ``python tests/benchmarks/bench_ndp.py [--data FOLDER] [--json] [--quick] [--cuts] [--hard]``.

Wall and processor seconds on one thread, compilation left out; edges are undirected. Small graphs: two
levels through the engine, best of three. Large graphs: one level, once, split into cut and Kron
reduction, with what the run adds to memory at its peak. Every large line carries a calibration from the same minute:
scipy's sparse matrix times vector on the same graph, and (up to 300,000 entries) scipy's ``eigsh`` for the same
eigenvector. ``--data`` adds real graphs from their raw files. Growth exponents are fitted over sizes.

``--cuts`` compares the rules of the cut instead: share of the edges that are cut and processor seconds of both rules, in turns. ``--hard``
times two levels of graphs that need the limits of the reduction: signed, dense and social graphs, with LAPACK's Schur
complement of a matrix of half the nodes beside complete graphs.
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
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import eigsh
from scipy.spatial import cKDTree

from tgp.engine import coarsen
from tgp.engine.kron_blocks import BlockReduction
from tgp.engine.kron_reduction import simple_graph
from tgp.engine.level_method import RandomKey
from tgp.engine.methods.ndp import METHOD, NDPParams
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import barabasi_albert, complete, from_pairs, grid2d, karate

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
    reduction = BlockReduction(
        simple_graph(block), assignment.representative, assignment.super_ptr, np.array([1e-2]), np.ones(1)
    )
    reduction.reduce_range(0, 1)
    return {
        "graph": name,
        "nodes": [block.num_nodes, coarse.num_nodes],
        "edges": [block.num_edges // 2, coarse.num_edges // 2],
        "cut_share": float((kept[rows] != kept[cols]).mean()),
        "exact": not reduction.estimated,
        "wall": wall_cut + wall_kron,
        "cut_cpu": cut,
        "kron_cpu": kron,
        "peak_mb": peak / 1e6,
        "bytes_per_edge": peak / max(block.num_edges // 2, 1),
        **calibrate(block),
    }


def triangular_grid(side: int) -> BlockCSR:
    i = np.arange(side * side).reshape(side, side)
    steps = [(i[:, :-1], i[:, 1:]), (i[:-1], i[1:]), (i[:-1, :-1], i[1:, 1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in steps], axis=1)
    return undirected(pairs, side * side)


def nearest_neighbours(n: int, k: int = 8) -> BlockCSR:
    points = np.random.default_rng(0).random((n, 2))
    found = cKDTree(points).query(points, k + 1)[1][:, 1:]
    return undirected(np.stack([np.repeat(np.arange(n), k), found.ravel()]), n)


def social(n: int, edges: int) -> BlockCSR:
    """Draw a dense graph whose degrees follow a power law, about as Tolokers (11,758 nodes, 519,000 edges)."""
    rng = np.random.default_rng(0)
    share = (np.arange(n) + 10.0) ** -0.6
    share /= share.sum()
    keys = np.empty(0, np.int64)
    while len(keys) < edges:
        ends = np.sort(rng.choice(n, (2 * edges, 2), p=share), axis=1)
        keys = np.unique(np.append(keys, (ends[:, 0] * n + ends[:, 1])[ends[:, 0] < ends[:, 1]]))
    keys = np.sort(rng.choice(keys, edges, replace=False))
    return undirected(np.stack([keys // n, keys % n]), n)


def with_signs(block: BlockCSR, share: float) -> BlockCSR:
    pairs = block.edge_index()
    pairs = pairs[:, pairs[0] < pairs[1]]
    negative = np.random.default_rng(0).random(pairs.shape[1]) < share
    negative[0] = True
    return from_pairs(block.num_nodes, pairs.T, np.where(negative, -1.0, 1.0))


def compare_cuts(name: str, block: BlockCSR) -> dict[str, Any]:
    rows, cols = block.edge_index()
    line: dict[str, Any] = {"graph": name, "nodes": block.num_nodes, "edges": block.num_edges // 2}
    for _ in range(2):
        for rule in ("spectral", "flip"):
            params = NDPParams(cut=rule)
            assignment, _, cpu = timed(METHOD.assign, block, params, RandomKey())
            kept = assignment.cluster >= 0
            line[rule] = {
                "share": float((kept[rows] != kept[cols]).mean()),
                "cpu": cpu,
                "kept": int(kept.sum()),
            }
    return {**line, **calibrate(block)}


def hard(name: str, block: BlockCSR) -> dict[str, Any]:
    line: dict[str, Any] = {"graph": name, "levels": []}
    for number in range(2):
        params = NDPParams()
        assignment, _, cut = timed(METHOD.assign, block, params, RandomKey(0, number))
        coarse, _, kron = timed(METHOD.connect, block, assignment, params)
        line["levels"].append(
            {"edges": [block.num_edges // 2, coarse.num_edges // 2], "cut_cpu": cut, "kron_cpu": kron}
        )
        block = coarse
    if name.startswith("K_"):
        half = int(name.removeprefix("K_").replace(",", "")) // 2
        laplacian = 2.0 * half * np.eye(2 * half) - 1.0
        inner, outer = laplacian[:half, :half], laplacian[:half, half:]
        line["lapack"] = timed(lambda: outer.T @ cho_solve(cho_factor(inner), outer))[2]
    return line


def special(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the lines of ``--cuts`` and ``--hard``."""
    scale = 10 if args.quick else 1
    if args.cuts:
        yield compare_cuts("BA, m=5", barabasi_albert(100_000 // scale, 5))
        yield compare_cuts("kNN", nearest_neighbours(100_000 // scale))
        yield compare_cuts("triangular grid", triangular_grid(447 if scale == 1 else 140))
        for name, block in real_graphs(args.data) if args.data is not None else ():
            if name in ("Physics", "road NY"):
                yield compare_cuts(name, block)
    if args.hard:
        yield hard("BA, one negative edge", with_signs(barabasi_albert(8_000, 5), 0.0))
        yield hard("BA, half negative", with_signs(barabasi_albert(8_000, 5), 0.5))
        for n in (1_500, 3_000) if not args.quick else (1_500,):
            yield hard(f"K_{n:,}", complete(n))
        yield hard("social", social(11_758 // scale, 519_000 // scale))
        if not args.quick:
            yield hard("social, 10^6 edges", social(20_000, 1_000_000))


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
    if "flip" in line:
        rules = "  ".join(
            f"{r} {line[r]['share']:.3f} in {line[r]['cpu']:.2f} s" for r in ("spectral", "flip")
        )
        print(f"{line['graph']:<24} {line['edges']:>9,} edges  {rules}  matvec {1e3 * line['matvec']:.2f} ms")
        return
    if "levels" in line:
        levels = "; ".join(
            f"{x['edges'][0]:,} -> {x['edges'][1]:,} edges, cut {x['cut_cpu']:.2f} s, kron {x['kron_cpu']:.2f} s"
            for x in line["levels"]
        )
        print(
            f"{line['graph']:<24} {levels}" + (f"  LAPACK {line['lapack']:.2f} s" if "lapack" in line else "")
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
    parser.add_argument("--cuts", action="store_true", help="compare the rules of the cut only")
    parser.add_argument("--hard", action="store_true", help="signed, dense and social graphs only")
    args = parser.parse_args()
    coarsen(karate(), "ndp*2")
    coarsen(barabasi_albert(100, 3), "ndp")
    if args.cuts or args.hard:
        found = []
        for line in special(args):
            found.append(line)
            if not args.json:
                show(line)
        if args.json:
            print(json.dumps(found, indent=1))
        return
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
