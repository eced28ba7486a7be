"""Cost of carrying attributes: ``graclus*3`` of one graph of 10^7 edges, without and with ``pos`` and ``edge_attr``.

python tests/benchmarks/bench_carry.py [--nodes 1000000] [--edges 10000000] [--rounds 5] [--json FILE]

The graph is random, or its edges connect nodes with near numbers (``local``). Steps take turns. A figure is processor
seconds, the best of the rounds. The aim is a total of at most 1.5 times the time of coarsening without attributes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import coarsen
from tgp.ragged import BlockCSR, Field, GraphTable

SCHEDULE = "graclus*3"


def make_table(kind: str, nodes: int, edges: int) -> GraphTable:
    """Return a graph with ``pos`` ``[N, 3]`` and ``edge_attr`` ``[E, 4]``."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, nodes, edges // 2)
    step = rng.integers(1, nodes if kind == "random" else 2000, edges // 2)
    target = (source + step) % nodes
    edge_index = np.stack([np.append(source, target), np.append(target, source)])
    edge_index = BlockCSR.from_edge_index(edge_index, num_nodes=nodes).edge_index()
    node_ptr, edge_ptr = np.array([0, nodes]), np.array([0, edge_index.shape[1]])
    fields = {
        "edge_index": Field("edge_index", edge_index, edge_ptr, -1, "rows", True),
        "pos": Field("pos", rng.random((nodes, 3), np.float32), node_ptr),
        "edge_attr": Field("edge_attr", rng.random((edge_index.shape[1], 4), np.float32), edge_ptr),
    }
    return GraphTable(node_ptr, fields)


def measure(kind: str, nodes: int, edges: int, rounds: int) -> dict[str, float]:
    """Return the processor seconds of each step, the best of the rounds."""
    table = make_table(kind, nodes, edges)
    hierarchy = coarsen(table.to_block(), SCHEDULE)
    steps: dict[str, Callable[[], object]] = {
        "coarsen": lambda: coarsen(table.to_block(), SCHEDULE),
        "pos": lambda: carry_fields(table, hierarchy, resolve(CarryRules.parse("pos=mean"), table)),
        "edge_attr": lambda: carry_fields(
            table, hierarchy, resolve(CarryRules.parse("edge_attr=mean"), table)
        ),
        "both": lambda: carry_fields(table, hierarchy, resolve(CarryRules.parse("auto"), table)),
    }
    best = dict.fromkeys(steps, float("inf"))
    for number in range(rounds + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if number:  # the first round compiles
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {kind: measure(kind, given.nodes, given.edges, given.rounds) for kind in ("random", "local")}
    print("| graph | coarsening, s | + pos, s | + edge_attr, s | + both, s | total / coarsening |")
    print("|---|---|---|---|---|---|")
    for kind, best in found.items():
        shown = " | ".join(f"{best[name]:.2f}" for name in ("coarsen", "pos", "edge_attr", "both"))
        print(f"| {kind} | {shown} | {1 + best['both'] / best['coarsen']:.1f} |")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
