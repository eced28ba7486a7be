"""Two threads against one on one large graph. Run: ``python tests/benchmarks/bench_threads.py [--quick] [--json] [--calibrate]``.

Wall time and processor time of the fastest of several runs after a warm-up, for the contraction, the assignment of ``kmis`` and that of
``hem``. One thread and several alternate in one run. ``ratio`` is wall time against wall time. On a machine that does other work it
says little. ``estimate`` is the processor time of one thread against that of the calling thread if there are several: the ratio on idle cores if
the work is divided evenly. ``overhead`` is the processor time of several threads against one: the ratio on idle cores is at most the number of threads
divided by it. ``memory`` is what a run adds at its peak beyond its input and output, in bytes per stored entry.

The graphs are a grid, an RMAT graph (edge factor 16, nodes numbered at random), and a graph like a road network: a grid with 35 % of the
edges removed. Its nodes are numbered along the grid (``road``) and at random (``road, shuffled``). ``eigen`` and ``lv`` run on a
smaller grid. ``--calibrate`` shows what the machine can reach: how much more two independent processes with one thread each do than one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", str(os.cpu_count()))  # before bench_kmis_sep sets 1

import numba
import numpy as np

from tests.benchmarks.bench_kmis_sep import added_memory
from tgp.engine.contraction import contract
from tgp.engine.level_method import RandomKey
from tgp.engine.methods import METHODS
from tgp.engine.threads import limit_threads
from tgp.ragged import BlockCSR

Edges = np.ndarray[Any, np.dtype[np.int64]]


def grid_edges(side: int) -> Edges:
    """Return the edges of a square grid, one direction each."""
    node = np.arange(side * side).reshape(side, side)
    right = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    return np.concatenate([right, np.stack([node[:-1].ravel(), node[1:].ravel()])], 1)


def rmat_edges(scale: int, factor: int, seed: int = 0) -> Edges:
    """Return the edges of an RMAT graph (0.57, 0.19, 0.19, 0.05) with shuffled nodes."""
    rng = np.random.default_rng(seed)
    size = factor << scale
    ends = np.zeros((2, size), np.int64)
    for bit in range(scale):
        draw = rng.random(size)
        ends[0] |= (draw >= 0.76).astype(np.int64) << bit
        ends[1] |= (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95)).astype(np.int64) << bit
    ends = rng.permutation(1 << scale)[ends]
    return ends[:, ends[0] != ends[1]]


def make_block(edges: Edges, num_nodes: int) -> BlockCSR:
    """Return the graph with both directions of every edge, each stored once."""
    low, high = edges.min(0), edges.max(0)
    low, high = np.divmod(np.unique(low * num_nodes + high), num_nodes)
    both = np.concatenate([np.stack([low, high]), np.stack([high, low])], 1)
    return BlockCSR.from_edge_index(both, num_nodes=num_nodes)


def make_graphs(quick: bool) -> Iterator[tuple[str, BlockCSR]]:
    """Yield names and graphs."""
    side, scale = (300, 14) if quick else (1000, 20)
    yield f"grid {side}^2", make_block(grid_edges(side), side * side)
    rng = np.random.default_rng(0)
    edges = grid_edges(side)
    edges = edges[:, rng.random(edges.shape[1]) < 0.65]
    yield f"road {side}^2", make_block(edges, side * side)
    yield f"road {side}^2, shuffled", make_block(rng.permutation(side * side)[edges], side * side)
    yield f"RMAT 2^{scale}", make_block(rmat_edges(scale, 16), 1 << scale)


def measure(
    function: Callable[[], object], counts: tuple[int, ...], runs: int
) -> dict[int, tuple[float, float, float]]:
    """Return the least wall and processor seconds, and the mean ones of the calling thread, for each number of threads. The numbers alternate."""
    wall: dict[int, list[float]] = {count: [] for count in counts}
    cpu: dict[int, list[float]] = {count: [] for count in counts}
    own: dict[int, list[float]] = {count: [] for count in counts}
    for run in range(runs + 1):
        for count in counts:
            with limit_threads(count):
                start, used, mine = time.perf_counter(), time.process_time(), time.thread_time()
                function()
                if run:
                    wall[count].append(time.perf_counter() - start)
                    cpu[count].append(time.process_time() - used)
                    own[count].append(time.thread_time() - mine)
    return {count: (min(wall[count]), min(cpu[count]), float(np.mean(own[count]))) for count in counts}


@numba.njit(nogil=True)
def multiply(count: int) -> int:
    """Compute without memory: a chain of products."""
    value = np.uint64(1)
    for _ in range(count):
        value = (value ^ (value >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return value


@numba.njit(nogil=True)
def add_entries(values: Edges, index: Edges) -> int:
    """Add ``values[index]``, or all values in order if ``index`` is empty."""
    total = np.int64(0)
    for i in range(len(index)):
        total += values[np.uint32(index[i])]
    for i in range(len(values) if len(index) == 0 else 0):
        total += values[i]
    return total


def calibration_tasks() -> dict[str, Callable[[], object]]:
    """Return short tasks that are limited by the processor, by memory or by new pages."""
    rng = np.random.default_rng(0)
    none, many, few = np.empty(0, np.int32), np.ones(1 << 26, np.int32), np.ones(1 << 20, np.int32)
    near, far = (rng.integers(0, len(values), 1 << 24, np.int32) for values in (few, many))
    return {
        "products": lambda: multiply(1 << 26),
        "read 256 MB in order": lambda: add_entries(many, none),
        "read 4 MB at random": lambda: add_entries(few, near),
        "read 256 MB at random": lambda: add_entries(many, far),
        "write 128 MB of new pages": lambda: np.empty(1 << 25, np.int32).fill(1),
    }


def run_tasks(barrier: Any, found: Any) -> None:
    """Put the median seconds of each task into a queue. Tasks of several processes start at the same time."""
    seconds = {}
    for name, task in calibration_tasks().items():
        task()
        times = []
        for _ in range(5):
            barrier.wait()
            start = time.perf_counter()
            task()
            times.append(time.perf_counter() - start)
        seconds[name] = float(np.median(times))
    found.put(seconds)


def calibrate(processes: int) -> dict[str, float]:
    """Return how much more several processes do than one, for each task."""
    seconds = []
    for count in (1, processes):
        barrier, found = multiprocessing.Barrier(count), multiprocessing.Queue()
        running = [multiprocessing.Process(target=run_tasks, args=(barrier, found)) for _ in range(count)]
        for process in running:
            process.start()
        each = [found.get() for _ in running]
        for process in running:
            process.join()
        seconds.append({name: max(one[name] for one in each) for name in each[0]})
    return {name: round(processes * seconds[0][name] / seconds[1][name], 2) for name in seconds[0]}


def bytes_of(*arrays: Any) -> int:
    """Return the size of arrays in bytes."""
    return sum(array.nbytes for array in arrays if array is not None)


def main() -> None:
    """Print one line per graph and part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small graphs, few runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    parser.add_argument("--calibrate", action="store_true", help="measure what the machine can reach")
    options = parser.parse_args()
    rows = []
    if options.calibrate:
        limits = calibrate(options.threads)
        rows.append({"processes": options.threads} | limits)
        if not options.json:
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    side = 100 if options.quick else 500
    small = f"grid {side}^2", make_block(grid_edges(side), side * side), ("eigen", "lv")
    large = ((*graph, ("contraction", "kmis", "hem")) for graph in make_graphs(options.quick))
    for name, block, parts in itertools.chain(large, [small]):
        for part in parts:
            method = METHODS["hem" if part == "contraction" else part]
            params = method.params()
            assignment = method.assign(block, params, RandomKey())

            def run(
                part: str = part, block: BlockCSR = block, given: Any = (method, params, assignment)
            ) -> Any:
                if part == "contraction":
                    return contract(block, given[2])
                fresh = BlockCSR(block.indptr, block.indices, block.weight, block.node_ptr)
                return given[0].assign(fresh, given[1], RandomKey())

            runs = 2 if options.quick or part in ("eigen", "lv") else 5
            found = measure(run, (1, options.threads), runs)
            (wall, cpu, _), (wall_many, cpu_many, own) = found[1], found[options.threads]
            result = run()
            kept = (
                [result.indptr, result.indices] if part == "contraction" else [result.cluster, result.weight]
            )
            with limit_threads(options.threads):
                extra = 2**20 * added_memory(run) - bytes_of(*kept)
            row = {
                "graph": name,
                "part": part,
                "entries": block.num_edges,
                "ms, 1 thread": round(1e3 * wall, 1),
                f"ms, {options.threads} threads": round(1e3 * wall_many, 1),
                "cpu ms, 1 thread": round(1e3 * cpu, 1),
                f"cpu ms, {options.threads} threads": round(1e3 * cpu_many, 1),
                "ratio": round(wall / wall_many, 2),
                "estimate": round(cpu / own, 2),
                "overhead": round(cpu_many / cpu, 2),
                "memory": round(extra / block.num_edges, 1),
            }
            rows.append(row)
            if not options.json:
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
