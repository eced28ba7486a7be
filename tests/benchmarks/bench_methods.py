"""All level methods on the same graphs. ``bench_reduction.py`` compares them with other libraries.

python tests/benchmarks/bench_methods.py [--data ../shared/data] [--small] [--large] [--cuts] [--limit SECONDS]

Everything runs on one core. *Small*: graphs per second of the engine, and of ``PreCoarsening`` with one graph at a time.
*Large*: time, added memory and their growth for one level of each method on single graphs; each measurement runs in a
separate process. *Cuts*: share of cut edges of
``graclus`` with and without counted edges. The first line is a calibration of the machine.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing as mp
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import scipy.sparse as sp

from tests.benchmarks import bench_kmis_sep as common
from tests.benchmarks.bench_families import FAMILIES
from tgp.engine import METHODS, coarsen, parse_schedule
from tgp.ragged import BlockCSR
from tgp.testing.graphs import barabasi_albert, grid2d, with_attributes

SCHEDULES = {
    "graclus": "graclus*3",
    "kmis": "kmis*3",
    "sep": "sep*3",
    "eigen": "eigen:k=5,eigen:k=3",
}
"""Schedules of the published figures, where they are not those of :func:`schedule_of`."""

GOALS = {"graclus": 100_000, "kmis": 100_000, "ndp": 5_000, "sep": 5_000, "nmf": 3_000, "eigen": 3_000}
"""Desired number of graphs per second of the engine, by method."""

TRANSFORMS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "sep": [("sep", {})] * 3,
    "kmis": [("kmis", {"scorer": "degree"})] * 2,
    "eigen": [("eigen", {"k": 5}), ("eigen", {"k": 3})],
}
"""Levels of the published figures of the transform, where they are not those of :func:`levels_of`."""

TRANSFORM_GOALS = {"ndp": 1100, "sep": 1500, "eigen": 1000, "nmf": 550, "graclus": 2700, "kmis": 1300}
"""Desired number of graphs per second of the transform on MUTAG, by method."""


def schedule_of(alias: str) -> str:
    """Return the schedule to measure: two levels."""
    default = f"{alias}:k=8,{alias}:k=4" if METHODS[alias].dense else f"{alias}*2"
    return SCHEDULES.get(alias, default)


def levels_of(alias: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the levels of the transform to measure: two."""
    default = [(alias, {"k": 8}), (alias, {"k": 4})] if METHODS[alias].dense else [(alias, {})] * 2
    return TRANSFORMS.get(alias, default)


def large_schedule_of(alias: str) -> str:
    """Return the schedule to measure on large graphs: one level."""
    return f"{alias}:k=8" if METHODS[alias].dense else alias


def goal_text(goal: int | None) -> str:
    """Return a desired figure as text."""
    return "" if goal is None else f"{goal:,}"


def calibration() -> str:
    """Return the time of a fixed computation, to compare runs and machines."""
    values = np.random.default_rng(0).random(1_000_000)
    return f"calibration: sort of 1 M float64 {common.best(lambda: np.sort(values), 1.0)[0] * 1e3:.0f} ms, load {os.getloadavg()[0]:.1f}"


def graphs(name: str, data: Path | None) -> BlockCSR | None:
    """Return a large graph by name, or ``None`` if its file does not exist."""
    kind, _, size = name.partition(" ")
    if kind == "grid":
        side = round(math.sqrt(int(size)))
        return grid2d(side, side)
    if kind == "BA":
        return barabasi_albert(int(size), 5, seed=0)
    places = {"DBLP": "CitationFull/dblp", "Physics": "Coauthor/Physics"}
    if data is None:
        return None
    if name in places:
        return common.sparse_file(data / places[name])
    if name == "NY":
        return common.road_network(data / "RoadGraphs" / "NY.gr.xz")
    return common.social_network(data / "SNAP" / "soc-slashdot0902-undirected.csv.gz")


def with_needs(block: BlockCSR, text: str) -> BlockCSR:
    """Return the graphs with attributes if a schedule needs them. Others are measured on edges alone."""
    return with_attributes(block) if parse_schedule(text).needs else block


def small(data: Path | None) -> None:
    """Print the graphs per second of the engine and of the transform."""
    print("\n| set | schedule | graphs/s | aim |\n|---|---|---|---|")
    for name in ("MUTAG", "NCI1"):
        if data is None:
            continue
        plain = common.tu_dataset(data / "TUDataset" / name)
        for alias in METHODS.entries:
            text, goal = schedule_of(alias), goal_text(GOALS.get(alias))
            schedule, block = parse_schedule(text), with_needs(plain, text)
            wall, _ = common.best(lambda b=block, s=schedule: coarsen(b, s), 4.0)
            print(f"| {name} | `{text}` | {block.num_graphs / wall:,.0f} | {goal} |", flush=True)
    if data is not None:
        per_graph(common.tu_dataset(data / "TUDataset" / "MUTAG"))


def per_graph(block: BlockCSR) -> None:
    """Print the graphs per second of the transform, which gets one graph at a time."""
    import torch
    from torch_geometric.data import Data

    from tgp.data import PreCoarsening

    def make(one: BlockCSR, needs: tuple[str, ...]) -> Data:
        values = {name: torch.from_numpy(one.node_values(name)) for name in needs}
        return Data(edge_index=torch.from_numpy(one.edge_index()), num_nodes=one.num_nodes, **values)

    graphs = with_attributes(block).split()
    print("\n| PreCoarsening per graph, MUTAG | graphs/s (wall) | goal |\n|---|---|---|")
    for alias in METHODS.entries:
        levels, goal = levels_of(alias), goal_text(TRANSFORM_GOALS.get(alias))
        transform = PreCoarsening(levels)
        items = [make(one, METHODS[alias].needs) for one in graphs]
        wall, _ = common.best(lambda t=transform, i=items: [t(item.clone()) for item in i], 3.0)
        print(f"| {alias}, {len(levels)} levels | {len(items) / wall:,.0f} | {goal} |", flush=True)


def _one(name: str, text: str, data: Path | None, queue: Any) -> None:
    """Measure one level of one method in a separate process, after a warm-up on small graphs."""
    coarsen(with_needs(grid2d(12, 12), text), text)
    coarsen(with_needs(barabasi_albert(300, 5, seed=0), text), text)
    block = with_needs(graphs(name, data), text)
    start, used = time.perf_counter(), time.process_time()
    memory = common.added_memory(lambda: coarsen(block, text))
    queue.put((block.num_edges // 2, time.perf_counter() - start, time.process_time() - used, memory))


def isolated(name: str, text: str, data: Path | None, limit: float) -> tuple[int, float, float, float] | None:
    """Return the result of :func:`_one`, or ``None`` if it takes too long or fails."""
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_one, args=(name, text, data, queue))
    process.start()
    end = time.monotonic() + limit
    while time.monotonic() < end and process.is_alive() and queue.empty():
        time.sleep(0.05)
    found = None if queue.empty() else queue.get()
    process.kill()
    process.join()
    return found


def large(data: Path | None, limit: float) -> None:
    """Print time and memory of one level on single graphs, and their growth."""
    names = ["grid 10000", "grid 100000", "grid 1000000", "BA 10000", "BA 100000"]
    names += ["NY", "Slashdot", "DBLP", "Physics"] if data is not None else []
    print("\n| graph | edges | method | wall s | cpu s | added MB |\n|---|---|---|---|---|---|")
    seen: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for name in names:
        for text in map(large_schedule_of, METHODS.entries):
            found = isolated(name, text, data, limit)
            if found is None:
                print(f"| {name} | | {text} | > {limit:.0f} or failed | | |", flush=True)
                continue
            edges, wall, cpu, memory = found
            print(f"| {name} | {edges:,} | {text} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |", flush=True)
            seen.setdefault((name.split()[0], text), []).append((edges, cpu, memory))
    print("\n| graphs | method | time ~ edges^ | memory ~ edges^ |\n|---|---|---|---|")
    for (kind, text), points in seen.items():
        if len(points) > 1:
            (e0, t0, m0), (e1, t1, m1) = points[0], points[-1]
            growth = [
                math.log(max(b, 1e-3) / max(a, 1e-3)) / math.log(e1 / e0) for a, b in ((t0, t1), (m0, m1))
            ]
            print(f"| {kind} | {text} | {growth[0]:.2f} | {growth[1]:.2f} |")


CUTS = (
    "graclus",
    "graclus:match_on=counts",
    "graclus:count_edges=true",
    "graclus:two_hop=true:match_on=counts",
)
"""Levels whose cuts are compared."""


def cuts(data: Path | None) -> None:
    """Print the share of cut edges at the first level with at most a hundredth of the nodes, and the time of all levels."""
    print(
        "\n| graph | level | levels | supernodes | cut | cpu s | cpu s of 10 A x |\n|---|---|---|---|---|---|---|"
    )
    names = [name for name in FAMILIES if name in ("kNN", "grid at random", "SBM", "BA")]
    for name in (*names, "NY", "Physics", "Slashdot") if data is not None else names:
        block = FAMILIES[name](1_000_000) if name in names else graphs(name, data)
        matrix = sp.csr_matrix(
            (np.ones(block.num_edges), block.indices, block.indptr), shape=(block.num_nodes,) * 2
        )
        vector = np.ones(block.num_nodes)
        _, peer = common.best(lambda m=matrix, v=vector: [m @ v for _ in range(10)], 1.0)
        rows, columns = block.edge_index()
        for text in CUTS:
            levels = coarsen(block, f"{text}*14").levels
            cluster, depth = np.arange(block.num_nodes), 0
            while depth < len(levels) and (
                not depth or levels[depth - 1].block.num_nodes > block.num_nodes / 100
            ):
                cluster = levels[depth].assignment.cluster[cluster]
                depth += 1
            _, cpu = common.best(lambda b=block, t=f"{text}*{depth}": coarsen(b, t), 2.0)
            size, cut = levels[depth - 1].block.num_nodes, (cluster[rows] != cluster[columns]).mean()
            print(
                f"| {name} | {text} | {depth} | {size:,} | {cut:.3f} | {cpu:.2f} | {peer:.3f} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one method on one graph")
    for part in ("small", "large", "cuts"):
        parser.add_argument(f"--{part}", action="store_true")
    args = parser.parse_args()
    data = args.data if args.data.is_dir() else None
    every = not (args.small or args.large or args.cuts)
    print(calibration())
    if args.small or every:
        small(data)
    if args.cuts or every:
        cuts(data)
    if args.large or every:
        large(data, args.limit)
    print("\n" + calibration())


if __name__ == "__main__":
    main()
