"""Speed of one level on single graphs: edges per processor second, and growth with the number of components.

python tests/benchmarks/bench_single_graphs.py [--methods NAME ...] [--edges N] [--repeat R]

One thread. Times are the best of several runs, in processor seconds. ``A x`` is the calibration: scipy's product of the sparse matrix
with a vector on the same graph. The second table has graphs of many components with 25 nodes each; the time per component must not grow.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import scipy.sparse as sp

from tests.benchmarks.bench_families import grid, grid_at_random, triangular_grid
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import METHODS
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d


def processor_seconds(function: Callable[[], object], repeat: int) -> float:
    """Return the smallest processor time of several calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def run_level(name: str, block: BlockCSR) -> BlockCSR:
    """Return one level of a method. The block is copied, so that its symmetry is checked in every run."""
    fresh = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr)
    method, params = METHODS[name], METHODS[name].params()
    return method.connect(fresh, method.assign(fresh, params, RandomKey()), params)


def pieces(count: int) -> BlockCSR:
    """Return one graph of ``count`` grids with 25 nodes."""
    block = BlockCSR.concat([grid2d(5, 5)] * count)
    return BlockCSR(block.indptr, block.indices, None, np.array([0, block.num_nodes]))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=["bistride", "affinity", "hem"])
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    graphs = {
        "grid": grid(options.edges),
        "grid, random order": grid_at_random(options.edges),
        "triangular grid": triangular_grid(options.edges),
        "BA, m = 5": barabasi_albert(max(options.edges // 5, 10), 5),
    }
    print(
        "| method | graph | edges | seconds | edges/s | A x | nodes kept | edges kept |\n|---|---|---|---|---|---|---|---|"
    )
    for name in options.methods:
        for graph, block in graphs.items():
            print_row(name, graph, block, options.repeat)
    print("\n| method | components | nodes | seconds | microseconds per component |\n|---|---|---|---|---|")
    for name in options.methods:
        for count in (400, 1_600, 6_400, 25_600):
            block = pieces(count)
            seconds = processor_seconds(lambda name=name, block=block: run_level(name, block), options.repeat)
            print(
                f"| {name} | {count:,} | {block.num_nodes:,} | {seconds:.4f} | {1e6 * seconds / count:.2f} |"
            )


def print_row(name: str, graph: str, block: BlockCSR, repeat: int) -> None:
    """Measure one level and the calibration; print a row of the first table."""
    matrix = sp.csr_array(
        (block.weights_or_ones(), block.indices, block.indptr), shape=(block.num_nodes,) * 2
    )
    ones, coarse = np.ones(block.num_nodes), run_level(name, block)
    seconds = processor_seconds(lambda: run_level(name, block), repeat)
    product = max(processor_seconds(lambda: matrix @ ones, 2 * repeat), 1e-9)
    edges = block.num_edges / 2
    print(
        f"| {name} | {graph} | {edges / 1e6:.2f} M | {seconds:.3f} | {edges / seconds / 1e6:.1f} M | {seconds / product:.0f} x | "
        f"{coarse.num_nodes / block.num_nodes:.2f} | {coarse.num_edges / block.num_edges:.2f} |"
    )


if __name__ == "__main__":
    main()
