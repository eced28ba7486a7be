"""Growth of the methods on families of graphs: exponents of processor time and memory over the number of edges.

python tests/benchmarks/bench_families.py [--quick | --full] [--methods SCHEDULE ...] [--families NAME ...] [--limit S] [--json FILE]

Each schedule runs on each family at several sizes, from 10^4 to 1.6 * 10^5 edges (``--full``: 1.3 * 10^6), with one thread. A schedule on a family
has a child process of its own. ``--limit`` is the processor time that one size may take: the child ends at the limit, larger
sizes are left out, and the exponent is that of the sizes that finished. The column ``A x`` is the calibration: scipy's sparse
matrix times vector on the same graph, which shows what memory access costs in this family. An exponent is the slope of a line
through the logarithms.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
# After PYTHONPATH, which can name another version of tgp to compare with.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from tests.benchmarks import bench_kmis_sep
from tests.benchmarks.bench_kmis_sep import added_memory, undirected, weighted_star
from tgp.engine import coarsen, parse_schedule
from tgp.ragged import BlockCSR
from tgp.testing.graphs import with_attributes

SCHEDULES = (
    "graclus",
    "kmis",
    "hem",
    "collapse",
    "amg",
    "amg:ratio=0.1",
    "lv",
    "simmatch",
    "ugc",
    "voxel",
    "fps",
    "ndp",
    "sep",
    "nmf:k=8",
    "eigen:k=8",
    "affinity",
    "bistride",
)
"""Schedules that are measured by default."""

CALIBRATION = "A x"
"""Name of the calibration in the tables."""

SIZES = (10_000, 40_000, 160_000)
FULL_SIZES = (20_000, 80_000, 320_000, 1_280_000)
QUICK_SIZES = (5_000, 20_000, 80_000)
"""Numbers of undirected edges. A generator comes close to them."""

ENOUGH = 0.3
"""Processor seconds that the measurements of one size take at least. The clock of processor time of some systems has steps of
4 ms, so a short computation is repeated, and its time is the mean."""


# -- graphs -------------------------------------------------------------------------------------------------------------


def _grid_pairs(side: int) -> np.ndarray:
    ids = np.arange(side * side).reshape(side, side)
    across, down = (ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])
    return np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in (across, down)], axis=1)


def grid(edges: int) -> BlockCSR:
    """Return a square grid, numbered row by row."""
    side = max(round(math.sqrt(edges / 2)), 2)
    return undirected(_grid_pairs(side), side * side)


def grid_at_random(edges: int) -> BlockCSR:
    """Return a square grid with nodes in random order."""
    side = max(round(math.sqrt(edges / 2)), 2)
    order = np.random.default_rng(0).permutation(side * side)
    return undirected(order[_grid_pairs(side)], side * side)


def triangular_grid(edges: int) -> BlockCSR:
    """Return a square grid with one diagonal in every cell."""
    side = max(round(math.sqrt(edges / 3)), 2)
    ids = np.arange(side * side).reshape(side, side)
    diagonal = np.stack([ids[:-1, :-1].ravel(), ids[1:, 1:].ravel()])
    return undirected(np.concatenate([_grid_pairs(side), diagonal], axis=1), side * side)


def nearest_neighbours(edges: int) -> BlockCSR:
    """Return random points of a square, each connected to its six nearest ones."""
    size = max(edges // 4, 8)
    points = np.random.default_rng(0).random((size, 2))
    found = cKDTree(points).query(points, 7)[1]
    return undirected(np.stack([np.repeat(np.arange(size), 6), found[:, 1:].ravel()]), size)


def random_regular(edges: int) -> BlockCSR:
    """Return the union of three random cycles. Nearly all nodes have six neighbours."""
    return bench_kmis_sep.random_regular(max(edges // 3, 8))


def _preferential_pairs(size: int, degree: int) -> np.ndarray:
    """Return edges of preferential attachment. Edge ``i`` copies an end of an earlier edge, chosen at random.

    Ends of edges are numbered: ``2 i`` is the new node of edge ``i``, and ``2 i + 1`` is the copied end. References to copied
    ends are followed for all edges at once, until all of them name a new node.
    """
    count = size * degree
    copied = (np.random.default_rng(0).random(count) * (2 * np.arange(count) + 1)).astype(np.int64)
    end = copied.copy()
    while (odd := np.flatnonzero(end & 1)).size:
        end[odd] = copied[end[odd] >> 1]
    return np.stack([np.arange(count) // degree, (end >> 1) // degree])


def preferential_attachment(edges: int) -> BlockCSR:
    """Return a graph of preferential attachment with five edges per node."""
    size = max(edges // 5, 8)
    return undirected(_preferential_pairs(size, 5), size)


def recursive_matrix(edges: int) -> BlockCSR:
    """Return an RMAT graph with quadrants .57, .19, .19, .05 and 16 edges per node, without repeated edges."""
    scale = max(math.ceil(math.log2(edges / 16)), 3)
    rng = np.random.default_rng(0)
    pairs = np.zeros((2, edges), np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], rng.random(edges), side="right")
        pairs = 2 * pairs + np.stack([quadrant >> 1, quadrant & 1])
    return undirected(pairs, 2**scale)


def windmill(edges: int) -> BlockCSR:
    """Return triangles that share one node."""
    count = max(edges // 3, 1)
    low = 2 * np.arange(count) + 1
    pairs = [np.stack([np.zeros(2 * count, np.int64), np.arange(1, 2 * count + 1)]), np.stack([low, low + 1])]
    return undirected(np.concatenate(pairs, axis=1), 2 * count + 1)


def two_hubs(edges: int) -> BlockCSR:
    """Return the complete bipartite graph of 2 and ``edges / 2`` nodes."""
    count = max(edges // 2, 1)
    pairs = np.stack([np.repeat([0, 1], count), np.tile(np.arange(2, count + 2), 2)])
    return undirected(pairs, count + 2)


def complete(edges: int) -> BlockCSR:
    """Return a complete graph."""
    size = max(round(math.sqrt(2 * edges)), 3)
    return undirected(np.stack(np.triu_indices(size, 1)), size)


def hubs_with_leaves(edges: int) -> BlockCSR:
    """Return a ring of hubs with 1,000 leaves each."""
    count = max(edges // 1001, 3)
    hubs = 1001 * np.arange(count)
    leaves = (hubs[:, None] + np.arange(1, 1001)).ravel()
    ring = np.stack([hubs, np.roll(hubs, 1)])
    return undirected(np.concatenate([ring, np.stack([np.repeat(hubs, 1000), leaves])], axis=1), 1001 * count)


def block_model(edges: int) -> BlockCSR:
    """Return groups of 100 nodes. A node has eight edges to its group and two to other nodes."""
    size = max(edges // 5, 200)
    rng = np.random.default_rng(0)
    node = np.repeat(np.arange(size), 5)
    group = node - node % 100
    inside = np.minimum(group + rng.integers(0, 100, len(node)), size - 1)
    outside = rng.integers(0, size, len(node))
    return undirected(np.stack([node, np.where(np.arange(len(node)) % 5 < 4, inside, outside)]), size)


def _with_signs(block: BlockCSR, negative: np.ndarray) -> BlockCSR:
    """Return the graph with weight -1 for the undirected edges in ``negative`` (one bool per pair) and 1 for the others."""
    low, high = np.sort(block.edge_index(), axis=0)
    _, pair = np.unique(low * block.num_nodes + high, return_inverse=True)
    weight = np.where(negative[pair], -1.0, 1.0)
    return BlockCSR(block.indptr, block.indices, weight, block.node_ptr)


def one_negative_weight(edges: int) -> BlockCSR:
    """Return a graph of preferential attachment with one negative weight."""
    block = preferential_attachment(edges)
    return _with_signs(block, np.arange(block.num_edges // 2) == block.num_edges // 4)


def mixed_signs(edges: int) -> BlockCSR:
    """Return a graph of preferential attachment in which half of the weights are negative."""
    block = preferential_attachment(edges)
    return _with_signs(block, np.random.default_rng(1).random(block.num_edges // 2) < 0.5)


def many_components(edges: int) -> BlockCSR:
    """Return one graph that consists of rings of 20 nodes."""
    count = max(edges // 20, 1)
    nodes = np.arange(20 * count)
    return undirected(np.stack([nodes, nodes - nodes % 20 + (nodes + 1) % 20]), 20 * count)


FAMILIES: dict[str, Callable[[int], BlockCSR]] = {
    "grid": grid,
    "grid at random": grid_at_random,
    "triangular grid": triangular_grid,
    "kNN": nearest_neighbours,
    "random regular": random_regular,
    "BA": preferential_attachment,
    "RMAT": recursive_matrix,
    "star, distinct weights": weighted_star,
    "windmill": windmill,
    "K_2,n": two_hubs,
    "K_n": complete,
    "hubs, 1000 leaves": hubs_with_leaves,
    "SBM": block_model,
    "BA, one negative": one_negative_weight,
    "BA, mixed signs": mixed_signs,
    "many components": many_components,
}
"""Functions that return a graph with about the given number of undirected edges. They always return the same graph."""


# -- measurements -------------------------------------------------------------------------------------------------------


def exponent(edges: list[int], values: list[float]) -> float | None:
    """Return the slope of the line through the logarithms; ``None`` for fewer than two points.

    Args:
        edges: Sizes.
        values: Measured values. Those that are not positive are left out.
    """
    points = [(math.log(e), math.log(v)) for e, v in zip(edges, values, strict=True) if v > 0]
    if len({x for x, _ in points}) < 2:
        return None
    return float(np.polyfit([x for x, _ in points], [y for _, y in points], 1)[0])


def _task(block: BlockCSR, text: str) -> Callable[[], object]:
    """Return the computation to measure. Every call gets a new block, because a block caches what is known about it."""
    if text == CALIBRATION:
        matrix = sp.csr_matrix(
            (block.weights_or_ones(), block.indices, block.indptr), shape=(block.num_nodes,) * 2
        )
        vector = np.ones(block.num_nodes)
        return lambda: matrix @ vector
    values = with_attributes(block).attributes if parse_schedule(text).needs else None
    arrays = block.indptr, block.indices, block.weight, block.node_ptr, values
    return lambda: coarsen(BlockCSR(*arrays), text)


def _measure(task: Callable[[], object]) -> tuple[float, float]:
    """Return processor seconds and added MB of a computation."""
    start = time.process_time()
    memory = added_memory(task)
    seconds, count = time.process_time() - start, 1
    if seconds < ENOUGH:
        start, seconds, count = (
            time.process_time(),
            0.0,
            0,
        )  # the first call also fetched the memory from the system
    while seconds < ENOUGH:
        task()
        count += 1
        seconds = time.process_time() - start
    return seconds / count, memory


def _child(family: str, text: str, sizes: tuple[int, ...], limit: float, pipe: Any) -> None:
    """Send ``(edges, seconds, MB)`` for each size. The system ends this process if one of them exceeds the limit."""
    make = FAMILIES[family]
    for size in (600, 3000):  # compile the kernels, also those of larger graphs
        _task(make(size), text)()
    for size in sizes:
        block = make(size)
        task = _task(block, text)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, limit + 2 * ENOUGH)
        seconds, memory = _measure(task)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send((block.num_edges // 2, seconds, memory))
        if seconds > limit:
            break
    pipe.close()


def measure_cell(family: str, text: str, sizes: tuple[int, ...], limit: float) -> dict[str, Any]:
    """Return the figures of one schedule on one family.

    Args:
        family: Name of the family.
        text: Schedule, or :data:`CALIBRATION`.
        sizes: Numbers of edges, ascending.
        limit: Processor seconds that one size may take.
    """
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(family, text, sizes, limit, sender))
    process.start()
    sender.close()
    points: list[tuple[int, float, float]] = []
    try:
        while True:
            points.append(receiver.recv())
    except EOFError:
        process.join()
    code = process.exitcode or 0
    failed = code > 0 or code not in (0, -getattr(signal, "SIGPROF", 0))
    done = [point for point in points if point[1] <= limit]
    edges, seconds, memory = (list(column) for column in zip(*done, strict=True)) if done else ([], [], [])
    return {
        "family": family,
        "schedule": text,
        "edges": edges,
        "seconds": seconds,
        "megabytes": memory,
        "finished": len(done) == len(sizes),
        "failed": failed,
        "time_exponent": exponent(edges, seconds),
        "memory_exponent": exponent(edges, memory),
    }


def _time_text(cell: dict[str, Any], limit: float) -> str:
    """Return exponent and time of the largest size: ``1.04, 0.21 s``."""
    power = "-" if cell["time_exponent"] is None else f"{cell['time_exponent']:.2f}"
    if cell["failed"]:
        return "failed"
    if not cell["finished"]:
        last = f" ({cell['edges'][-1]:,} edges {cell['seconds'][-1]:.1f} s)" if cell["edges"] else ""
        return f"{power}, > {limit:.0f} s{last}"
    last = cell["seconds"][-1]
    return f"{power}, {last:.2f} s" if last >= 0.1 else f"{power}, {1000 * last:.1f} ms"


def _memory_text(cell: dict[str, Any], limit: float) -> str:
    """Return exponent and bytes per undirected edge of the largest finished size."""
    if cell["memory_exponent"] is None:
        return "-"
    return f"{cell['memory_exponent']:.2f}, {1e6 * cell['megabytes'][-1] / cell['edges'][-1]:.0f} B"


def markdown(cells: list[dict[str, Any]], limit: float) -> str:
    """Return the tables of time and memory.

    Args:
        cells: Results of :func:`measure_cell`.
        limit: Processor seconds that one size may take.
    """
    families = list(dict.fromkeys(cell["family"] for cell in cells))
    schedules = list(dict.fromkeys(cell["schedule"] for cell in cells))
    found = {(cell["family"], cell["schedule"]): cell for cell in cells}
    lines = []
    for title, text in (
        ("time: exponent, largest graph", _time_text),
        ("memory: exponent, per edge", _memory_text),
    ):
        shown = schedules if text is _time_text else [name for name in schedules if name != CALIBRATION]
        lines += [f"| {title} | edges | {' | '.join(shown)} |", "|---" * (len(shown) + 2) + "|"]
        for family in families:
            row = [found[family, name] for name in schedules if (family, name) in found]
            most = max((cell["edges"][-1] for cell in row if cell["edges"]), default=0)
            texts = [text(found[family, name], limit) for name in shown]
            lines.append(f"| {family} | {most:,} | {' | '.join(texts)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_true", help=f"sizes {QUICK_SIZES} instead of {SIZES}")
    chosen.add_argument("--full", action="store_true", help=f"sizes {FULL_SIZES}, which take about an hour")
    parser.add_argument("--methods", nargs="+", default=SCHEDULES, metavar="SCHEDULE")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES, metavar="NAME")
    parser.add_argument("--limit", type=float, default=20.0, help="processor seconds of one size")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    sizes = QUICK_SIZES if args.quick else FULL_SIZES if args.full else SIZES
    values = np.random.default_rng(0).random(1_000_000)
    before = min(_measure(lambda: np.sort(values))[0] for _ in range(3))
    cells = []
    for family in args.families:
        for text in (CALIBRATION, *args.methods):
            cells.append(measure_cell(family, text, sizes, args.limit))
            print(f"{family}, {text}: {_time_text(cells[-1], args.limit)}", file=sys.stderr, flush=True)
    after = min(_measure(lambda: np.sort(values))[0] for _ in range(3))
    print(markdown(cells, args.limit))
    print(f"Calibration: sort of 1 M float64 {1e3 * before:.0f} ms before, {1e3 * after:.0f} ms after.")
    if args.json:
        report = {"limit": args.limit, "sort_seconds": [before, after], "cells": cells}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
