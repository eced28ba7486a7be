"""Does computing hierarchies once pay? Measured on a sample, with the same engine and the finished store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tgp.engine.coarsening import coarsen_safe
from tgp.build.jobs import topology
from tgp.engine.level_selection import unfold
from tgp.sources.source import table_block
from tgp.ragged import GraphTable
from tgp.store import StoreReader

__all__ = ["measure_epoch"]

BATCH_SIZE = 32
LEAST = 4
"""Batches to read even where that takes longer."""


def measure_epoch(
    path: str, names: list[str], online_seconds: float | None = None, budget: float = 0.25
) -> dict[str, Any]:
    """Seconds per epoch to coarsen every batch anew, and to read the levels from the store.

    Batches are drawn from the whole store in a scattered order, as shuffled training does.

    Args:
        path: the store.
        names: its hierarchies that count.
        online_seconds: time to coarsen all graphs where it is known and a sample would take too long.
        budget: seconds for each of the measurements.
    """
    reader = StoreReader(path)
    total = reader.num_graphs
    step = next(s for s in (7919, 104729, 1299709, 1) if np.gcd(s, total) == 1)
    order = np.arange(total) * step % total
    batches = [order[i : i + BATCH_SIZE] for i in range(0, total, BATCH_SIZE)]
    schedules = [(unfold(reader.hierarchies[n].schedule)[0], reader.hierarchies[n].seed) for n in names]
    fields = [f for f in ("edge_index", "edge_weight") if f in reader.fields]

    def online(graphs: GraphTable) -> None:
        block = table_block(topology(graphs, 0, graphs.num_graphs))
        for schedule, seed in schedules:
            coarsen_safe(block, schedule, seed)

    def read(ids: np.ndarray) -> None:
        for name in names:
            reader.gather_levels(ids, name)

    tables, deadline = [], time.perf_counter() + budget
    for ids in batches:
        tables.append(reader.gather_graphs(ids, fields))
        if time.perf_counter() > deadline and len(tables) >= LEAST:
            break
    batches = batches[: len(tables)]
    online_time = online_seconds
    if online_time is None:
        batches, online_time = _timed(online, tables, batches, budget)
    opened, _ = _timed(read, batches, batches, budget)  # opens shards, which an epoch does once
    used, reading = _timed(read, opened, opened, budget)
    measured, read_graphs = sum(map(len, batches)), sum(map(len, used))
    return {
        "online": online_time * (total / measured if online_seconds is None else 1.0),
        "reading": reading * total / read_graphs,
        "sample": min(measured, read_graphs),
        "batch_size": BATCH_SIZE,
    }


def _timed(
    call: Callable[[Any], None], items: Sequence[Any], batches: Sequence[Any], budget: float
) -> tuple[list[Any], float]:
    """Call for each item until the budget is used up: the batches that were done, and the seconds."""
    call(items[0])  # once without the clock: first use costs more
    started = time.perf_counter()
    done = 0
    for item in items:
        call(item)
        done += 1
        if time.perf_counter() - started > budget:
            break
    return list(batches[:done]), time.perf_counter() - started
