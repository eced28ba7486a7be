"""Modularity and speed of ``louvain`` and ``leiden`` beside networkit and igraph, on one core.

python tests/benchmarks/bench_communities.py [--edges 250000]

Peers that are not installed are left out. Speeds are million undirected edges per processor second.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from tests.benchmarks.bench_families import FAMILIES
from tgp.engine import METHODS
from tgp.engine.level_method import RandomKey
from tgp.ragged import BlockCSR

GRAPHS = ("grid", "grid at random", "kNN", "BA", "RMAT", "SBM")


def modularity(block: BlockCSR, cluster: np.ndarray) -> float:
    """Return the modularity of clusters of an unweighted, symmetric graph."""
    inside = float((cluster[block.rows()] == cluster[block.indices]).mean())
    volume = np.bincount(cluster, np.diff(block.indptr)) / block.num_edges
    return inside - float(volume @ volume)


def competitors(block: BlockCSR) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Yield names and functions that return the community of each node."""
    for name in ("louvain", "leiden"):
        method = METHODS[name]
        method.assign(block.take([0]), method.params(), RandomKey())  # compile
        yield name, lambda method=method: method.assign(block, method.params(), RandomKey()).cluster
    one_way = np.ascontiguousarray(block.edge_index()[:, block.rows() < block.indices])
    if importlib.util.find_spec("networkit"):
        import networkit as nk

        nk.setNumberOfThreads(1)
        graph = nk.GraphFromCoo((np.ones(one_way.shape[1]), tuple(one_way)), n=block.num_nodes)
        for name in ("PLM", "ParallelLeiden"):
            yield f"networkit {name}", lambda name=name: run_networkit(getattr(nk.community, name)(graph))
    if importlib.util.find_spec("igraph"):
        import igraph

        other = igraph.Graph(block.num_nodes, one_way.T.tolist())
        random.seed(0)
        yield (
            "igraph leiden",
            lambda: np.array(other.community_leiden("modularity", n_iterations=2).membership),
        )


def run_networkit(algorithm: object) -> np.ndarray:
    """Run an algorithm of networkit and return the communities."""
    vector = algorithm.run().getPartition().getVector()  # type: ignore[attr-defined]
    return np.unique(vector, return_inverse=True)[1]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=250_000)
    arguments = parser.parse_args()
    print("| graph | edges | method | M edges/s | modularity |\n|---|---|---|---|---|")
    for name in GRAPHS:
        block = FAMILIES[name](arguments.edges)
        block = BlockCSR(block.indptr, block.indices, None, block.node_ptr)
        for who, run in competitors(block):
            start = time.process_time()
            cluster = run()
            seconds = time.process_time() - start
            speed = block.num_edges / 2e6 / seconds
            print(
                f"| {name} | {block.num_edges // 2:,} | {who} | {speed:.2f} | {modularity(block, cluster):.4f} |"
            )


if __name__ == "__main__":
    main()
