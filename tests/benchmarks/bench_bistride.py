"""Speed of one level of ``bistride``: edges per processor second, and growth with the number of components.

python tests/benchmarks/bench_bistride.py [--edges N] [--repeat R]

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
from tgp.engine.methods.bistride import METHOD, BistrideParams
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


def run_level(block: BlockCSR) -> BlockCSR:
    """Return one level. The block is copied, so that its symmetry is checked in every run."""
    fresh = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr)
    return METHOD.connect(fresh, METHOD.assign(fresh, BistrideParams(), RandomKey()), BistrideParams())


def pieces(count: int) -> BlockCSR:
    """Return one graph of ``count`` grids with 25 nodes."""
    block = BlockCSR.concat([grid2d(5, 5)] * count)
    return BlockCSR(block.indptr, block.indices, None, np.array([0, block.num_nodes]))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    graphs = {
        "grid": grid(options.edges),
        "grid, random order": grid_at_random(options.edges),
        "triangular grid": triangular_grid(options.edges),
        "BA, m = 5": barabasi_albert(max(options.edges // 5, 10), 5),
    }
    run_level(graphs["grid"])
    print(
        "| graph | edges | seconds | edges/s | A x | nodes kept | edges kept |\n|---|---|---|---|---|---|---|"
    )
    for name, block in graphs.items():
        matrix = sp.csr_array(
            (block.weights_or_ones(), block.indices, block.indptr), shape=(block.num_nodes,) * 2
        )
        ones, coarse = np.ones(block.num_nodes), run_level(block)
        seconds = processor_seconds(lambda block=block: run_level(block), options.repeat)
        product = processor_seconds(lambda matrix=matrix, ones=ones: matrix @ ones, options.repeat)
        edges = block.num_edges / 2
        print(
            f"| {name} | {edges / 1e6:.2f} M | {seconds:.3f} | {edges / seconds / 1e6:.1f} M | {seconds / max(product, 1e-9):.0f} x | "
            f"{coarse.num_nodes / block.num_nodes:.2f} | {coarse.num_edges / block.num_edges:.2f} |"
        )
    print("\n| components | nodes | seconds | microseconds per component |\n|---|---|---|---|")
    for count in (400, 1_600, 6_400, 25_600):
        block = pieces(count)
        seconds = processor_seconds(lambda block=block: run_level(block), options.repeat)
        print(f"| {count:,} | {block.num_nodes:,} | {seconds:.4f} | {1e6 * seconds / count:.2f} |")


if __name__ == "__main__":
    main()
