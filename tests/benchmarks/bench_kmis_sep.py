"""Speed of k-MIS and SEP. Run: ``python tests/benchmarks/bench_kmis_sep.py [--data FOLDER] [--json]``.

Wall time and processor time of the fastest of several runs after a warm-up, on one thread; edges are
undirected. Each line carries a calibration from the same minute: scipy's sparse matrix times
vector on the same graph (for small graphs: on the whole block). ``--data`` adds real graphs, read from
their raw files. Memory is what one run adds at its peak.

Lines of sep have the structural entropy of the groups in bits, for the rule of the paper and for ``cut=optimal``. The growth of
sep is also given in operations: list entries and tournament nodes that the merging visits. ``gather`` is a second calibration,
a random gather over as many float64 numbers as the graph has edges: what its time grows faster than linear is memory access.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import lzma
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

from tgp.engine import coarsen
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import sep
from tgp.engine.methods.kmis import METHOD as KMIS
from tgp.engine.methods.sep import METHOD as SEP
from tgp.kernels import coding_tree
from tgp.ragged import BlockCSR
from tgp.ragged.offsets import offsets
from tgp.testing.graphs import barabasi_albert, grid2d, star

NAMED = [
    ("TUDataset/MUTAG", "MUTAG"),
    ("TUDataset/NCI1", "NCI1"),
    ("TUDataset/PROTEINS", "PROTEINS"),
    ("TUDataset/REDDIT-BINARY", "REDDIT-BINARY"),
]
SPARSE = [("CitationFull/dblp", "DBLP"), ("Coauthor/Physics", "Physics"), ("Amazon/Computers", "Computers")]


def best(function: Callable[[], object], budget: float = 3.0) -> tuple[float, float]:
    """Return the least wall and processor seconds of the calls within the budget, after one warm-up call."""
    function()
    wall, cpu, end = [], [], time.perf_counter() + budget
    while not wall or (time.perf_counter() < end and len(wall) < 7):
        start, used = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return min(wall), min(cpu)


def undirected(pairs: np.ndarray, num_nodes: int, node_ptr: np.ndarray | None = None) -> BlockCSR:
    """Return a graph with both directions of every pair, without self loops and repeated pairs."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    keys = np.unique(both[0] * num_nodes + both[1])
    edges = np.stack([keys // num_nodes, keys % num_nodes])
    return BlockCSR.from_edge_index(
        edges, node_ptr=np.array([0, num_nodes]) if node_ptr is None else node_ptr
    )


def tu_dataset(folder: Path) -> BlockCSR:
    """Read a TU collection from its raw text files."""
    name = folder.name
    pairs = np.fromstring(
        (folder / "raw" / f"{name}_A.txt").read_text().replace(",", " "), sep=" ", dtype=np.int64
    )
    graph = np.fromstring(
        (folder / "raw" / f"{name}_graph_indicator.txt").read_text(), sep=" ", dtype=np.int64
    )
    counts = np.bincount(graph - 1)
    ptr = offsets(counts)
    return undirected(pairs.reshape(-1, 2).T - 1, int(ptr[-1]), ptr)


def sparse_file(folder: Path) -> BlockCSR:
    """Read a node-level graph from its ``npz`` file."""
    [path] = (folder / "raw").glob("*.npz")
    with np.load(path) as z:
        rows = np.repeat(np.arange(len(z["adj_indptr"]) - 1), np.diff(z["adj_indptr"]))
        pairs = np.stack([rows, z["adj_indices"]]).astype(np.int64)
        return undirected(pairs, len(z["adj_indptr"]) - 1)


def road_network(path: Path) -> BlockCSR:
    """Read a PACE graph file."""
    with lzma.open(path) as file:
        values = np.array(file.read().split()[2:], dtype=np.int64)
    return undirected(values[2:].reshape(-1, 2).T - 1, int(values[0]))


def social_network(path: Path) -> BlockCSR:
    """Read an edge list with ids from 1 and one header line."""
    with gzip.open(path, "rt") as file:
        text = file.read().partition("\n")[2].replace("\n", ",")
    values = np.fromstring(text, sep=",", dtype=np.int64)
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2).T - 1
    return undirected(pairs, int(pairs.max()) + 1)


def small_sets(data: Path | None) -> Iterator[tuple[str, BlockCSR]]:
    """Return collections of small graphs by name."""
    rings = grid2d(5, 6)
    yield "4000 grids of 5x6", BlockCSR.concat([rings] * 4000)
    for place, name in NAMED:
        if data is not None and (data / place).is_dir():
            yield name, tu_dataset(data / place)


def big_graphs(data: Path | None) -> Iterator[tuple[str, BlockCSR]]:
    """Return single large graphs by name."""
    for side in (100, 223, 500, 707):
        yield f"grid {side}x{side}", grid2d(side, side)
    for size in (10_000, 30_000, 100_000):
        yield f"scale-free {size} m=5", barabasi_albert(size, 5, seed=0)
    yield "scale-free 100000 m=10", barabasi_albert(100_000, 10, seed=0)
    for size in (10_000, 30_000, 100_000):
        yield f"regular {size}", random_regular(size)
    for size in (20_000, 80_000, 320_000):
        yield f"weighted star {size}", weighted_star(size)
    yield "star 500000", star(500_000)
    if data is None:
        return
    for place, name in SPARSE:
        if (data / place).is_dir():
            yield name, sparse_file(data / place)
    if (path := data / "RoadGraphs" / "NY.gr.xz").is_file():
        yield "NY road network", road_network(path)
    if (path := data / "SNAP" / "soc-slashdot0902-undirected.csv.gz").is_file():
        yield "Slashdot", social_network(path)


def random_regular(size: int) -> BlockCSR:
    """Return the union of three random cycles. Nearly all nodes have six neighbours."""
    rng = np.random.default_rng(0)
    cycles = [rng.permutation(size) for _ in range(3)]
    return undirected(np.concatenate([np.stack([c, np.roll(c, 1)]) for c in cycles], axis=1), size)


def weighted_star(edges: int) -> BlockCSR:
    """Return a star whose edges have distinct weights, in random order."""
    leaves = np.arange(1, edges + 1)
    weight = np.random.default_rng(0).permutation(edges) / edges + 1.0
    ends = np.concatenate([[np.zeros_like(leaves), leaves], [leaves, np.zeros_like(leaves)]], axis=1)
    return BlockCSR.from_edge_index(ends, np.concatenate([weight, weight]))


def matvec(block: BlockCSR) -> float:
    """Return the seconds of one matrix-vector product of scipy, for calibration."""
    matrix = sp.csr_matrix(
        (block.weights_or_ones(), block.indices, block.indptr), shape=(block.num_nodes,) * 2
    )
    x = np.ones(block.num_nodes)
    return best(lambda: matrix @ x, 0.3)[0]


def added_memory(task: Callable[[], object]) -> float:
    """Return the growth of the peak memory in MB during one run; NaN if the system does not report it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left with the allocator is not in use
        Path("/proc/self/clear_refs").write_text("5")
        before, _ = _memory()
        task()
        return _memory()[1] - before
    except (OSError, AttributeError):
        return float("nan")


def _memory() -> tuple[float, float]:
    """Return the memory in use and its peak since the last reset, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return kb["VmRSS"] / 1024, kb["VmHWM"] / 1024


def measure_small(name: str, block: BlockCSR) -> list[dict[str, Any]]:
    """Measure three levels of many graphs."""
    out = []
    for schedule in ("kmis*3", "kmis:order_k=2*3", "sep*3"):
        wall, cpu = best(lambda schedule=schedule: coarsen(block, schedule))
        out.append({"set": name, "what": schedule, "graphs": block.num_graphs, "seconds": wall, "cpu": cpu})
        out[-1] |= {"graphs/s": block.num_graphs / cpu, "matvec": matvec(block)}
    return out


def measure_big(name: str, block: BlockCSR) -> list[dict[str, Any]]:
    """Measure one level of one graph."""
    out = []
    edges = block.num_edges // 2
    tasks = {
        "kmis select": lambda: KMIS.assign(block, KMIS.params(), RandomKey()),
        "kmis k=2 select": lambda: KMIS.assign(block, KMIS.params(order_k=2), RandomKey()),
        "kmis random select": lambda: KMIS.assign(block, KMIS.params(scorer="random"), RandomKey()),
        "kmis level": lambda: coarsen(block, "kmis"),
        "sep level": lambda: SEP.assign(block, SEP.params(), RandomKey()),
        "sep cut=optimal": lambda: SEP.assign(block, SEP.params(cut="optimal"), RandomKey()),
    }
    for what, task in tasks.items():
        wall, cpu = best(task, 1.0)
        row = {
            "set": name,
            "what": what,
            "nodes": block.num_nodes,
            "edges": edges,
            "seconds": wall,
            "cpu": cpu,
        }
        rest = {"M edges/s": edges / cpu / 1e6, "matvec": matvec(block), "added MB": added_memory(task)}
        if what.startswith("sep"):
            rest |= {"bits": structural_entropy(block, task().cluster), "groups": task().num_supernodes}
        if what == "sep level":
            rest |= {"visited": visited_entries(block), "gather": random_gather(block.num_edges)}
        out.append(row | rest)
    return out


def structural_entropy(block: BlockCSR, cluster: np.ndarray) -> float:
    """Return the structural entropy of the groups of an undirected graph in bits."""
    source, weight = block.rows(), block.weights_or_ones()
    degree = np.bincount(source, weight, block.num_nodes)
    volume = np.bincount(cluster, degree)
    leaving = np.bincount(cluster[source], weight * (cluster[source] != cluster[block.indices]), len(volume))
    nodes, groups, total = degree > 0, volume > 0, degree.sum()
    inside = degree[nodes] @ np.log2(volume[cluster[nodes]] / degree[nodes])
    return float((inside + leaving[groups] @ np.log2(total / volume[groups])) / total)


def visited_entries(block: BlockCSR) -> int:
    """Return the number of list entries and tournament nodes that the merging visits. Small components are not counted."""
    forest = sep._split_components(block)
    nodes, parts = len(forest.degree), len(forest.total)
    tree = (np.empty(2 * nodes, np.int32), *np.empty((3, 2 * nodes)))
    given = (forest.rows, forest.ptr, np.ones(parts, np.bool_), forest.degree, forest.degree, forest.total)
    return coding_tree.merge_parts(*given, 0, parts, tree)


def random_gather(size: int) -> float:
    """Return the processor seconds of a random gather over an array, for calibration."""
    rng = np.random.default_rng(0)
    values, order = rng.random(size), rng.permutation(size)
    return best(lambda: values[order], 0.3)[1]


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the growth of time with the number of edges, from the smallest to the largest graph of a family."""
    out = []
    for family in ("grid", "scale-free", "regular", "weighted star"):
        for what in ("kmis select", "sep level", "sep cut=optimal"):
            mine = [
                r
                for r in rows
                if r["what"] == what and r["set"].startswith(family) and "m=10" not in r["set"]
            ]
            low, high = mine[0], mine[-1]
            growth = np.log(high["edges"] / low["edges"])
            out.append(
                {"set": family, "what": what, "exponent": float(np.log(high["cpu"] / low["cpu"]) / growth)}
            )
            for name in ("visited", "gather") if what == "sep level" else ():
                out[-1][f"exponent of {name}"] = float(np.log(high[name] / low[name]) / growth)
    return out


def main() -> None:
    """Print one line of figures per case, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the real graphs")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    given = parser.parse_args()
    rows = []
    for name, block in small_sets(given.data):
        rows += measure_small(name, block)
        _show(rows[-3:], given.json)
    for name, block in big_graphs(given.data):
        rows += measure_big(name, block)
        _show(rows[-6:], given.json)
    rows += exponents(rows)
    _show(rows[-12:], given.json)
    if given.json:
        print(json.dumps(rows, indent=1))


def _show(rows: list[dict[str, Any]], quiet: bool) -> None:
    for row in rows if not quiet else []:
        facts = (
            f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v:,}"
            for k, v in row.items()
            if k not in ("set", "what")
        )
        print(f"{row['set']:24s} {row['what']:20s}", "  ".join(facts), flush=True)


if __name__ == "__main__":
    main()
