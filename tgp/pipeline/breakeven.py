"""Does computing hierarchies once pay? Measured on a sample, with the same engine and the finished store."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tgp.coarsen.run import coarsen_safe
from tgp.coarsen.schedule import Schedule
from tgp.pipeline.jobs import topology
from tgp.pipeline.source import table_block
from tgp.ragged import GraphTable
from tgp.store import StoreReader

__all__ = ["measure_epoch"]

BATCH_SIZE = 32
BUDGET = 0.25
"""Seconds to spend on either measurement."""


def measure_epoch(path: str, names: list[str], online_seconds: float | None = None) -> dict[str, Any]:
    """Seconds per epoch to coarsen every batch anew, and to read the levels from the store.

    Batches are drawn from the whole store in a scattered order, as shuffled training does.

    Args:
        path: the store.
        names: its hierarchies that count.
        online_seconds: time to coarsen all graphs where it is known and a sample would take too long.
    """
    reader = StoreReader(path)
    total = reader.num_graphs
    step = next(s for s in (7919, 104729, 1299709, 1) if np.gcd(s, total) == 1)
    order = np.arange(total) * step % total
    batches = [order[i : i + BATCH_SIZE] for i in range(0, total, BATCH_SIZE)]
    schedules = [
        (Schedule.from_json(list(reader.hierarchies[n].schedule)), reader.hierarchies[n].seed) for n in names
    ]
    fields = [f for f in ("edge_index", "edge_weight") if f in reader.fields]

    def online(graphs: GraphTable) -> None:
        block = table_block(topology(graphs, 0, graphs.num_graphs))
        for schedule, seed in schedules:
            coarsen_safe(block, schedule, seed)

    def read(ids: np.ndarray) -> None:
        for name in names:
            reader.gather_levels(ids, name)

    spent, measured, started = 0.0, 0, time.perf_counter()
    if online_seconds is None:
        online(reader.gather_graphs(batches[0], fields))  # once without the clock: first use costs more
    for ids in batches:
        graphs = reader.gather_graphs(ids, fields)
        before = time.perf_counter()
        if online_seconds is None:
            online(graphs)
        spent += time.perf_counter() - before
        measured += len(ids)
        if time.perf_counter() - started > BUDGET:
            break
    used = batches[: -(-measured // BATCH_SIZE)]
    read(used[0])
    before = time.perf_counter()
    for ids in used:
        read(ids)
    scale = total / measured
    reading = (time.perf_counter() - before) * scale
    online_time = spent * scale if online_seconds is None else online_seconds
    return {"online": online_time, "reading": reading, "sample": measured, "batch_size": BATCH_SIZE}
