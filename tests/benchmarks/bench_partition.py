"""Cut, balance and time of ``partition`` beside METIS and KaMinPar, on one core.

python tests/benchmarks/bench_partition.py [--nodes 1000000] [--data DIRECTORY] [--seeds 3]

Programs that are not installed are left out. ``METIS recursive`` is its recursive bisection, which has tighter limits of its own;
``METIS k-way`` is run with the imbalance of ``partition``, 3 %. Cuts, balance and processor times are means over seeds.
Balance is the largest number of nodes of a cluster divided by the average one. ``--data`` is a directory with ``RoadGraphs/NY.gr.xz``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from tests.benchmarks.bench_families import FAMILIES
from tests.benchmarks.bench_kmis_sep import road_network
from tgp.engine import METHODS
from tgp.engine.level_method import RandomKey
from tgp.ragged import BlockCSR
from tgp.testing.graphs import grid2d

METHOD = METHODS["partition"]
CLUSTERS = (2, 4, 16, 64, 256)
IMBALANCE = 0.03

Run = Callable[[int, int], np.ndarray]


def count_cut(block: BlockCSR, cluster: np.ndarray) -> int:
    """Return the number of edges between clusters of an undirected, unweighted graph."""
    return int((cluster[block.rows()] != cluster[block.indices]).sum()) // 2


def run_method(block: BlockCSR, **params: object) -> Run:
    """Return a function of ``k`` and a seed that runs the method."""
    return lambda k, seed: METHOD.assign(block, METHOD.params(k=k, **params), RandomKey(seed)).cluster


def run_metis(block: BlockCSR, recursive: bool) -> Run:
    """Return a function of ``k`` and a seed that runs METIS."""
    import pymetis

    rows = pymetis.CSRAdjacency(block.indptr.astype(np.int32), block.indices)
    factor = {} if recursive else {"ufactor": round(1000 * IMBALANCE)}

    def run(k: int, seed: int) -> np.ndarray:
        options = pymetis.Options(seed=seed, **factor)
        return np.array(pymetis.part_graph(k, rows, recursive=recursive, options=options)[1])

    return run


def competitors(block: BlockCSR) -> Iterator[tuple[str, Run]]:
    """Yield names and functions of ``k`` and a seed that return the cluster of each node."""
    yield "partition", run_method(block, imbalance=IMBALANCE)
    yield "partition, repeats=3", run_method(block, imbalance=IMBALANCE, repeats=3)
    if importlib.util.find_spec("pymetis"):
        yield "METIS k-way", run_metis(block, recursive=False)
        yield "METIS recursive", run_metis(block, recursive=True)
    if importlib.util.find_spec("kaminpar"):
        yield "KaMinPar (with its file)", run_method(block, imbalance=IMBALANCE, backend="kaminpar")


def graphs(nodes: int, data: Path | None) -> Iterator[tuple[str, BlockCSR]]:
    """Yield names and unweighted graphs."""
    side = round(nodes**0.5)
    yield f"grid {side}²", grid2d(side, side)
    yield "kNN", FAMILIES["kNN"](nodes)
    yield "BA", FAMILIES["BA"](nodes)
    yield "RMAT", FAMILIES["RMAT"](nodes)
    if data is not None and (path := data / "RoadGraphs" / "NY.gr.xz").is_file():
        yield "NY roads", road_network(path)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--graphs", help="names that contain one of these words, separated by commas")
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS)
    arguments = parser.parse_args()
    METHOD.assign(grid2d(20, 20), METHOD.params(repeats=2), RandomKey())  # compile
    print(
        "| graph | edges | k | program | cut | to METIS k-way | balance | s |\n|---|---|---|---|---|---|---|---|"
    )
    for name, block in graphs(arguments.nodes, arguments.data):
        if arguments.graphs and not any(word in name for word in arguments.graphs.split(",")):
            continue
        block = BlockCSR(block.indptr, block.indices, None, block.node_ptr)
        for k in arguments.clusters:
            found = {}
            for who, run in competitors(block):
                figures = []
                for seed in range(arguments.seeds):
                    start = time.process_time()
                    cluster = run(k, seed)
                    seconds = time.process_time() - start
                    largest = np.bincount(cluster, minlength=k).max() * k / block.num_nodes
                    figures.append((count_cut(block, cluster), largest, seconds))
                found[who] = np.mean(figures, axis=0)
            other = found.get("METIS k-way")
            for who, (cut, largest, seconds) in found.items():
                ratio = "" if other is None else f"{cut / other[0]:.3f}"
                print(
                    f"| {name} | {block.num_edges // 2:,} | {k} | {who} | {cut:,.0f} | {ratio} | {largest:.3f} | {seconds:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
